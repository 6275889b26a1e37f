"""One job under one fence, as an agent holds it.

queued ──► awaiting (careful, A7) ──► handed ──► running ──► ended
  │  ▲          └──────────────────────┘│
  │  └── the lease had ended (A6) ──────┘
  ├──► waiting (an older execution of the job goes on, A9) ──► queued
  ├──► ended (cancelled), released
  └──► closed: the leader has ended it; nothing is said of it any more. From running, too, once its code has stopped
"""

from typing import Final

import msgspec

from jobyard.agent.core.incarnation import Life
from jobyard.contracts.job import Job
from jobyard.contracts.reports import End

QUEUED: Final = 0
WAITING: Final = 1
AWAITING: Final = 2
HANDED: Final = 3
RUNNING: Final = 4
ENDED: Final = 5
RELEASED: Final = 6
CLOSED: Final = 7


class Held(msgspec.Struct, eq=False):
    """The first nine fields never change, and may be read by any thread; the others belong to the turn thread.

    `arrived`, `began`: the agent's clock. `acked`: the broker has acknowledged its `started` (careful ones). `said`: started has been reported.
    `proposed`: the progress to report next, not before `progress_at` + 1 s, and not while one is on its way (`progressing`).
    """

    fence: int
    bucket: int
    job: Job
    attempt: int
    used: int
    careful: bool
    life: Life
    priority: int
    first_arrived: float
    arrived: float
    state: int = QUEUED
    acked: bool = False
    cancelled: bool = False
    said: bool = False
    began: float = 0.0
    began_at: float = 0.0
    end: End | None = None
    proposed: tuple[float, float | None, str] | None = None
    progress_at: float = float("-inf")
    progressing: bool = False

    @property
    def unfinished(self) -> bool:
        """Whether the agent still has something to do for it."""
        return self.state < ENDED
