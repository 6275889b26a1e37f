"""The reader: decodes, checks, quarantines, and tells up to where it has read."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from shell_fakes import FakeAdmin, FakeClock, FakeSource

from jobyard.contracts import codec
from jobyard.contracts.ids import derived_job_id
from jobyard.contracts.job import NewJob
from jobyard.contracts.reports import End, Finished, Heartbeat, Reports
from jobyard.contracts.rules import RULES
from jobyard.contracts.states import Outcome
from jobyard.coordinator.core.batch import Batch
from jobyard.coordinator.inbox import Inbox
from jobyard.coordinator.reader import Reader
from jobyard.coordinator.seams import Prepare, TopicsChanged
from jobyard.kafka.consumer import Message, OutOfRange

INCARNATION = "00000000-0000-4000-8000-000000000001"
IDS = {"in": "in-id", "rep": "rep-id"}


class Reading:
    """A reader on fakes, and what came into its inbox."""

    def __init__(self, poison: set[tuple[str, int]] | None = None, prepare: Prepare = lambda _: []) -> None:
        self.clock = FakeClock()
        self.source = FakeSource()
        self.admin = FakeAdmin(IDS)
        self.inbox = Inbox(1000)
        self.reader = Reader(
            self.source,
            self.admin,
            self.inbox,
            prepare,
            self.clock,
            RULES,
            lane="default",
            intake="in",
            reports="rep",
            ids=IDS,
            poison=poison or set(),
        )

    def read(self, *messages: Message | OutOfRange) -> None:
        self.source.queued += messages
        self.reader.start({"in": 0, "rep": 0})

    def take_until(self, enough: Callable[[Batch], bool]) -> Batch:
        """All that comes, as one batch, until it is enough."""
        whole = Batch()
        deadline = time.monotonic() + 5
        while not enough(whole):
            assert time.monotonic() < deadline, whole
            batch, _ = self.inbox.take(1000, 0.05)
            whole.intake += batch.intake
            whole.reports += batch.reports
            whole.bad += batch.bad
            whole.offsets |= batch.offsets
            whole.reports_read_at = batch.reports_read_at or whole.reports_read_at
            whole.intake_read_at = batch.intake_read_at or whole.intake_read_at
        return whole


@pytest.fixture
def make() -> Iterator[Callable[..., Reading]]:
    made: list[Reading] = []

    def build(*given: Any) -> Reading:
        made.append(Reading(*given))
        return made[-1]

    yield build
    for reading in made:
        reading.inbox.close()
        reading.reader.stop()
        assert reading.source.closed


def _message(topic: str, offset: int, value: bytes) -> Message:
    return Message(topic, 0, offset, None, value, 1_800_000_000.0)


def _job_id(n: int) -> str:
    return derived_job_id(1_800_000_000.0, str(n))


def test_reads_from_the_offsets_that_it_is_given(make: Callable[..., Reading]) -> None:
    reading = make()
    reading.reader.start({"in": 5, "rep": 9})
    assert reading.source.assigned == [("in", 0, 5), ("rep", 0, 9)]


def test_good_jobs_go_on_beside_a_bad_one_and_a_message_that_is_none(make: Callable[..., Reading]) -> None:
    reading = make()
    good = codec.encode_intake([NewJob(kind="a", id=_job_id(1))])
    mixed = b'{"v":1,"jobs":[{"kind":"a","id":"%s"},{"kind":"a","id":"%s","colour":1},7]}' % (_job_id(2).encode(), _job_id(3).encode())
    reading.read(_message("in", 0, good), _message("in", 1, b"not json"), _message("in", 2, mixed))
    batch = reading.take_until(lambda b: len(b.intake) == 2)
    assert [job.id for read in batch.intake for job in read.jobs] == [_job_id(1), _job_id(2)]
    assert [job.id for read in batch.intake for job in read.refused] == [_job_id(3)]
    assert [(bad.offset, bad.body) for bad in batch.bad] == [(1, b"not json"), (2, b"7")]
    assert batch.offsets == {"in": ("in-id", 3)}


def test_reports_carry_the_stores_text_and_when_they_were_fetched(make: Callable[..., Reading]) -> None:
    def prepare(finished: Finished) -> list[str]:
        return [end.job for end in finished.ends]

    reading = make(None, prepare)
    end = End(_job_id(1), 1, Outcome.SUCCEEDED, 1.0, 2.0)
    message = Reports(v=1, agent="a", incarnation=INCARNATION, seq=1, reports=[Finished(fence=1, ends=[end])])
    reading.read(_message("rep", 4, codec.encode(message)))
    read = reading.take_until(lambda b: bool(b.reports)).reports[0]
    assert read.rows == {0: [_job_id(1)]}
    assert read.fetched == reading.clock.at


def test_L18_good_reports_count_beside_one_of_a_type_to_come(make: Callable[..., Reading]) -> None:
    def jobs_of(finished: Finished) -> list[str]:
        return [end.job for end in finished.ends]

    reading = make(None, jobs_of)
    end = [_job_id(1), 1, "succeeded", 1.0, 2.0]
    reports = [{"type": "mood", "how": "good"}, {"type": "finished", "fence": 1, "ends": [end]}]
    reading.read(_message("rep", 4, json.dumps({"v": 1, "agent": "a", "incarnation": INCARNATION, "seq": 1, "reports": reports}).encode()))
    batch = reading.take_until(lambda b: bool(b.reports))
    assert batch.reports[0].rows == {0: [_job_id(1)]}
    assert [(bad.topic, bad.offset, json.loads(bad.body)) for bad in batch.bad] == [("rep", 4, reports[0])]
    assert "mood" in batch.bad[0].reason
    assert batch.offsets == {"rep": ("rep-id", 5)}


def test_L18_a_poisoned_message_goes_to_quarantine_unopened(make: Callable[..., Reading]) -> None:
    reading = make({("in", 1)})
    one = codec.encode_intake([NewJob(kind="a", id=_job_id(1))])
    reading.read(_message("in", 0, one), _message("in", 1, one), _message("in", 2, one))
    batch = reading.take_until(lambda b: len(b.intake) == 2)
    assert [read.offset for read in batch.intake] == [0, 2]
    assert [bad.offset for bad in batch.bad] == [1]


def test_L10_tells_up_to_where_reports_were_read_only_when_the_end_is_reached(make: Callable[..., Reading]) -> None:
    reading = make()
    reading.admin.ends["rep", 0] = 2
    beat = Reports(v=1, agent="a", incarnation=INCARNATION, seq=1, reports=[Heartbeat(stamp=1.0, capacity=1, slots=1)])
    reading.reader.ask_reports_end()
    reading.read(_message("rep", 0, codec.encode(beat)))
    batch = reading.take_until(lambda b: bool(b.reports))
    assert batch.reports_read_at is None
    reading.source.queued.append(_message("rep", 1, codec.encode(beat)))
    assert reading.take_until(lambda b: b.reports_read_at is not None).reports_read_at == reading.clock.at


def test_L21_tells_up_to_where_intake_was_read(make: Callable[..., Reading]) -> None:
    reading = make()
    reading.reader.ask_intake_end()
    reading.read()
    assert reading.take_until(lambda b: b.intake_read_at is not None).intake_read_at == reading.clock.at


def test_L17_an_offset_that_is_gone_ends_the_leadership(make: Callable[..., Reading]) -> None:
    reading = make()
    reading.read(OutOfRange("rep", 0))
    with pytest.raises(TopicsChanged, match="rep"):
        reading.take_until(lambda _: False)


def test_L18_a_message_over_which_the_reader_stumbles_goes_to_quarantine_and_the_next_is_read(make: Callable[..., Reading]) -> None:
    def prepare(finished: Finished) -> list[str]:
        if finished.fence == 1:
            raise KeyError("a bug")
        return []

    reading = make(None, prepare)
    for offset in range(2):
        end = End(_job_id(1), 1, Outcome.SUCCEEDED, 1.0, 2.0)
        message = Reports(v=1, agent="a", incarnation=INCARNATION, seq=1, reports=[Finished(fence=1 + offset, ends=[end])])
        reading.source.queued.append(_message("rep", offset, codec.encode(message)))
    reading.read()
    batch = reading.take_until(lambda b: bool(b.reports))
    assert [read.offset for read in batch.reports] == [1]
    assert [(bad.offset, "KeyError" in bad.reason) for bad in batch.bad] == [(0, True)]
