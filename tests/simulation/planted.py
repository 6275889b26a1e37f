"""Bugs planted on purpose: what the simulator must find, each switched on by a patch that no product code knows of."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import pytest

from jobyard.agent.core.agent import Agent
from jobyard.agent.core.fences import Fences, Known
from jobyard.contracts.bundle import BundleMessage
from jobyard.coordinator.core.books.agents import Agent as Believed
from jobyard.coordinator.core.books.fleet import Fleet
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.core.lane import Lane
from jobyard.coordinator.core.snapshot import Snapshot
from jobyard.coordinator.seams import LaneStore, Term
from jobyard.coordinator.tick import Tick


def skip_the_fence_check(patch: pytest.MonkeyPatch) -> None:
    """The agent takes every bundle for a new one (A4)."""
    hear, get = Agent.hear_bundle, Fences.get

    def unknown(self: Fences, fence: int) -> Known | None:
        return None

    def hearing(self: Agent, message: BundleMessage, now: float, at: float) -> None:
        Fences.get = unknown  # type: ignore[method-assign] # for this call alone
        try:
            hear(self, message, now, at)
        finally:
            Fences.get = get  # type: ignore[method-assign]

    patch.setattr(Agent, "hear_bundle", hearing)


def send_before_commit(patch: pytest.MonkeyPatch) -> None:
    """The leader sends what it has decided, and then commits it (L4)."""
    made = Tick.__init__

    def making(self: Tick, lane: Lane, store: LaneStore, *parts: object, **more: object) -> None:
        made(self, lane, store, *parts, **more)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - passed on as they came
        sender, write = parts[2], store.write

        def writing(events: list[Event], offsets: dict[str, tuple[str, int]], fence: int, term: Term) -> None:
            sender.send(events)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - a Sender
            write(events, offsets, fence, term)

        patch.setattr(store, "write", writing)

    patch.setattr(Tick, "__init__", making)


def forget_running_load(patch: pytest.MonkeyPatch) -> None:
    """A leader that has taken over believes that all agents are empty."""
    load = Lane.load.__func__  # type: ignore[attr-defined] # pyright: ignore[reportFunctionMemberAccess, reportUnknownMemberType, reportUnknownVariableType] - of the class method
    gave = Fleet.gave

    def forgetting(cls: type[Lane], /, snapshot: Snapshot, **more: object) -> Lane:
        def nothing(self: Fleet, agent: Believed, jobs: int, size: float, largest: float) -> None:
            pass

        Fleet.gave = nothing  # type: ignore[method-assign] # for this call alone
        try:
            return load(cls, snapshot, **more)  # type: ignore[no-any-return] # pyright: ignore[reportUnknownVariableType] - a Lane
        finally:
            Fleet.gave = gave  # type: ignore[method-assign]

    patch.setattr(Lane, "load", classmethod(forgetting))


PLANTED: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "skip the fence check": skip_the_fence_check,
    "send before commit": send_before_commit,
    "forget running load after a take-over": forget_running_load,
}


@contextmanager
def planted(name: str) -> Generator[None]:
    """The bug is there while this lasts."""
    with pytest.MonkeyPatch.context() as patch:
        PLANTED[name](patch)
        yield
