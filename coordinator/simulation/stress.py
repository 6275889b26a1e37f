"""One case from beginning to end: jobs and faults for a while, then peace, in which everything must end."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Final

from jobyard.coordinator.simulation import plan
from jobyard.coordinator.simulation.case import Case
from jobyard.coordinator.simulation.jobs import KINDS, mixed
from jobyard.coordinator.simulation.violation import Violation
from jobyard.coordinator.simulation.world import Checking, World

PEACE_S: Final = 400.0
"""Everything must have ended so long after the last fault."""


@dataclass(slots=True)
class Outcome:
    """What became of a case. `rule`, `what`: the invariant that broke; None: none did."""

    case: Case
    steps: int = 0
    checks: int = 0
    trace: int = 0
    seconds: float = 0.0
    starts: int = 0
    twice: int = 0
    takeovers: int = 0
    faults: Counter[str] = field(default_factory=Counter[str])
    planned: int = 0
    rule: str | None = None
    what: str = ""
    log: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])


def run(case: Case, checking: Checking | None = None) -> Outcome:
    """The whole history of a case."""
    chance = Random(case.seed)
    faults = plan.drawn(case, chance)
    world = World(chance, case.rules, case.coordinators, checking or Checking(order=not case.fair))
    outcome = Outcome(case, planned=len(faults))
    try:
        _live(world, case, faults)
    except Violation as broken:
        outcome.rule, outcome.what = broken.rule, broken.what
    except Exception as error:
        outcome.rule, outcome.what = type(error).__name__, str(error)
    outcome.steps, outcome.trace, outcome.seconds = world.schedule.steps, world.schedule.trace, world.schedule.now
    outcome.checks, outcome.starts, outcome.twice = world.checks, world.ledger.starts, world.starts.twice
    outcome.takeovers = sum(candidate.takeovers for candidate in world.candidates)
    outcome.faults, outcome.log = world.faults.done, world.faults.log
    return outcome


def _live(world: World, case: Case, faults: list[plan.Fault]) -> None:
    chance = world.chance

    def make() -> tuple[dict[str, int], float, int]:
        kinds = {kind: 1 for kind in KINDS if chance.random() < 0.85}
        return kinds, chance.choice((2.0, 4.0, 8.0)), chance.choice((1, 2, 4, 8))

    world.order(mixed(chance, case.jobs, case.seconds))
    world.agents(make, case.agents)
    world.faults.schedule(faults)
    for at in (0.0, 0.4, 0.7) if case.fair else ():
        world.schedule.at(at * case.seconds, lambda: world.clients.mode("fair_share"), "fair share")
    world.run_until(case.seconds)
    world.heal()
    for candidate in world.candidates:
        if not candidate.alive:
            candidate.restart()
    world.start_worker("last", dict.fromkeys(KINDS, 1), 10.0, 4)
    world.run_until(world.schedule.now + PEACE_S, lambda: world.rest.reached and not world.clients.unsent)
    world.rest.check()
    repairs = world.database.tables.repairs
    if not faults and repairs:
        raise Violation("L12", f"nothing was broken, and {repairs[0]} was written")
