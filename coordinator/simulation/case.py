"""One simulated history, named by a few numbers: what a failing seed is repeated and shrunk by."""

import dataclasses
from dataclasses import dataclass
from random import Random

import msgspec

from jobyard.contracts.rules import Rules

QUICK = Rules(
    lease_s=2.0,
    trust_s=1.5,
    takeover_s=4.0,
    renew_s=0.5,
    elect_s=0.3,
    unreachable_after_s=1.5,
    lost_after_s=4.0,
    lease_margin_s=1.0,
    heartbeat_s=0.5,
    inventory_s=2.0,
    held_after_s=1.0,
    cancel_again_s=1.0,
    release_after_s=1.0,
    window_s=0.25,
    aging_s=8.0,
    aged_every=5,
    reserve_after_s=3.0,
    learned_every_s=1.0,
    tick_wait_s=0.05,
    sleep_after_s=0.5,
    poll_s=0.7,
    held_again_s=0.3,
    topics_every_s=1.0,
    restored_every_s=5.0,
)
"""The product's rules with shorter times, so that more happens in fewer steps."""


class _Text(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    seed: int
    jobs: int
    agents: int
    coordinators: int
    seconds: float
    faults: list[int] | None = None
    memory: int | None = None
    fair: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """`seconds`: for how long jobs come and things break; then all is mended, and everything must end. `faults`: which of the plan's; None: all.

    `memory`: how many waiting jobs of a priority and kind a leader holds at most; None: all there are. `fair`: submitters take turns, but for a while.
    """

    seed: int
    jobs: int
    agents: int
    coordinators: int
    seconds: float
    faults: tuple[int, ...] | None = None
    memory: int | None = None
    fair: bool = False

    @classmethod
    def drawn(cls, seed: int) -> "Case":
        """A world of a size that the seed tells."""
        chance = Random(f"size {seed}")
        jobs, agents, coordinators = chance.choice((10, 25, 50, 100)), chance.randint(1, 5), chance.randint(1, 3)
        seconds, memory = chance.choice((15.0, 30.0, 60.0)), chance.choice((None, None, 1, 3))
        return cls(seed, jobs, agents, coordinators, seconds, memory=memory, fair=chance.random() < 0.25)

    @property
    def rules(self) -> Rules:
        """Those that it goes by."""
        return QUICK if self.memory is None else dataclasses.replace(QUICK, read_ahead=self.memory)

    @property
    def text(self) -> str:
        """As `parsed` reads it."""
        faults = None if self.faults is None else list(self.faults)
        found = _Text(self.seed, self.jobs, self.agents, self.coordinators, self.seconds, faults, self.memory, self.fair)
        return msgspec.json.encode(found).decode()

    @classmethod
    def parsed(cls, text: str) -> "Case":
        """ValueError for what is none."""
        try:
            found = msgspec.json.decode(text, type=_Text)
        except msgspec.MsgspecError as error:
            raise ValueError(f"no case: {error}") from None
        faults = None if found.faults is None else tuple(found.faults)
        return cls(found.seed, found.jobs, found.agents, found.coordinators, found.seconds, faults, found.memory, found.fair)
