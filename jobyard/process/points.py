"""Named points in the life of a coordinator and of an agent, at which a test has the process killed or paused.

Nothing in the product arms one: there is no setting for it. A point that nobody armed costs a call and a look at an empty dictionary (60 ns), and all of
them lie on the path of a tick, a turn or a message, none on that of a job.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

Action: TypeAlias = Callable[..., None]
"""Gets the facts of the point."""


class Point(StrEnum):
    """What has just happened, and the facts that are told with it."""

    # a leadership begins
    EPOCH_TAKEN = "epoch taken"
    """T1 is committed."""
    SNAPSHOT_READ = "snapshot read"
    """T2 is done."""
    POSITIONS_FOUND = "positions found"
    """T3 is done."""
    OPENING_COMMITTED = "opening committed"
    """What the take-over decided is committed, nothing of it sent. Facts: the events."""
    OPENING_SENT = "opening sent"
    """T5 and T6 are handed to the producer. Facts: the events."""
    # a tick
    MESSAGES_TAKEN = "messages taken"
    """A tick has begun. Facts: its batch."""
    QUESTIONS_ASKED = "questions asked"
    """New jobs are inserted, nothing is committed. Facts: the batch."""
    ROWS_SENT = "rows sent"
    """A tick's rows are on their way, the lease and the COMMIT are not: its transaction holds locks. Facts: the events."""
    COMMIT_SENT = "commit sent"
    """The COMMIT is on its way, its answer is not here. Facts: the events."""
    TICK_COMMITTED = "tick committed"
    """Nothing of it is sent. Facts: the events."""
    MESSAGE_MADE = "message made"
    """One message is looked up, not handed to the producer. Facts: the event."""
    MESSAGE_PRODUCED = "message produced"
    """One message is handed to the producer. Facts: the event."""
    DELIVERY_FAILED = "delivery failed"
    """One message was not delivered. Facts: the event."""
    # an agent's turn
    TURN_HEARD = "turn heard"
    """What came in is in the books, nothing is decided.

    Facts: what was taken, the reports that the broker has acknowledged since the last turn, and whether it has all.
    """
    REPORTS_DECIDED = "reports decided"
    """Facts: what is to be said."""
    REPORTS_SENT = "reports sent"
    """They are handed to the producer, not acknowledged. Facts: what was said."""


_armed: dict[Point, Action] = {}


def arm(point: Point, action: Action) -> None:
    """From now on `action` is called there, in the thread that gets there. For tests."""
    _armed[point] = action


def disarm() -> None:
    """No point is armed any more."""
    _armed.clear()


def reached(point: Point, *facts: object) -> None:
    """The program is at this point."""
    if _armed:
        action = _armed.get(point)
        if action is not None:
            action(*facts)
