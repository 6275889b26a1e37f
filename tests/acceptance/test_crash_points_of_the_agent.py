"""Crash points C10 to C18 of agents: each agent is killed, or paused for twice lost_after and resumed, at a point of its own, under load.

All of them break in one world, so that they are waited for together; each test looks at what became of the jobs of one.
"""

import signal
import time
from dataclasses import dataclass
from functools import partial

import pytest
from faults.aim import Aims, Fate, is_stopped
from faults.at_point import AtPoint
from promises.guarantees import EITHER, FAILED, Evidence, Expected, InterruptedOnlyOf, LostOnlyOf
from worlds.world import MakeWorld, World

from jobyard.kafka.admin import Admin
from jobyard.process.points import Point

pytestmark = pytest.mark.timeout(400)  # a start of all services, and of twenty agents, under load included

LOST_AFTER_S = 5.0
PARTITIONS = 150
LONG_S = 3600.0
OVER_WHEN_IT_WAKES_S = 8.0
"""Goes on when its agent is paused, and is over at once when that is resumed."""
TINY = 12

POINTS: dict[str, tuple[Point, str, str]] = {
    "c10_killed": (Point.TURN_HEARD, "read", ""),
    "c10_again": (Point.TURN_HEARD, "read", ""),
    "c10_paused": (Point.TURN_HEARD, "read", ""),
    "c11_decided": (Point.REPORTS_DECIDED, "said started", ""),
    "c11_sent": (Point.REPORTS_SENT, "said started", ""),
    "c11_acknowledged": (Point.TURN_HEARD, "started acknowledged", ""),
    "c11_sent_paused": (Point.REPORTS_SENT, "said started", ""),
    "c11_acknowledged_paused": (Point.TURN_HEARD, "started acknowledged", ""),
    "c12_killed": (Point.TURN_HEARD, "begun", ""),
    "c12_paused": (Point.TURN_HEARD, "begun", ""),
    "c13_decided": (Point.REPORTS_DECIDED, "said ended", ""),
    "c13_decided_paused": (Point.REPORTS_DECIDED, "said ended", ""),
    "c13_sent": (Point.REPORTS_SENT, "said ended", ""),
    "c13_sent_paused": (Point.REPORTS_SENT, "said ended", ""),
    "c15_killed": (Point.TURN_HEARD, "reported", "tiny"),
    "c15_paused": (Point.TURN_HEARD, "reported", "tiny"),
    "c18_killed": (Point.TURN_HEARD, "reported", "interrupted"),
    "c18_paused": (Point.TURN_HEARD, "reported", "interrupted"),
}
"""Where each breaks, on what condition, and with the jobs of which parts ("": all)."""
WINDOW = ("c17_careful", "c17_plain")
"""Pause themselves by the first thing that a handler does: between the look at the lease and the handler's own code."""
ALL = (*POINTS, *WINDOW)
PAUSED = tuple(name for name in ALL if name.endswith("_paused") or name in WINDOW)
BUNDLED = tuple(name for name in ALL if name[:3] in ("c15", "c18"))
LEAVING = tuple(name for name in ALL if name.startswith("c18"))


@dataclass(frozen=True)
class Broken:
    """What is known after all has ended. `resumed`: when the paused ones were."""

    aims: Aims
    evidence: Evidence
    resumed: float
    shut_down: set[str]
    statuses: dict[str, int]

    def fate(self, name: str, part: str) -> Fate:
        return Fate.of(self.evidence, self.aims[name].id(part))

    def fates(self, name: str, start: str) -> list[Fate]:
        """Of all parts whose names start so."""
        return [Fate.of(self.evidence, job) for job in self.aims[name].ids(start)]


def _prepare(aims: Aims) -> None:
    """Jobs are made before the agents start: these are told which to break at."""
    for name, (point, when, about) in POINTS.items():
        long_s = OVER_WHEN_IT_WAKES_S if name in PAUSED else LONG_S
        match name[:3]:
            case "c10":
                for i in (1, 2):
                    aims.job(name, f"careful {i}", attempts=1)
                    aims.job(name, f"plain {i}")
            case "c11":
                second = name.startswith("c11_sent")  # the second of two attempts is a careful one, too
                aims.job(name, "careful", Expected(EITHER), attempts=2 if second else 1, fails=second)
            case "c12":
                aims.job(name, "once", Expected(FAILED), attempts=1, first_s=long_s)
                aims.job(name, "plain", first_s=long_s)
            case "c13":
                aims.job(name, "once", Expected(EITHER), attempts=1, first_s=0.3)
                aims.job(name, "plain", first_s=0.3)
            case "c15":
                aims[name].slots = 20
                for i in range(TINY):
                    if i in (2, 6, 10):
                        aims.job(name, f"slow {i}", first_s=long_s)
                    if i == 1:
                        aims.job(name, "once", Expected(FAILED), attempts=1, first_s=long_s)
                    aims.job(name, f"tiny {i}")
            case _:
                aims[name].slots = 2
                aims.job(name, "interrupted", first_s=LONG_S)
                aims.job(name, "stubborn", first_s=LONG_S, signals="SIGTERM", stubborn=True)
                for i in range(4):
                    aims.job(name, f"queued {i}")
        aims[name].at = AtPoint(point, "pause" if name in PAUSED else "kill", when, jobs=aims[name].ids(about))
    aims.job("c17_careful", "careful", Expected(FAILED), attempts=1, signals="SIGSTOP")
    aims.job("c17_plain", "plain", signals="SIGSTOP")


def _submit(aims: Aims, *names: str) -> None:
    aims.submit([job for name in names for part, job in aims[name].jobs.items() if not part.startswith("warm")])


def _break_all(world: World) -> Broken:
    admin = Admin(world.addresses.kafka_bootstrap_servers, {})
    admin.add_partitions(world.topics.buckets.name, PARTITIONS)
    admin.close()
    world.coordinator("coordinator")
    aims = Aims(world, ALL)
    _prepare(aims)
    made = dict(world.expected)  # not submitted yet: nobody waits for them now
    world.expected.clear()
    world.agent("bert")
    for name in ALL:
        aims.start(name)
    world.until_active("bert", *ALL)
    hello = AtPoint(Point.REPORTS_DECIDED, "pause")  # so that the next one of this name comes at once when it is let go
    world.agent("c10_again", process="c10_again anew", aims=["c10_again"], at=hello)
    world.until_broken("c10_again anew", hello)
    aims.warm(BUNDLED)
    world.expected.update(made)

    _submit(aims, *BUNDLED)
    world.submit_mixed(200, by_cli=0)
    world.until_under_way("bert")
    _submit(aims, *(name for name in ALL if name not in BUNDLED))
    aims.until_broken("c10_again")
    world.send("c10_again anew", signal.SIGCONT)
    aims.until_broken(*(name for name in POINTS if name != "c10_again"))
    for name in WINDOW:
        aims[name].broken = world.until(f"{name} has paused itself", partial(is_stopped, aims[name].pid))
    world.agent("cleo", slots=50, aims=[name for name in ALL if name != "c10_again"])

    last = max(aims[name].broken for name in PAUSED)
    world.until("twice lost_after is over", lambda: time.monotonic() > last + 2 * LOST_AFTER_S)
    lost = "select count(distinct name) from jobyard.agents where name = any(%s) and state = 'lost'"
    world.until("the paused are lost", lambda: world.number(lost, list(PAUSED)) == len(PAUSED))
    others = [job for name in PAUSED for part, job in aims[name].jobs.items() if not part.startswith("warm")]
    world.until("their jobs have ended elsewhere", lambda: all(world.is_final(str(job.id)) for job in others))
    resumed = time.monotonic()
    for name in PAUSED:
        world.send(name, signal.SIGCONT)
    statuses = {"c18_paused": world.status_of("c18_paused")}
    world.until_active(*(name for name in PAUSED if name != "c18_paused"))
    late = [*aims["c12_paused"].ids(), *aims["c13_decided_paused"].ids(), *aims["c15_paused"].ids("slow"), *aims["c17_plain"].ids()]
    world.until(
        "what came late is kept",
        lambda: world.number("select count(*) from jobyard.late_reports where job_id = any(%s::uuid[])", late) == len(late),
    )
    evidence = world.check(LostOnlyOf(ALL), InterruptedOnlyOf(LEAVING))
    given_back = world.rows(
        "select job_id::text from jobyard.attempt_history where outcome = 'released' and agent = any(%s) and error_message = 'the agent shuts down'",
        list(LEAVING),
    )
    aims.close()
    return Broken(aims, evidence, resumed, {row["job_id"] for row in given_back}, statuses)


@pytest.fixture(scope="module")
def broken(module_world: MakeWorld) -> Broken:
    with module_world(lost_after_s=LOST_AFTER_S) as world:
        return _break_all(world)


@pytest.mark.parametrize("name", ["c10_killed", "c10_again", "c10_paused"])
def test_C10_what_was_read_and_not_started_is_released_if_careful_and_else_lost(broken: Broken, name: str) -> None:
    for fate in broken.fates(name, "careful"):
        assert fate.outcomes == ["released", "succeeded"]
        assert fate.ran == [2]
        assert fate.used == 0
    for fate in broken.fates(name, "plain"):
        assert fate.outcomes == ["lost", "succeeded"]
        assert fate.ran == [2]
        assert fate.used == 1


def test_C10_careful_jobs_of_a_replaced_incarnation_wait_until_its_lease_is_over(broken: Broken) -> None:
    """L11. The others are lost as soon as the newer one says hello."""

    def waited_s(part: str) -> list[float]:
        rows = [fate.attempts[0] for fate in broken.fates("c10_again", part)]
        assert {row["agent_state"] for row in rows} == {"replaced"}
        return [(row["finished_at"] - row["placed_at"]).total_seconds() for row in rows]

    assert min(waited_s("careful")) > LOST_AFTER_S / 2  # since its last report: an agent that is silent for half of that gets nothing
    assert max(waited_s("plain")) < min(waited_s("careful"))


def test_C11_a_careful_job_whose_started_never_left_is_placed_again(broken: Broken) -> None:
    fate = broken.fate("c11_decided", "careful")
    assert fate.outcomes == ["released", "succeeded"]
    assert fate.ran == [2]


@pytest.mark.parametrize("name", ["c11_sent", "c11_sent_paused"])
def test_C11_a_careful_job_whose_started_is_on_its_way_is_placed_again_or_lost_and_not_started_there(broken: Broken, name: str) -> None:
    """The second of two attempts; the first one has failed."""
    fate = broken.fate(name, "careful")
    if fate.state == "failed":
        assert fate.outcomes == ["failed", "lost"]
        assert fate.ran == [1]
    else:
        assert fate.outcomes == ["failed", "released", "succeeded"]
        assert fate.ran == [1, 3]


@pytest.mark.parametrize("name", ["c11_acknowledged", "c11_acknowledged_paused"])
def test_C11_a_careful_job_whose_started_has_arrived_is_lost_and_not_started(broken: Broken, name: str) -> None:
    fate = broken.fate(name, "careful")
    assert (fate.state, fate.error) == ("failed", "Lost")
    assert fate.outcomes == ["lost"]
    assert fate.ran == []


@pytest.mark.parametrize("name", ["c12_killed", "c12_paused", "c13_decided", "c13_decided_paused"])
def test_C12_C13_what_ran_or_was_done_unreported_is_lost_and_tried_again_only_if_attempts_are_left(broken: Broken, name: str) -> None:
    once, plain = broken.fate(name, "once"), broken.fate(name, "plain")
    assert (once.state, once.error) == ("failed", "Lost")
    assert once.outcomes == ["lost"]
    assert once.ran == [1]
    assert plain.outcomes == ["lost", "succeeded"]
    assert sorted(plain.ran) == [1, 2]
    assert [execution.pid for execution in plain.executions if execution.attempt == 1] == [broken.aims[name].pid]
    if name == "c13_decided":
        assert once.executions[0].returned or plain.executions[0].returned  # the point: a handler was done
    for fate in (once, plain):  # a success that comes when the job is final changes nothing
        assert [(row["outcome"], row["closed_job"]) for row in fate.late] == ([("succeeded", False)] if name in PAUSED else [])


@pytest.mark.parametrize("name", ["c13_sent", "c13_sent_paused"])
def test_C13_a_report_on_its_way_counts_if_it_arrives(broken: Broken, name: str) -> None:
    for part in ("once", "plain"):
        fate = broken.fate(name, part)
        if fate.outcomes == ["succeeded"]:
            assert fate.ran == [1]
        elif part == "once":
            assert (fate.state, fate.outcomes, fate.ran) == ("failed", ["lost"], [1])
        else:
            assert (fate.outcomes, sorted(fate.ran)) == (["lost", "succeeded"], [1, 2])


@pytest.mark.parametrize("name", ["c15_killed", "c15_paused"])
def test_C15_of_a_bundle_reported_in_part_only_the_rest_goes_back(broken: Broken, name: str) -> None:
    tiny, slow, once = broken.fates(name, "tiny"), broken.fates(name, "slow"), broken.fate(name, "once")
    assert {fate.attempts[0]["fence"] for fate in slow} & {fate.attempts[0]["fence"] for fate in tiny}  # in one bundle
    for fate in tiny:
        assert fate.outcomes == ["succeeded"]
        assert fate.ran == [1]
    for fate in slow:
        assert fate.outcomes == ["lost", "succeeded"]
        assert fate.ran == [1, 2]
    assert once.outcomes == ["lost"]
    assert once.state == "failed"


@pytest.mark.parametrize("name", PAUSED)
def test_C16_what_was_paused_beyond_its_lease_starts_nothing_of_its_old_life(broken: Broken, name: str) -> None:
    """Of the mixed workload, too. But what was past the look at the lease (I6)."""
    old = {
        (job, row["fence"])
        for job, rows in broken.evidence.attempts.items()
        for row in rows
        if row["agent"] == name and row["agent_state"] == "lost"
    }
    assert old
    started = [one for job, fence in old for one in broken.evidence.executions.get(job, []) if one.fence == fence]
    after = {one.job for one in started if one.started > broken.aims[name].broken}
    assert after == (set(broken.aims[name].ids()) if name in WINDOW else set())


def test_I6_between_the_look_at_the_lease_and_the_call_a_careful_job_starts_late_and_only_there(broken: Broken) -> None:
    fate = broken.fate("c17_careful", "careful")
    assert (fate.state, fate.outcomes, fate.ran) == ("failed", ["lost"], [1])
    assert fate.executions[0].started > broken.resumed
    assert fate.executions[0].returned
    assert all(not row["closed_job"] for row in fate.late)


def test_I6_between_the_look_at_the_lease_and_the_call_another_job_starts_twice_as_promised(broken: Broken) -> None:
    fate = broken.fate("c17_plain", "plain")
    assert fate.outcomes == ["lost", "succeeded"]
    assert fate.ran == [2, 1]
    assert [(row["outcome"], row["closed_job"]) for row in fate.late] == [("succeeded", False)]


@pytest.mark.parametrize("name", LEAVING)
def test_C18_what_was_given_back_and_interrupted_before_the_end_counts_and_the_rest_is_lost(broken: Broken, name: str) -> None:
    interrupted, stubborn = broken.fate(name, "interrupted"), broken.fate(name, "stubborn")
    assert interrupted.outcomes == ["interrupted", "succeeded"]
    assert interrupted.used == 0
    assert stubborn.outcomes == ["lost", "succeeded"]
    assert stubborn.used == 1
    for job, fate in zip(broken.aims[name].ids("queued"), broken.fates(name, "queued"), strict=True):
        assert fate.outcomes == ["released", "succeeded"]
        assert fate.ran == [2]
        assert job in broken.shut_down
    states = {row["agent_state"] for rows in broken.evidence.attempts.values() for row in rows if row["agent"] == name}
    assert states == {"lost"}  # nobody said goodbye


def test_C18_one_that_is_lost_while_it_ends_ends(broken: Broken) -> None:
    assert broken.statuses["c18_paused"] == 5  # code of a handler that would not stop still ran
