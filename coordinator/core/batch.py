"""What came in for one tick: decoded and checked by the reader, in the order in which it was read."""

from dataclasses import dataclass, field

from jobyard.contracts.job import NewJob, RefusedJob
from jobyard.contracts.moments import Instant
from jobyard.contracts.reports import Reports


@dataclass(slots=True)
class BadMessage:
    """What could not be decoded, or names no job that can be stored: goes to quarantine, and stops nothing."""

    topic: str
    partition: int
    offset: int
    reason: str
    body: bytes


@dataclass(slots=True)
class IntakeRead:
    """One message of the intake topic, or a tick's worth of a large one. `received`: when the broker appended it. `key`: names it (topic id, offset).

    `bad`: its parts that name no job, with the last of it: in the tick that commits its offset, or they would be in quarantine once more after a crash.
    """

    offset: int
    received: Instant
    key: str
    jobs: list[NewJob]
    refused: list[RefusedJob]
    bad: list[BadMessage] = field(default_factory=list[BadMessage])


@dataclass(slots=True)
class ReportsRead:
    """One message of the reports topic. `fetched`: when this leader read it, on its own clock. `rows`: the store's text of each Finished, by its index
    in `message.reports`; carried unopened. `bad`: its parts that are no reports."""

    offset: int
    fetched: Instant
    message: Reports
    rows: dict[int, list[str]]
    bad: list[BadMessage] = field(default_factory=list[BadMessage])


@dataclass(slots=True)
class Batch:
    """All that one tick takes in.

    `taken`: topic and offset of each message in it.
    `offsets`: by topic name (its id, the next offset to read), as far as this batch goes. `reports_read_at`, `intake_read_at`: the latest instant c of
    the leader's clock for which the topic has been read up to the end offset asked for at c (L10, L21); None: nothing new is known.
    `buckets_ready`: free partitions with the end offset asked for just now (L22). `partitions`: how many the buckets topic has, if that has changed.
    `look`: ask the database for new rows and commands (awake: in every tick; asleep: when woken and as a backstop).
    """

    intake: list[IntakeRead] = field(default_factory=list[IntakeRead])
    reports: list[ReportsRead] = field(default_factory=list[ReportsRead])
    bad: list[BadMessage] = field(default_factory=list[BadMessage])
    taken: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    offsets: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    reports_read_at: Instant | None = None
    intake_read_at: Instant | None = None
    buckets_ready: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    partitions: int | None = None
    look: bool = True

    @property
    def empty(self) -> bool:
        """Nothing was read."""
        return not (self.intake or self.reports or self.bad or self.buckets_ready or self.partitions is not None)
