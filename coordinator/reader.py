"""Kafka → inbox: reads intake and reports, decodes and checks, and has the store's text made, while the tick commits. One thread."""

import logging
import threading
from collections.abc import Collection, Iterator
from typing import TypeAlias

from jobyard.contracts import codec
from jobyard.contracts.job import NewJob, RefusedJob
from jobyard.contracts.moments import Instant
from jobyard.contracts.reports import Finished, Heartbeat, Released, Reports
from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.batch import BadMessage, IntakeRead, ReportsRead
from jobyard.coordinator.inbox import Inbox, ReadTo
from jobyard.coordinator.seams import Clock, Prepare, Source, TopicAdmin, TopicsChanged
from jobyard.kafka.consumer import Message, OutOfRange

_log = logging.getLogger(__name__)

_MOST = 500
"""Messages taken from the client library at a time: enough to keep its cost per call small, few enough to decode in some milliseconds."""
_WAIT_S = 0.1
"""How long one poll waits; bounds how late a question for an end offset is asked."""

_Found: TypeAlias = tuple[list[IntakeRead] | list[ReportsRead], int, bool]
"""What one message holds: what the ticks get, the weight of the last of it, and whether it is urgent."""


class Reader:
    """The reading thread of one leadership. Started once; never repositioned: a new leadership makes a new one.

    `topics`: names of intake and reports. `ids`: the ids of both at take-over. `poison`: (topic, offset) of messages that made a tick fail
    for their data (L18): they go to quarantine unopened.
    """

    def __init__(
        self,
        source: Source,
        admin: TopicAdmin,
        inbox: Inbox,
        prepare: Prepare,
        clock: Clock,
        rules: Rules,
        *,
        lane: str,
        intake: str,
        reports: str,
        ids: dict[str, str],
        poison: Collection[tuple[str, int]],
    ) -> None:
        self._source = source
        self._admin = admin
        self._inbox = inbox
        self._prepare = prepare
        self._clock = clock
        self._rules = rules
        self._lane = lane
        self._intake = intake
        self._reports = reports
        self._ids = ids
        self._poison = poison
        self._asked = {intake: threading.Event(), reports: threading.Event()}
        self._awaited: dict[str, tuple[Instant, int]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader-{lane}", daemon=True)

    def start(self, offsets: dict[str, int]) -> None:
        """Read intake and reports from these offsets on."""
        self.assign(offsets)
        self._thread.start()

    def assign(self, offsets: dict[str, int]) -> None:
        """Be ready for `step`, in whatever thread: from these offsets on."""
        self._source.assign([(topic, 0, offset) for topic, offset in offsets.items()])

    def step(self, wait_s: float = _WAIT_S) -> bool:
        """Read once, waiting at most `wait_s` for something. False: the inbox is closed, there is nothing more to do."""
        self._ask_ends()
        for record in self._source.consume(_MOST, wait_s):
            if isinstance(record, OutOfRange):
                raise TopicsChanged(f"the offset of {record.topic} is gone")
            if not self._put(record):
                return False
        self._tell_ends()
        return True

    def stop(self) -> None:
        """End the thread and close the consumer; the inbox must have been closed before."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(10)
        self._source.close()

    def ask_reports_end(self) -> None:
        """Have the inbox told once all reports are read that were there at some moment from now on (L10)."""
        self._asked[self._reports].set()

    def ask_intake_end(self) -> None:
        """The same for intake (L21)."""
        self._asked[self._intake].set()

    def _run(self) -> None:
        try:
            while not self._stop.is_set() and self.step():
                pass
        except Exception as error:
            self._inbox.fail(error)

    def _put(self, record: Message) -> bool:
        fetched = self._clock.now()
        following = record.offset + 1
        position = (record.topic, self._ids[record.topic], following)
        if (record.topic, record.offset) in self._poison:
            return self._put_bad(record, "the tick that held it failed for its data", position)
        try:
            found = self._intake_of(record, fetched) if record.topic == self._intake else self._reports_of(record, fetched)
        except codec.Undecodable as error:
            return self._put_bad(record, error.reason, position)
        except Exception as error:
            # A mistake of this program, that the same message would bring out again: it must not stop the lane (L18).
            _log.exception("stumbled over %s[%d] offset %d", record.topic, record.partition, record.offset)
            return self._put_bad(record, f"the reader stumbled over it: {type(error).__name__}: {error}"[:500], position)
        reads, weight, urgent = found
        unread = (record.topic, position[1], record.offset)  # until its last part is put, the message is not read to its end
        for read in reads[:-1]:
            if not self._inbox.put(read, self._rules.tick_most, unread, urgent=urgent):
                return False
        return self._inbox.put(reads[-1], max(weight, self._heaviness(record) // len(reads)), position, urgent=urgent)

    def _put_bad(self, record: Message, reason: str, position: tuple[str, str, int]) -> bool:
        return self._inbox.put(BadMessage(record.topic, record.partition, record.offset, reason, record.value), 1, position, urgent=True)

    def _reports_of(self, record: Message, fetched: Instant) -> _Found:
        message, wrong = codec.sort_reports(record.value)
        rows = {i: self._prepare(report) for i, report in enumerate(message.reports) if isinstance(report, Finished)}
        bad = [BadMessage(record.topic, record.partition, record.offset, reason, body) for reason, body in wrong]
        return [ReportsRead(record.offset, fetched, message, rows, bad)], _weight(message), _urgent(message)

    def _intake_of(self, record: Message, fetched: Instant) -> _Found:
        # By the broker's append time (L19); a broker that gives none counts as now.
        received = record.timestamp_s if record.timestamp_s > 0 else fetched
        intake = codec.decode_intake(record.value, self._lane, received, self._rules)
        key = f"{self._ids[record.topic]}/{record.offset}"
        reads = [
            IntakeRead(record.offset, received, f"{key}+{n}" if n else key, jobs, refused)
            for n, (jobs, refused) in enumerate(_portions(intake, self._rules.tick_most))
        ]
        reads[-1].bad = [BadMessage(record.topic, record.partition, record.offset, reason, body) for reason, body in intake.bad]
        return reads, max(1, len(reads[-1].jobs) + len(reads[-1].refused)), True

    def _heaviness(self, record: Message) -> int:
        """What a message weighs for its bytes: a tick that is full by bytes weighs as much as one that is full by jobs."""
        return len(record.value) * self._rules.tick_most // self._rules.tick_bytes

    def _ask_ends(self) -> None:
        for topic, asked in self._asked.items():
            if asked.is_set() and topic not in self._awaited:
                asked.clear()
                at = self._clock.now()
                self._awaited[topic] = (at, self._admin.end_offsets(topic, [0])[0])
        self._tell_ends()

    def _tell_ends(self) -> None:
        for topic, (at, end) in list(self._awaited.items()):
            if self._source.position(topic, 0) >= end:
                del self._awaited[topic]
                self._inbox.put_read_to(ReadTo(reports=topic == self._reports, at=at))


def _portions(intake: codec.Intake, most: int) -> Iterator[tuple[list[NewJob], list[RefusedJob]]]:
    """The jobs of one message, a tick's worth at a time; at least one portion."""
    jobs, refused = intake.jobs, intake.refused
    for first in range(0, max(1, len(jobs) + len(refused)), most):
        at = max(0, first - len(jobs))
        yield jobs[first : first + most], refused[at : max(0, first + most - len(jobs))]


def _weight(message: Reports) -> int:
    weight = 1
    for report in message.reports:
        match report:
            case Finished(ends=ends):
                weight += len(ends)
            case Released(jobs=jobs):
                weight += len(jobs)
            case _:
                pass
    return weight


def _urgent(message: Reports) -> bool:
    """Heartbeats of an agent that is well can wait for the next tick; everything else wakes it."""
    return not all(isinstance(report, Heartbeat) and not report.suspended for report in message.reports)
