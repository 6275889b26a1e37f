"""A run as a series of moments: what waits, runs and stands where, for pictures and for reading."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from jobyard.coordinator.simulation.world import World


class Moment(msgspec.Struct, kw_only=True):
    """`held`, `running`: jobs by agent's name; sizes in `room`: held ÷ capacity. `waiting`: rows of `pending` that are due. `ended`: jobs so far."""

    at: float
    waiting: int
    running: dict[str, int]
    room: dict[str, float]
    ended: int
    epoch: int


class Marked(msgspec.Struct):
    """Something that a reader should know of."""

    at: float
    what: str


class Story(msgspec.Struct, kw_only=True):
    """A whole series. `slots`: of each agent that ever was."""

    title: str
    moments: list[Moment] = []
    marks: list[Marked] = []
    slots: dict[str, int] = {}


class Series:
    """Looks at a world every so many seconds."""

    def __init__(self, title: str, every_s: float) -> None:
        self.story = Story(title=title)
        self._every_s = every_s
        self._until: Callable[[], bool] = lambda: False

    def watch(self, world: "World", until: Callable[[], bool] = lambda: False) -> None:
        """Begin to look; for ever, or until then."""
        self._until = until
        self._look(world)

    def mark(self, at: float, what: str) -> None:
        """Note what happened."""
        self.story.marks.append(Marked(round(at, 3), what))

    def _look(self, world: "World") -> None:
        tables, now = world.database.tables, world.database.now()
        for worker in world.workers:
            self.story.slots.setdefault(worker.name, worker.core.slots.slots)
        names = {row.agent_id: row for row in tables.agents.values() if not row.ended}
        self.story.moments.append(
            Moment(
                at=round(world.schedule.now, 3),
                waiting=sum(row.run_at <= now for row in tables.pending.values()),
                running={worker.name: len(world.ledger.going.get(worker.process, ())) for worker in world.workers},
                room={row.name: round(world.placements.held(number)[1] / row.capacity, 4) for number, row in names.items()},
                ended=len(tables.finals),
                epoch=tables.epoch,
            )
        )
        if not self._until():
            world.schedule.after(self._every_s, lambda: self._look(world), "look")
