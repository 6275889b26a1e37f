"""What a tick decided, as rows: one writer for each type of event, one list of rows for each table. Nothing here talks to the database."""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from jobyard.contracts import storable
from jobyard.contracts.control import Bucket
from jobyard.contracts.moments import Instant
from jobyard.contracts.moments import text as at_text
from jobyard.contracts.states import State
from jobyard.coordinator.core import events as e
from jobyard.coordinator.core.places import Bundle, Waiting
from jobyard.master_db import rows
from jobyard.master_db.answers import NO_SUCH_JOB
from jobyard.master_db.kind_numbers import KindNumbers
from jobyard.master_db.queries import Statement

END_RUNNING = Statement("end_running")
START_RUNNING = Statement("start_running")
PROGRESS_RUNNING = Statement("progress_running")
CLOSE_BUNDLES = Statement("close_bundles")
HEAR_AGENTS = Statement("hear_agents")
CHANGE_AGENT = Statement("change_agent")
END_AGENT = Statement("end_agent")
GIVE_BUCKETS = Statement("give_buckets")
FREE_BUCKETS = Statement("free_buckets")
ANSWER_COMMAND = Statement("answer_command")
DENY_COMMAND = Statement("deny_command")
LEARN_DURATIONS = Statement("learn_durations")
END_DRAIN = Statement("end_drain")
NOTE_REPAIRS = Statement("note_repairs")

_JUST_AFTER: Final = 0.000_001
"""A retry by hand voids what became final before it: two of these of one job in one tick need an order."""
_MOST_TEXT: Final = 4_000

_E = TypeVar("_E")
Call: TypeAlias = tuple[Statement, dict[str, object]]


@dataclass(slots=True)
class Sheet:
    """Rows for one table: blocks of COPY text without the last newline, and how many rows they are."""

    blocks: list[str]
    count: int = 0

    def add(self, block: str, count: int = 1) -> None:
        self.blocks.append(block)
        self.count += count

    def lines(self) -> list[str]:
        """The text of each row."""
        return [line for block in self.blocks for line in block.split("\n")]


class Journal:
    """The rows of one tick. `places` and `gone`: what leaves `pending`, by ctid (with its id) or by id. `calls`: statements in the order of the events."""

    def __init__(self, lane_id: int, kinds: KindNumbers) -> None:
        self._lane_id = lane_id
        self._kinds = kinds
        self.sheets: defaultdict[rows.Table, Sheet] = defaultdict(lambda: Sheet([]))
        self.places: list[str] = []
        self.placed_ids: list[str] = []
        self.gone: list[str] = []
        self._closed: list[int] = []
        self._ran: list[str] = []
        self._started: dict[str, e.Started] = {}
        self._progressed: dict[str, e.Progressed] = {}
        self._calls: list[Call] = []
        self._noted_at: dict[str, Instant] = {}

    def write(self, events: Sequence[e.Event]) -> None:
        """Take down all events of a tick. KeyError for an event that has no writer, or a kind that was never met: bugs."""
        for event in events:
            writer = WRITERS[type(event)]
            if writer is not None:
                writer(self, event)

    @property
    def empty(self) -> bool:
        """Nothing is to be written but the lease."""
        return not (self.sheets or self.places or self.gone or self.calls())

    def calls(self) -> list[Call]:
        """The statements beside the rows and the leaving of `pending`, in their order."""
        calls: list[Call] = []
        if self._ran:
            calls.append((END_RUNNING, {"job_ids": self._ran}))
        if self._started:
            calls.append((START_RUNNING, self._started_columns()))
        if self._progressed:
            calls.append((PROGRESS_RUNNING, self._progressed_columns()))
        if self._closed:
            calls.append((CLOSE_BUNDLES, {"lane_id": self._lane_id, "fences": self._closed}))
        return calls + self._calls

    def _started_columns(self) -> dict[str, object]:
        of = list(self._started.values())
        return self._running_columns([(one.bundle, one.index) for one in of]) | {
            "started": [at_text(one.at) for one in of],
            "deadlines": [None if one.deadline is None else at_text(one.deadline) for one in of],
        }

    def _progressed_columns(self) -> dict[str, object]:
        of = list(self._progressed.values())
        return self._running_columns([(one.bundle, one.index) for one in of]) | {
            "moments": [at_text(one.at) for one in of],
            "done": [one.done for one in of],
            "total": [one.total for one in of],
            "messages": [storable.text(one.message, _MOST_TEXT) for one in of],
        }

    def _running_columns(self, of: Sequence[tuple[Bundle, int]]) -> dict[str, object]:
        return {
            "lane_id": self._lane_id,
            "job_ids": [bundle.jobs[index].id for bundle, index in of],
            "fences": [bundle.fence for bundle, _ in of],
            "agent_ids": [bundle.agent_id for bundle, _ in of],
            "kind_ids": [self._kinds.ids[bundle.kind] for bundle, _ in of],
            "attempts": [bundle.attempts[index] for bundle, index in of],
            "used": [bundle.used[index] for bundle, index in of],
        }

    # ---- writers, by event

    def refused(self, event: e.Refused) -> None:
        job, problem = event.job, event.job.problem
        detail = {"error_type": problem.code, "error_message": problem.message, "field": problem.field, "hint": problem.hint}
        self._event(job.id, job.kind, "refused", event.at, State.REFUSED, None, 0, None, detail)

    def quarantined(self, event: e.Quarantined) -> None:
        self.sheets[rows.QUARANTINE].add(rows.quarantined(event.message, event.at, self._lane_id))

    def waits(self, event: e.Waits) -> None:
        self._wait(event.waiting)

    def left(self, event: e.Left) -> None:
        for one in event.waiting:
            self._leave(one)

    def moved(self, event: e.Moved) -> None:
        self._leave(event.waiting)
        self._wait([event.waiting])

    def _leave(self, one: Waiting) -> None:
        if one.ctid is None:
            self.gone.append(one.job.id)
        else:
            self.places.append(one.ctid)
            self.placed_ids.append(one.job.id)

    def _wait(self, waiting: Sequence[Waiting]) -> None:
        if waiting:
            self.sheets[rows.PENDING].add("\n".join(rows.pending(waiting, self._kinds.ids, self._lane_id)), len(waiting))

    def placed(self, event: e.Placed) -> None:
        self.sheets[rows.BUNDLES].add(rows.bundle(event.bundle, self._kinds.ids[event.bundle.kind], self._lane_id))

    def ended(self, event: e.Ended) -> None:
        if not event.ends:
            return
        bundle = event.bundle
        ends = [rows.end(one) for one in event.ends] if event.rows is None else event.rows
        block = rows.attempts(bundle, ends, event.used, event.finals, self._kinds.ids[bundle.kind], self._lane_id)
        self.sheets[rows.ATTEMPTS].add(block, len(ends))
        self._ran += event.running
        if self._started or self._progressed:  # reported in the same tick: no row is made (L7)
            for end in event.ends:
                self._started.pop(end.job, None)
                self._progressed.pop(end.job, None)

    def closed(self, event: e.Closed) -> None:
        self._closed += event.fences

    def started(self, event: e.Started) -> None:
        self._started[event.bundle.jobs[event.index].id] = event

    def progressed(self, event: e.Progressed) -> None:
        self._progressed[event.bundle.jobs[event.index].id] = event

    def noted(self, event: e.Noted) -> None:
        self._event(event.job_id, event.kind, event.event, event.at, event.final, event.attempt, event.used, event.actor, event.detail)

    def _event(
        self,
        job_id: str,
        kind: str,
        name: str,
        at: Instant,
        final: State | None,
        attempt: int | None,
        used: int,
        actor: str | None,
        detail: dict[str, object] | dict[str, str] | None,
    ) -> None:
        if final is not None:
            at = self._in_order(job_id, at)
        kind_id = self._kinds.ids[kind]
        self.sheets[rows.JOB_EVENTS].add(
            rows.event(job_id, at, kind_id, self._lane_id, name, final=final, attempt=attempt, used=used, actor=actor, detail=detail)
        )

    def _in_order(self, job_id: str, at: Instant) -> Instant:
        before = self._noted_at.get(job_id)
        if before is not None and at <= before:
            at = before + _JUST_AFTER
        self._noted_at[job_id] = at
        return at

    def reopened(self, event: e.Reopened) -> None:
        at = self._in_order(event.job_id, event.at)
        text = "\t".join((event.job_id, at_text(at), str(event.bound), rows.safe(event.actor, 800)))
        self.sheets[rows.REOPENED].add(text)

    def late_reported(self, event: e.LateReported) -> None:
        self.sheets[rows.LATE_REPORTS].add(rows.late_report(event))

    def agent_joined(self, event: e.AgentJoined) -> None:
        self._give(event.agent_id, event.buckets)

    def buckets_moved(self, event: e.BucketsMoved) -> None:
        self._calls.append((FREE_BUCKETS, {"lane_id": self._lane_id, "agent_id": event.agent_id}))
        self._give(event.agent_id, event.buckets)

    def _give(self, agent_id: int, buckets: Sequence[Bucket]) -> None:
        values: dict[str, object] = {
            "lane_id": self._lane_id,
            "agent_id": agent_id,
            "parts": [bucket.partition for bucket in buckets],
            "priorities": [bucket.priority for bucket in buckets],
            "topic_ids": [bucket.topic_id for bucket in buckets],
            "offsets": [bucket.start_offset for bucket in buckets],
        }
        self._calls.append((GIVE_BUCKETS, values))

    def agents_heard(self, event: e.AgentsHeard) -> None:
        if event.heard:
            values: dict[str, object] = {"agent_ids": list(event.heard), "moments": [at_text(at) for at in event.heard.values()]}
            self._calls.append((HEAR_AGENTS, values))

    def agent_changed(self, event: e.AgentChanged) -> None:
        values: dict[str, object] = {
            "agent_id": event.agent_id,
            "state": event.state,
            "capacity": event.capacity,
            "slots": event.slots,
        }
        self._calls.append((CHANGE_AGENT, values))

    def agent_ended(self, event: e.AgentEnded) -> None:
        self._calls.append((END_AGENT, {"agent_id": event.agent_id, "state": event.state, "at": at_text(event.at)}))
        self._calls.append((FREE_BUCKETS, {"lane_id": self._lane_id, "agent_id": event.agent_id}))

    def answered(self, event: e.Answered) -> None:
        values: dict[str, object] = {
            "command_id": event.command_id,
            "code": event.code,
            "answer": storable.text(event.answer, _MOST_TEXT),
        }
        self._calls.append((ANSWER_COMMAND, values))

    def drain_ended(self, event: e.DrainEnded) -> None:
        self._calls.append((END_DRAIN, {"lane_id": self._lane_id, "name": event.name}))

    def repaired(self, event: e.Repaired) -> None:
        """By a statement that looks the jobs' kinds up: what an agent should not hold is in nobody's memory, and may be no job at all."""
        detail = {"rule": event.rule, "action": event.action, "fence": event.fence, "agent": storable.text(event.agent, 200)}
        values: dict[str, object] = {
            "lane_id": self._lane_id,
            "job_ids": event.job_ids,
            "low": min(event.job_ids),
            "high": max(event.job_ids),
            "at": at_text(event.at),
            "detail": json.dumps(detail),
        }
        self._calls.append((NOTE_REPAIRS, values))

    def not_here(self, event: e.NotHere) -> None:
        values: dict[str, object] = {"command_id": event.command_id, "lane_id": self._lane_id, "answer": NO_SUCH_JOB}
        self._calls.append((DENY_COMMAND, values))

    def learned(self, event: e.Learned) -> None:
        means = event.means
        columns: dict[str, object] = {
            "lane_id": self._lane_id,
            "kind_ids": [self._kinds.ids[one.kind] for one in means],
            "classes": [one.size_class for one in means],
            "ends": [one.ends for one in means],
            "means": [one.mean_s for one in means],
        }
        self._calls.append((LEARN_DURATIONS, columns))


# An event's type and the writer that takes it belong together; no type of the language can say that of a whole table.
Writer: TypeAlias = Callable[[Journal, Any], None]

WRITERS: Final[dict[type[Any], Writer | None]] = {
    e.Refused: Journal.refused,
    e.Quarantined: Journal.quarantined,
    e.Waits: Journal.waits,
    e.Left: Journal.left,
    e.Moved: Journal.moved,
    e.Placed: Journal.placed,
    e.Ended: Journal.ended,
    e.Closed: Journal.closed,
    e.Started: Journal.started,
    e.Progressed: Journal.progressed,
    e.Noted: Journal.noted,
    e.Reopened: Journal.reopened,
    e.LateReported: Journal.late_reported,
    e.AgentJoined: Journal.agent_joined,
    e.AgentsHeard: Journal.agents_heard,
    e.AgentChanged: Journal.agent_changed,
    e.AgentEnded: Journal.agent_ended,
    e.BucketsMoved: Journal.buckets_moved,
    e.Answered: Journal.answered,
    e.NotHere: Journal.not_here,
    e.DrainEnded: Journal.drain_ended,
    e.Learned: Journal.learned,
    e.Repaired: Journal.repaired,
    # Counted or sent only: nothing is written.
    e.Accepted: None,
    e.BucketsWanted: None,
    e.Welcomed: None,
    e.Confirmed: None,
    e.FencedOff: None,
    e.CancelSent: None,
    e.Resent: None,
    e.DrainSent: None,
}
