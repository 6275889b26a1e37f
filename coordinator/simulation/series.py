"""A run as a series of moments: what waits, runs and stands where, for pictures and for reading."""

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from jobyard.coordinator.simulation.world import World


class Moment(msgspec.Struct, kw_only=True):
    """By agent's name: `running`: jobs that really run; `busy`: the load that they make (the larger of jobs ÷ slots and sizes ÷ capacity); `held`: the
    load by the tables, of agents that are not over. `whole`: agents that run a job of their whole capacity or more.

    `waiting`: rows of `pending` that are due. `ended`: jobs so far.
    """

    at: float
    waiting: int
    running: dict[str, int]
    busy: dict[str, float]
    held: dict[str, float]
    whole: list[str]
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
    """Looks at a world every so many seconds, the first time after half of that: what came in at a full second is placed by then, if it can be."""

    def __init__(self, title: str, every_s: float) -> None:
        self.story = Story(title=title)
        self._every_s = every_s

    def watch(self, world: "World") -> None:
        """Begin to look."""
        world.schedule.after(self._every_s / 2, lambda: self._look(world), "look")

    def mark(self, at: float, what: str) -> None:
        """Note what happened."""
        self.story.marks.append(Marked(round(at, 3), what))

    def _look(self, world: "World") -> None:
        tables, now = world.database.tables, world.database.now()
        running: dict[str, int] = {}
        busy: dict[str, float] = {}
        whole: list[str] = []
        for worker in world.workers:
            slots, name = worker.core.slots, worker.name
            self.story.slots.setdefault(name, slots.slots)
            sizes = [tables.jobs[job].size for job in world.ledger.going.get(worker.process, ())]
            running[name] = len(sizes)
            busy[name] = round(max(len(sizes) / slots.slots, sum(sizes) / slots.capacity), 4)
            if any(size >= slots.capacity for size in sizes):
                whole.append(name)
        held: dict[str, float] = {}
        for number, row in tables.agents.items():
            if not row.ended:
                jobs, size = world.placements.held(number)
                held[row.name] = round(max(jobs / row.slots, size / row.capacity), 4)
        self.story.moments.append(
            Moment(
                at=round(world.schedule.now, 3),
                waiting=sum(row.run_at <= now for row in tables.pending.values()),
                running=running,
                busy=busy,
                held=held,
                whole=whole,
                ended=len(tables.finals),
                epoch=tables.epoch,
            )
        )
        world.schedule.after(self._every_s, lambda: self._look(world), "look")
