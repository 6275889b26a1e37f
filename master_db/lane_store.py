"""One lane in the Master DB: its lease, its snapshot, and the two halves of a tick. The LaneStore of the coordinator.

A tick is one transaction (L1). What only reads opens none: nobody but the leader changes what it reads, and its lease is proved by `write`.
"""

import json
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from psycopg import RawCursor

from jobyard.client.refusals import meaning
from jobyard.contracts.errors import NotFound, ServiceUnavailable
from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.core.questions import Answers, Questions
from jobyard.coordinator.core.snapshot import Snapshot
from jobyard.coordinator.seams import DataRefused, Deposed, PendingMoved, Term
from jobyard.master_db import rows
from jobyard.master_db.answers import TAKE_AWAKE, Answering, Look, Sent, Took
from jobyard.master_db.connection import COORDINATOR, Connection, Timeouts, connect, roll_back
from jobyard.master_db.id_arrays import IdArray
from jobyard.master_db.intake import FEW, LOCKED, Inserted, Intake, New, returned
from jobyard.master_db.journal import Journal
from jobyard.master_db.kind_numbers import KindNumbers
from jobyard.master_db.queries import Query, Statement
from jobyard.master_db.snapshot import LOOK_SNAPSHOT, MODES_OF_LANE, load, modes_of
from jobyard.process.points import Point, reached


class LaneNumber(NamedTuple):
    """A lane's number."""

    lane_id: int


class FreeLease(NamedTuple):
    """A lease that may be taken. `lease_until`: as text, to the microsecond. `leader`: whose it was, None: nobody has led the lane yet."""

    epoch: int
    lease_until: str
    leader: str | None


class Ended(NamedTuple):
    """How many transactions were ended."""

    ended: int


class Seized(NamedTuple):
    """The lease row after it was taken. `now`: the database's clock."""

    ctid: str
    epoch: int
    now: float


class Named(NamedTuple):
    """What the session is called."""

    name: str


class Renewed(NamedTuple):
    """Where the lease row lies now. `now`: the database's clock."""

    at: str
    one: float
    now: float


class Taken(NamedTuple):
    """Rows of `pending` went as they should."""

    one: int


class Mark(NamedTuple):
    """A transaction id."""

    xid: str


FIND_LANE = Query("find_lane", LaneNumber)
NAME_SESSION = Query("name_session", Named)
FREE_LEASE = Query("free_lease", FreeLease)
END_TRANSACTIONS = Query("end_transactions", Ended)
SEIZE_LEASE = Query("seize_lease", Seized)
RENEW_LEASE = Query("renew_lease", Renewed)
RELEASE_LEASE = Statement("release_lease")
TAKE_PENDING_AT = Query("take_pending_at", Taken)
TAKE_PENDING = Query("take_pending", Taken)
GIVE_AWAKE = Query("give_awake", Took)
MARK_ASLEEP = Query("mark_asleep", Mark)

_UNANSWERED_S = 5.0
"""Longer than a tick's lease: a leader that was cut off from the Master DB for this long leads no more."""
_TOO_LARGE = "54"
_DEPOSED = "2201E"
_MOVED = "22012"


class PostgresLaneStore:
    """One leadership's store; used by one thread. After any exception its session is closed, and with it the transaction.

    `leader`: a random UUID of the process, never a name (T1). `monotonic`: the leader's own clock, by which `trusted_until` is told.
    """

    def __init__(self, url: str, lane: str, leader: str, rules: Rules, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._lane = lane
        self._leader = leader
        self._rules = rules
        self._monotonic = monotonic
        # what has not been answered for longer than any lease lasts was asked by one who leads no more
        self._timeouts = Timeouts(statement_s=rules.takeover_s, unanswered_s=_UNANSWERED_S)
        self._connection: Connection | None = None
        self._lane_id = 0
        self._epoch = 0
        self._lease_at = "(0,0)"
        self._offsets: dict[str, tuple[str, int]] = {}
        self._kinds = KindNumbers()
        self._answering = Answering(0, self._kinds)
        self._newcomers = Intake(0, self._kinds, rules, monotonic)
        self._in_transaction = False
        self._awake = False
        self._locked = False
        self._slept_at: int | None = None
        self._held = False
        self._complete_at = 0.0

    # ---- taking and giving the lane

    def seize(self, at_least: int = 0) -> Term | None:
        """T1; opens the session. NotFound: there is no such lane."""
        with self._guard():
            connection = self._connection or connect(
                self._url, application_name="jobyard-coordinator", autocommit=True, plans="force_custom_plan", timeouts=self._timeouts
            )
            self._connection = connection
            lane = FIND_LANE.first(connection, lane=self._lane)
            if lane is None:
                raise NotFound(f"there is no lane {self._lane!r}")
            self._lane_id = lane.lane_id
            NAME_SESSION.one(connection, name=f"jobyard-coordinator {lane.lane_id} {self._leader}")
            self._kinds = KindNumbers()
            self._answering = Answering(lane.lane_id, self._kinds)
            self._newcomers = Intake(lane.lane_id, self._kinds, self._rules, self._monotonic)
            free = FREE_LEASE.first(
                connection, lane_id=lane.lane_id, leader=self._leader, lease_s=self._rules.takeover_s, tick_s=self._rules.lease_s
            )
            if free is None:
                return None
            END_TRANSACTIONS.one(connection, lane_id=lane.lane_id, leader=free.leader)  # or its lock of the lease would be waited for
            before = self._monotonic()
            seized = SEIZE_LEASE.first(
                connection,
                lane_id=lane.lane_id,
                leader=self._leader,
                epoch=free.epoch,
                lease_until=free.lease_until,
                at_least=at_least,
                lease_s=self._rules.takeover_s,
            )
            if seized is None:
                return None
            END_TRANSACTIONS.one(connection, lane_id=lane.lane_id, leader=free.leader)  # what it has begun meanwhile
            self._epoch, self._lease_at = seized.epoch, seized.ctid
            return Term(seized.epoch, before + self._rules.trust_s, seized.now, before, self._monotonic())

    def release(self, term: Term) -> None:
        """End the lease at once. Never raises."""
        try:
            with self._guard():
                RELEASE_LEASE.run(self._session(), lane_id=self._lane_id, leader=self._leader, epoch=term.epoch)
        except Exception:
            self.close()

    def close(self) -> None:
        """Drop the session. Never raises."""
        connection, self._connection = self._connection, None
        self._awake = self._locked = self._in_transaction = False
        if connection is not None:
            connection.close()

    # ---- asleep and awake (D8, L25)

    def sleep(self) -> None:
        """Give up the lock, and then remember which transactions are open: one that saw the lock still held has told nobody."""
        with self._guard():
            connection = self._session()
            self._awake = False
            with connection.pipeline():
                if self._locked:
                    GIVE_AWAKE.cursor(connection, lane_id=self._lane_id)
                mark = MARK_ASLEEP.cursor(connection)
            self._locked = False
            self._slept_at = int(mark.fetchall()[0].xid)

    def wake(self) -> None:
        """Take the lock. If a submitter tests it right now, or a paused predecessor has it, the next looks try again."""
        with self._guard():
            self._awake = True
            self._slept_at = None
            if not self._locked:
                self._locked = TAKE_AWAKE.one(self._session(), lane_id=self._lane_id).took

    # ---- take-over

    def snapshot(self) -> Snapshot:
        """T2. Deposed: another has taken the lane since."""
        with self._guard():
            loaded = load(self._session(), self._lane_id, self._epoch, self._kinds)
            if loaded is None:
                raise Deposed(f"lane {self._lane} is led under another epoch than {self._epoch}")
            self._lease_at = loaded.lease_at
            self._answering.look = loaded.look
            self._offsets = dict(loaded.snapshot.offsets)
            self._held = loaded.snapshot.held
            return loaded.snapshot

    # ---- a tick

    def ask(self, questions: Questions) -> Answers:
        """Insert what is new, look up the rest. Opens the transaction if anything is inserted."""
        with self._guard():
            connection = self._session()
            answers = Answers()
            if questions.kinds:
                self._kinds.load(connection)
            if questions.modes:
                answers.modes = modes_of(MODES_OF_LANE.one(connection, lane_id=self._lane_id))
            if self._answering.incomplete and self._monotonic() >= self._complete_at:
                self._answering.complete(connection)
                self._complete_at = self._monotonic() + self._rules.held_again_s
            new = self._newcomers.sort_out(connection, questions)
            if questions.look and self._answering.look is None:
                self._answering.look = Look.of(LOOK_SNAPSHOT.one(connection).snapshot)
            sent = self._insert_and_send(connection, questions, new)
            if new.held:
                self._begin(connection)
                self._newcomers.hold(connection, new.held)
                self._held = True
            if questions.held_again:
                self._begin(connection)
                self._held = self._newcomers.try_held(connection, answers)
            self._answering.receive(connection, sent, questions.late, answers)
            answers.held_left = self._held
            answers.kinds = self._kinds.told()
            if questions.kinds:
                answers.kinds = dict(self._kinds.kinds)
            if self._slept_at is not None and self._answering.look is not None:
                answers.settled = self._answering.look.xmin >= self._slept_at
            new.count(answers)
            return answers

    def _insert_and_send(self, connection: Connection, questions: Questions, new: New) -> Sent:
        """A few new rows go in the pipeline of all the questions; many are copied before it."""
        if 0 < len(new.rows) <= FEW:
            try:
                with connection.pipeline():
                    self._in_transaction = True
                    cursors = self._newcomers.queue(connection, new.rows)
                    sent = self._send(connection, questions)
            except LOCKED:
                roll_back(connection)
                new.took(self._newcomers.insert_slowly(connection, new.rows))
            else:
                new.took(Inserted(returned(cursors)))
                return self._sent(sent)
        elif new.rows:
            self._in_transaction = True
            new.took(self._newcomers.insert(connection, new.rows))
        with connection.pipeline():
            if questions.agents:
                self._begin(connection)
            sent = self._send(connection, questions)
        return self._sent(sent)

    def _send(self, connection: Connection, questions: Questions) -> Sent:
        sent = Sent()
        if self._in_transaction:
            connection.execute(b"set local lock_timeout to default")
        self._answering.send_agents(connection, questions.agents, sent)
        if questions.look:
            self._answering.send_look(connection, sent)
            if self._awake and not self._locked:
                sent.awake = TAKE_AWAKE.cursor(connection, lane_id=self._lane_id)
        self._answering.send_due(connection, questions.due, sent)
        return sent

    def _sent(self, sent: Sent) -> Sent:
        if sent.awake is not None:
            self._locked = sent.awake.fetchall()[0].took
        return sent

    def write(self, events: Sequence[Event], offsets: dict[str, tuple[str, int]], fence: int, term: Term) -> None:
        """L1: all of it, or nothing. The lease is the last statement before the COMMIT, and fails if it is another's."""
        with self._guard():
            connection = self._session()
            journal = Journal(self._lane_id, self._kinds)
            journal.write(events)
            offsets = self._offsets | offsets
            try:
                taken = self._copy(connection, journal)
                with connection.pipeline():
                    if not journal.empty:
                        self._begin(connection)
                    self._send_rest(connection, journal, taken=taken)
                    reached(Point.ROWS_SENT, events)
                    before = self._monotonic()
                    lease = RENEW_LEASE.cursor(
                        connection,
                        lane_id=self._lane_id,
                        at=self._lease_at,
                        epoch=term.epoch,
                        offsets=json.dumps({topic: {"id": topic_id, "next": at} for topic, (topic_id, at) in offsets.items()}),
                        fence=fence,
                        lease_s=self._rules.lease_s,
                    )
                    if self._in_transaction:
                        connection.execute(b"commit")
                        reached(Point.COMMIT_SENT, events)
            except psycopg.Error as error:
                if error.sqlstate == _DEPOSED:
                    raise Deposed(f"lane {self._lane} is not led under epoch {term.epoch} any more") from error
                if error.sqlstate == _MOVED:
                    raise PendingMoved(f"rows of jobyard.pending that lane {self._lane} has read are not there any more") from error
                raise
            self._in_transaction = False
            renewed = lease.fetchall()[0]
            self._lease_at = renewed.at
            self._offsets = offsets
            term.trusted_until = before + self._rules.trust_s
            term.now, term.asked_at, term.answered_at = renewed.now, before, self._monotonic()

    def _copy(self, connection: Connection, journal: Journal) -> bool:
        """The tables that get many rows. Whether what leaves `pending` has been taken, too: a row that moves is taken before it is put again."""
        many = [(table, sheet) for table, sheet in journal.sheets.items() if sheet.count > FEW]
        if not many:
            return False
        with connection.pipeline():
            self._begin(connection)
            self._take_pending(connection, journal)
        for table, sheet in many:
            with connection.cursor() as cursor, cursor.copy(table.copy) as copy:
                copy.write(("\n".join(sheet.blocks) + "\n").encode())
        return True

    def _send_rest(self, connection: Connection, journal: Journal, *, taken: bool) -> None:
        if not taken:
            self._take_pending(connection, journal)
        for table, sheet in journal.sheets.items():
            if sheet.count <= FEW:
                insert = table.insert_new if table is rows.LATE_REPORTS else table.insert
                for line in sheet.lines():
                    RawCursor(connection).execute(insert, rows.values(line))
        for statement, values in journal.calls():
            statement.run(connection, **values)

    def _take_pending(self, connection: Connection, journal: Journal) -> None:
        if journal.places:
            TAKE_PENDING_AT.cursor(connection, places=rows.array(journal.places), ids=IdArray(journal.placed_ids))
        if journal.gone:
            TAKE_PENDING.cursor(connection, ids=IdArray(journal.gone))

    # ---- the session

    def _session(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("the lane has not been seized, or its session was dropped")
        return self._connection

    def _begin(self, connection: Connection) -> None:
        if not self._in_transaction:
            connection.execute(b"begin")
            self._in_transaction = True

    @contextmanager
    def _guard(self) -> Generator[None]:
        """Any exception means that the outcome is unknown: the session goes, and the transaction with it (L3)."""
        try:
            yield
        except psycopg.Error as error:
            self.close()
            text = (error.diag.message_primary or str(error)).strip()
            if isinstance(error, psycopg.errors.CheckViolation) and error.diag.constraint_name is None:
                # No partition takes the row: nothing is wrong with it, the housekeeper is behind.
                raise ServiceUnavailable(f"the history lacks a partition, which housekeeping makes: {text}") from error
            if isinstance(error, psycopg.DataError | psycopg.IntegrityError) or (error.sqlstate or "").startswith(_TOO_LARGE):
                raise DataRefused(f"the Master DB refused a value: {text}") from error
            known = meaning(error, COORDINATOR)
            if known is None:
                raise
            raise known from error
        except UnicodeEncodeError as error:
            self.close()
            raise DataRefused(f"a text cannot be stored: {error}") from error
        except BaseException:
            self.close()
            raise


if TYPE_CHECKING:
    from jobyard.coordinator.seams import LaneStore

    _proof: type[LaneStore] = PostgresLaneStore
