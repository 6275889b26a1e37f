"""What the leader sends to a bucket: one bundle of jobs for one incarnation of one agent. Columns beside the jobs, so that a job is encoded as it lies."""

import msgspec

from jobyard.contracts.job import Job


class BundleMessage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The unfinished jobs of a bundle. `attempts`, `used` and `careful` are parallel to `jobs`; an empty `careful` means: none is.

    `cancel`: ids that are to be stopped. `open`: all open fences of this incarnation in this bucket, or None (then nothing may be forgotten, A5).
    """

    v: int
    epoch: int
    fence: int
    agent: str
    incarnation: str
    bucket: int
    jobs: list[Job]
    attempts: list[int]
    used: list[int]
    careful: list[bool] = []
    cancel: list[str] = []
    open: list[int] | None = None
