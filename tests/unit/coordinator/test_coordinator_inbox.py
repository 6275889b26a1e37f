"""The inbox: bounded, in order, with positions as far as a batch goes."""

import threading

import pytest

from jobyard.contracts.reports import Reports
from jobyard.coordinator.core.batch import BadMessage, IntakeRead, ReportsRead
from jobyard.coordinator.inbox import Inbox, ReadTo


def _intake(offset: int) -> IntakeRead:
    return IntakeRead(offset, 1.0, f"k{offset}", [], [])


def _reports(offset: int) -> ReportsRead:
    return ReportsRead(offset, 1.0, Reports(v=1, agent="a", incarnation="i", seq=offset, reports=[]), {})


def test_a_batch_holds_what_came_up_to_its_weight_and_the_offsets_behind_it() -> None:
    inbox = Inbox(100)
    for offset in range(3):
        assert inbox.put(_intake(offset), 4, ("in", "id1", offset + 1), urgent=True)
    batch, stirred = inbox.take(8, 0)
    assert [read.offset for read in batch.intake] == [0, 1]
    assert batch.offsets == {"in": ("id1", 2)}
    assert batch.taken == [("in", 0), ("in", 1)]
    assert stirred
    rest, _ = inbox.take(8, 0)
    assert rest.offsets == {"in": ("id1", 3)}


def test_a_message_heavier_than_a_batch_comes_alone() -> None:
    inbox = Inbox(100)
    inbox.put(_intake(0), 50, ("in", "x", 1), urgent=True)
    inbox.put(_intake(1), 1, ("in", "x", 2), urgent=True)
    batch, _ = inbox.take(10, 0)
    assert len(batch.intake) == 1


def test_L18_a_batch_can_be_bounded_in_messages() -> None:
    inbox = Inbox(100)
    for offset in range(4):
        inbox.put(_reports(offset), 1, ("rep", "x", offset + 1), urgent=True)
    batch, _ = inbox.take(100, 0, messages=1)
    assert batch.taken == [("rep", 0)]


def test_L10_read_up_to_keeps_its_place_among_the_messages() -> None:
    inbox = Inbox(100)
    inbox.put(_reports(0), 5, ("rep", "x", 1), urgent=True)
    inbox.put_read_to(ReadTo(reports=True, at=7.0))
    inbox.put(_reports(1), 5, ("rep", "x", 2), urgent=True)
    first, _ = inbox.take(5, 0)
    assert first.reports_read_at == 7.0
    assert [read.offset for read in first.reports] == [0]
    second, _ = inbox.take(5, 0)
    assert second.reports_read_at is None


def test_heartbeats_do_not_wake_a_sleeper_but_are_taken_with_the_next_batch() -> None:
    inbox = Inbox(100)
    inbox.put(_reports(0), 1, ("rep", "x", 1), urgent=False)
    batch, stirred = inbox.take(10, 0.01)
    assert not stirred
    assert len(batch.reports) == 1


def test_a_full_inbox_blocks_the_reader_until_the_tick_takes() -> None:
    inbox = Inbox(2)
    inbox.put(_intake(0), 2, ("in", "x", 1), urgent=True)
    put = threading.Event()

    def reader() -> None:
        inbox.put(_intake(1), 2, ("in", "x", 2), urgent=True)
        put.set()

    thread = threading.Thread(target=reader)
    thread.start()
    assert not put.wait(0.05)
    inbox.take(10, 0)
    assert put.wait(5)
    thread.join(5)


def test_a_closed_inbox_lets_the_reader_go() -> None:
    inbox = Inbox(1)
    inbox.put(_intake(0), 1, ("in", "x", 1), urgent=True)
    inbox.close()
    assert not inbox.put(_intake(1), 1, ("in", "x", 2), urgent=True)


def test_the_failure_of_a_thread_is_raised_in_the_tick() -> None:
    inbox = Inbox(1)
    inbox.fail(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        inbox.take(1, 10)


def test_bad_messages_and_buckets_come_along() -> None:
    inbox = Inbox(10)
    inbox.put(BadMessage("in", 0, 5, "why", b"x"), 1, ("in", "x", 6), urgent=True)
    inbox.put_buckets([(3, 17)], 50)
    batch, stirred = inbox.take(10, 0)
    assert stirred
    assert batch.bad[0].reason == "why"
    assert batch.buckets_ready == [(3, 17)]
    assert batch.partitions == 50
    again, _ = inbox.take(10, 0)
    assert again.partitions is None
    assert again.empty


def test_what_a_message_holds_that_names_no_job_comes_with_its_offset_or_not_at_all() -> None:
    """Taken earlier it would be in quarantine twice after a crash: its offset was not committed with it."""
    inbox = Inbox(100)
    first, second = _intake(1), _intake(2)
    second.bad = [BadMessage("in", 0, 2, "no id", b"7")]
    inbox.put(first, 1, ("in", "id", 2), urgent=True)
    inbox.put(second, 1, ("in", "id", 3), urgent=True)
    batch, _ = inbox.take(1, 0.0)
    assert (batch.bad, batch.offsets) == ([], {"in": ("id", 2)})
    batch, _ = inbox.take(1, 0.0)
    assert (batch.bad, batch.offsets) == (second.bad, {"in": ("id", 3)})
