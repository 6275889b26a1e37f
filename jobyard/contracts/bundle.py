"""What the leader sends to a bucket: one bundle of jobs for one incarnation of one agent. Columns beside the jobs, so that a job is encoded as it lies."""

from typing import Annotated

import msgspec

from jobyard.contracts.control import HIGHEST_EPOCH
from jobyard.contracts.job import Job

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
_Small = Annotated[int, msgspec.Meta(ge=0, le=32_767)]
_Attempt = Annotated[int, msgspec.Meta(ge=1, le=32_767)]


class BundleMessage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The unfinished jobs of a bundle. `attempts`, `used` and `careful` are parallel to `jobs`; an empty `careful` means: none is.

    `cancel`: ids that are to be stopped. `open`: all open fences of this incarnation in this bucket, or None (then nothing may be forgotten, A5).
    `as_of`: the last fence that had been given when `open` was true; it tells nothing of higher ones. None: an older leader, whose messages are in order.
    """

    v: int
    epoch: Annotated[int, msgspec.Meta(ge=0, le=HIGHEST_EPOCH)]
    fence: _Count
    agent: str
    incarnation: str
    bucket: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    jobs: list[Job]
    attempts: list[_Attempt]
    used: list[_Small]
    careful: list[bool] = []
    cancel: list[str] = []
    open: list[_Count] | None = None
    as_of: _Count | None = None
