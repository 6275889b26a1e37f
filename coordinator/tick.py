"""The tick: take, hear, ask, decide, write, send. One transaction; nothing is sent but after its commit (L1, L4)."""

from jobyard.contracts.errors import ServiceUnavailable
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.core.lane import Lane
from jobyard.coordinator.inbox import Inbox
from jobyard.coordinator.reader import Reader
from jobyard.coordinator.seams import Clock, ClockSet, LaneStore, Term
from jobyard.coordinator.sender import Sender
from jobyard.coordinator.telemetry import Telemetry
from jobyard.coordinator.wakefulness import Wakefulness
from jobyard.process.points import Point, reached


class Tick:
    """One lane's tick. After any exception its parts are thrown away: the leader takes over anew (L3)."""

    def __init__(
        self,
        lane: Lane,
        store: LaneStore,
        inbox: Inbox,
        reader: Reader,
        sender: Sender,
        wakefulness: Wakefulness,
        telemetry: Telemetry,
        clock: Clock,
        term: Term,
        offsets: dict[str, tuple[str, int]],
    ) -> None:
        self._lane = lane
        self._store = store
        self._inbox = inbox
        self._reader = reader
        self._sender = sender
        self._wakefulness = wakefulness
        self._telemetry = telemetry
        self._clock = clock
        self._term = term
        self._offsets = offsets
        self.taken: list[tuple[str, int]] = []
        """Topic and offset of each message in the tick at hand, or the last one (L18)."""

    @property
    def offsets(self) -> dict[str, tuple[str, int]]:
        """Committed positions by topic: its id and the next offset."""
        return self._offsets

    def run(self, most: int, messages: int | None = None) -> list[Event]:
        """One tick of at most `most` jobs and ends, and at most `messages` messages (None: no bound). What was decided."""
        self.taken = []  # what a thread of this leadership failed of is no message's fault
        batch, stirred = self._inbox.take(most, self._wakefulness.wait_s(self._lane.next_at(self._clock.now())), messages=messages)
        self.taken = batch.taken
        began = self._clock.monotonic()
        reached(Point.MESSAGES_TAKEN, batch)
        batch.look = self._wakefulness.look(stirred)
        now = self._clock.now()
        questions = self._lane.hear(batch, now)  # facts enter the books; what must be looked up comes out
        answers = self._store.ask(questions)  # opens the transaction, inserts what is new
        reached(Point.QUESTIONS_ASKED, batch)
        decided = self._lane.decide(batch, answers, now)
        offsets = self._offsets | batch.offsets
        self._store.write(decided, offsets, self._lane.fence, self._term)
        self._offsets = offsets
        reached(Point.TICK_COMMITTED, decided)
        if self._clock.monotonic() > self._term.trusted_until:
            raise ServiceUnavailable("the tick was committed, but the lease is not to be trusted any more: somebody else may lead")
        set_s = self._clock.heard(self._term.now, self._term.asked_at, self._term.answered_at)
        if set_s:
            raise ClockSet(f"the database's clock was set {'forward' if set_s > 0 else 'back'} by {abs(set_s):.1f} s")
        sent = self._sender.send(decided)
        if self._lane.wants_reports_end(now):
            self._reader.ask_reports_end()
        if self._lane.wants_intake_end:
            self._reader.ask_intake_end()
        self._wakefulness.saw(worked=stirred or bool(sent) or self._lane.busy or self._sender.owing, settled=answers.settled)
        self._telemetry.saw(decided, self._clock.monotonic() - began, self._lane.in_memory[0])
        return decided
