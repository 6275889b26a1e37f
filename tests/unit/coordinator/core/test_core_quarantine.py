"""What is kept of bad messages, and how much of it at most."""

from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.batch import BadMessage
from jobyard.coordinator.core.books.quarantine import Quarantine
from jobyard.coordinator.core.events import Event, Quarantined

RULES = Rules(quarantine_rows=20, quarantine_row_every_s=10.0, quarantine_tell_s=10.0, quarantine_bytes=5_000, quarantine_bytes_s=100.0)


class Keeping:
    def __init__(self) -> None:
        self.quarantine = Quarantine(RULES)
        self.events: list[Event] = []
        self.now = 0.0

    def put(self, offset: int, topic: str = "t", body: bytes = b"x", reason: str = "bad") -> None:
        self.quarantine.put(BadMessage(topic, 0, offset, reason, body), self.events, self.now)

    def settle(self, later: float) -> None:
        self.now += later
        self.quarantine.settle(self.events, self.now)

    def rows(self, topic: str = "t") -> list[BadMessage]:
        return [event.message for event in self.events if isinstance(event, Quarantined) and event.message.topic == topic]


def test_few_messages_are_kept_as_they_came() -> None:
    keeping = Keeping()
    keeping.put(1, body=b"\x00\xff" * 100, reason="why")
    keeping.settle(100.0)
    assert keeping.rows() == [BadMessage("t", 0, 1, "why", b"\x00\xff" * 100)]


def test_a_flood_is_counted_and_one_row_tells_of_it() -> None:
    keeping = Keeping()
    for offset in range(1_000):
        keeping.put(offset, reason=f"reason {offset}")
    assert [row.offset for row in keeping.rows()] == list(range(20))
    keeping.settle(9.0)
    assert len(keeping.rows()) == 20
    keeping.settle(2.0)
    told = keeping.rows()[-1]
    assert (told.offset, told.body) == (999, b"")
    assert told.reason == "980 more of offsets 20 to 999, more than are kept one by one; the last: reason 999"
    keeping.settle(1_000.0)
    assert len(keeping.rows()) == 21
    for offset in range(1_000, 2_000):
        keeping.put(offset)
    assert len(keeping.rows()) == 41


def test_a_flood_in_one_topic_hides_nothing_in_another() -> None:
    keeping = Keeping()
    for offset in range(1_000):
        keeping.put(offset)
    keeping.put(1, topic="other", body=b"y" * 4_000)
    assert [len(row.body) for row in keeping.rows("other")] == [4_000]


def test_one_message_with_many_bad_parts_leaves_room_for_others() -> None:
    keeping = Keeping()
    for _ in range(1_000):
        keeping.put(7)
    keeping.put(8)
    assert [row.offset for row in keeping.rows()] == [7] * 10 + [8]
    keeping.settle(10.0)
    assert keeping.rows()[-1].reason.startswith("990 more of offsets 7 to 7")


def test_bodies_are_cut_once_there_is_no_room() -> None:
    keeping = Keeping()
    for offset in range(3):
        keeping.put(offset, body=b"z" * 4_000)
    assert [len(row.body) for row in keeping.rows()] == [4_000, 1_000, 1_000]
    assert keeping.rows()[1].reason == "bad (the first 1000 of 4000 bytes are kept)"
    keeping.now = 60.0
    keeping.put(3, body=b"z" * 5_000)
    assert len(keeping.rows()[-1].body) == 5_000


def test_a_reason_is_one_printable_line() -> None:
    keeping = Keeping()
    keeping.put(1, reason="a\nb\x00c\ud800d\x1b[2J" + "x" * 10_000)
    reason = keeping.rows()[0].reason
    assert reason.isprintable()
    assert reason.startswith("a\\nb\\x00c\\ud800d\\x1b[2Jxx")
    assert len(reason.encode()) <= 1_000
