"""What agents report of attempts: started, progress, ended, released; and what comes late (L7, L14)."""

from jobyard.contracts.codec import encode
from jobyard.contracts.ids import is_job_id
from jobyard.contracts.job import shown
from jobyard.contracts.moments import DAY_S, Instant, later
from jobyard.contracts.reports import NO_RESULT, End, Error, Finished, Progress, Released, Started
from jobyard.contracts.states import REPORTABLE, Outcome, State
from jobyard.coordinator.core import events as happened
from jobyard.coordinator.core.batch import BadMessage, Batch, ReportsRead
from jobyard.coordinator.core.books.bundles import INDEX, SHIFT, Bundles
from jobyard.coordinator.core.books.durations import Durations, size_class
from jobyard.coordinator.core.books.fleet import Fleet
from jobyard.coordinator.core.books.quarantine import Quarantine
from jobyard.coordinator.core.books.waiting import WaitingJobs
from jobyard.coordinator.core.closing import Closing
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.core.places import Bundle
from jobyard.coordinator.core.questions import Answers, LateSubject, Questions

_SUPERSEDED = Error("Superseded", "an earlier attempt, which had been given up as lost, succeeded after all")


class Outcomes:
    """The step. `topic`: the reports topic, named in what goes to quarantine."""

    def __init__(
        self,
        bundles: Bundles,
        fleet: Fleet,
        waiting: WaitingJobs,
        durations: Durations,
        closing: Closing,
        quarantine: Quarantine,
        topic: str,
    ) -> None:
        self._bundles = bundles
        self._fleet = fleet
        self._waiting = waiting
        self._durations = durations
        self._closing = closing
        self._quarantine = quarantine
        self._topic = topic
        # of this tick
        self._late: dict[tuple[str, int], tuple[ReportsRead, End]] = {}
        self._started: dict[tuple[int, int], Instant] = {}
        self._progress: dict[tuple[int, int], Progress] = {}

    def hear(self, batch: Batch, questions: Questions, events: list[Event], now: Instant) -> None:
        """Every report of an attempt counts under its fence; what is open no longer is looked up (L14)."""
        self._late, self._started, self._progress = {}, {}, {}
        for read in batch.reports:
            message = read.message
            agent = self._fleet.holder(message.incarnation)
            repeated = agent is not None and message.seq <= agent.seq
            for position, report in enumerate(message.reports):
                if isinstance(report, Finished):
                    self._finished(read, report, read.rows.get(position), events, now)
                elif isinstance(report, Released):
                    self._released(read, report, events, now)
                elif isinstance(report, Started):
                    self._was_started(read, report, events, now)
                elif isinstance(report, Progress) and not repeated:
                    self._progressed(read, report)
        questions.late.extend(self._late)

    def decide(self, batch: Batch, answers: Answers, events: list[Event], now: Instant) -> None:
        """What came late; then rows for what still runs."""
        closed: set[str] = set()
        now_ended: set[tuple[str, int]] | None = None
        for (job_id, fence), (read, end) in self._late.items():
            subject = answers.late.get((job_id, fence))
            if subject is None or subject.outcome is None:
                if now_ended is None:  # their rows are not there yet
                    now_ended = {
                        (one.job, event.bundle.fence) for event in events if isinstance(event, happened.Ended) for one in event.ends
                    }
                if (job_id, fence) not in now_ended:
                    self._forged(read, Finished(fence=fence, ends=[end]), events, now, "no attempt of the job was ever placed under it")
            elif subject.outcome is Outcome.LOST:
                self._was_late(job_id, fence, read, end, subject, closed, events, now)
        for (fence, index), at in self._started.items():
            bundle = self._bundles.get(fence)
            if bundle is not None and index not in bundle.ended:
                timeout = bundle.jobs[index].timeout_s
                events.append(happened.Started(bundle, index, at, None if timeout is None else later(at, timeout)))
        for (fence, index), progress in self._progress.items():
            bundle = self._bundles.get(fence)
            if bundle is not None and index not in bundle.ended:
                events.append(happened.Progressed(bundle, index, now, progress.done, progress.total, progress.message))

    # -- reports

    def _finished(self, read: ReportsRead, report: Finished, rows: list[str] | None, events: list[Event], now: Instant) -> None:
        fence, ends = report.fence, report.ends
        incarnation = read.message.incarnation
        bundle = self._bundles.get(fence)
        if bundle is None:
            self._too_late(read, fence, ends, events, now)
            return
        if bundle.incarnation != incarnation:
            self._forged(read, report, events, now)
            return
        spots, jobs, attempts, placed_at, high = self._bundles.spots, bundle.jobs, bundle.attempts, bundle.placed_at, now + DAY_S
        base = fence << SHIFT
        indexes: list[int] = []
        counted: list[End] = []
        plain = True
        total, timed = 0.0, 0
        first, last = high, 0.0
        size_sum = 0.0
        for end in ends:
            spot = spots.get(end.job, -1)
            index = spot - base
            if not 0 <= index <= INDEX:
                self._too_late(read, fence, [end], events, now)
                continue
            if end.attempt != attempts[index] or end.outcome not in REPORTABLE:
                self._forged(read, Finished(fence=fence, ends=[end]), events, now)
                continue
            del spots[end.job]
            indexes.append(index)
            counted.append(end)
            if end.outcome is not Outcome.SUCCEEDED:
                plain = False
            started, ended = end.started_at, end.ended_at
            if not placed_at < ended <= high:
                plain = False  # closing mends such times
            if started is None:
                pass
            elif placed_at - DAY_S <= started <= ended <= high:
                total += ended - started
                timed += 1
                if started < first:
                    first = started
                if ended > last:
                    last = ended
            else:
                plain = False
            size_sum += jobs[index].size
        if not indexes:
            return
        if rows is not None and len(counted) != len(ends):
            kept = {id(end) for end in counted}
            rows = [row for end, row in zip(ends, rows, strict=True) if id(end) in kept]
        agent = self._fleet.holder(incarnation)
        if timed:
            self._durations.learned(self._durations.of(bundle.kind, size_class(bundle.jobs[0].size)), timed, total)
            if agent is not None:
                agent.worked(len(indexes), min(size_sum, agent.capacity * len(indexes)), first, last, report.busy_s)
        if plain:
            self._closing.succeeded(bundle, indexes, counted, rows, events)
        else:
            self._closing.ended(bundle, indexes, counted, rows, now, events)

    def _released(self, read: ReportsRead, report: Released, events: list[Event], now: Instant) -> None:
        fence = report.fence
        incarnation = read.message.incarnation
        bundle = self._bundles.get(fence)
        if bundle is not None and bundle.incarnation != incarnation:
            self._forged(read, report, events, now)
            return
        outcomes: dict[int, tuple[int, Outcome, Error | None]] = {}
        for job_id, attempt in report.jobs:
            index = self._bundles.spots.get(job_id, -1) - (fence << SHIFT)
            if bundle is None or not 0 <= index <= INDEX or index in outcomes:
                end = End(job=job_id, attempt=attempt, outcome=Outcome.RELEASED, started_at=None, ended_at=now)
                self._too_late(read, fence, [end], events, now)
            elif attempt != bundle.attempts[index]:
                self._forged(read, Released(fence=fence, jobs=[(job_id, attempt)], reason=report.reason), events, now)
            else:
                outcomes[index] = (index, Outcome.RELEASED, Error("Released", report.reason) if report.reason else None)
        if bundle is None or not outcomes:
            return
        agent = self._fleet.holder(incarnation)
        if agent is not None:
            agent.forget_rate()  # S9
        self._closing.decided(bundle, list(outcomes.values()), now, events)

    def _was_started(self, read: ReportsRead, report: Started, events: list[Event], now: Instant) -> None:
        bundle, index = self._open(report.fence, report.job)
        if bundle is None:
            return
        if bundle.incarnation != read.message.incarnation or report.attempt != bundle.attempts[index]:
            self._forged(read, report, events, now)
            return
        at = report.at if bundle.placed_at - DAY_S <= report.at <= now + DAY_S else now
        if index not in bundle.running:
            bundle.running[index] = at
            self._started[report.fence, index] = at

    def _progressed(self, read: ReportsRead, report: Progress) -> None:
        bundle, index = self._open(report.fence, report.job)
        if bundle is None or bundle.incarnation != read.message.incarnation or report.attempt != bundle.attempts[index]:
            return
        if index not in bundle.running:
            bundle.running[index] = read.fetched
            self._started[report.fence, index] = read.fetched
        self._progress[report.fence, index] = report

    def _open(self, fence: int, job_id: str) -> tuple[Bundle | None, int]:
        index = self._bundles.spots.get(job_id, -1) - (fence << SHIFT)
        if not 0 <= index <= INDEX:
            return None, -1
        return self._bundles.get(fence), index

    def _forged(
        self, read: ReportsRead, report: Finished | Released | Started, events: list[Event], now: Instant, why: str | None = None
    ) -> None:
        if why is None:
            bundle = self._bundles.get(report.fence)
            owner = "nobody" if bundle is None else bundle.incarnation
            why = f"it belongs to {owner}: the incarnation, the attempt or the outcome does not fit"
        reason = f"report of agent {read.message.agent!r}, incarnation {read.message.incarnation}, under fence {report.fence}: {why}"
        self._quarantine.put(BadMessage(self._topic, 0, read.offset, reason, encode(report)), events, now)

    # -- late ones

    def _too_late(self, read: ReportsRead, fence: int, ends: list[End], events: list[Event], now: Instant) -> None:
        """Looked up by (job, fence): what is no id of a job can't be, and was forged."""
        for end in ends:
            if not is_job_id(end.job):
                self._forged(read, Finished(fence=fence, ends=[end]), events, now, f"{shown(end.job)} is no id of a job")
            elif end.outcome in REPORTABLE or end.outcome is Outcome.RELEASED:
                self._late.setdefault((end.job, fence), (read, end))

    def _was_late(
        self,
        job_id: str,
        fence: int,
        read: ReportsRead,
        end: End,
        subject: LateSubject,
        closed: set[str],
        events: list[Event],
        now: Instant,
    ) -> None:
        """The attempt had been given up as lost. Kept once; a success closes the job if it is not final."""
        if subject.incarnation != read.message.incarnation:
            self._forged(read, Finished(fence=fence, ends=[end]), events, now, f"it belonged to {subject.incarnation}")
            return
        if subject.reported:
            return
        closes = False
        if end.outcome is Outcome.SUCCEEDED and subject.state is None and job_id not in closed:
            closes = self._closes(job_id, subject, events, now)
        events.append(
            happened.LateReported(
                job_id,
                fence,
                now,
                subject.agent_id,
                end.outcome,
                closes,
                end.error,
                None if bytes(end.result) == bytes(NO_RESULT) else bytes(end.result),
            )
        )
        if closes:
            closed.add(job_id)
            events.append(
                happened.Noted(
                    job_id,
                    subject.kind,
                    "late_success",
                    now,
                    final=State.SUCCEEDED,
                    attempt=subject.attempt,
                    used=subject.used,
                    detail={"fence": fence} if bytes(end.result) == bytes(NO_RESULT) else {"fence": fence, "result": end.result},
                )
            )

    def _closes(self, job_id: str, subject: LateSubject, events: list[Event], now: Instant) -> bool:
        """Take the job from where it stands. False: it stands nowhere, so it has become final in this very tick."""
        placed = self._bundles.spot(job_id)
        if placed is not None:
            bundle, index = placed
            agent = self._fleet.holder(bundle.incarnation)
            name = agent.name if agent is not None else ""
            self._closing.decided(bundle, [(index, Outcome.SUPERSEDED, _SUPERSEDED)], now, events)
            events.append(
                happened.CancelSent(bundle.fence, job_id, bundle.bucket, name, bundle.incarnation, "an earlier attempt succeeded")
            )
            return True
        waiting = self._waiting.find(job_id)
        if waiting is None:
            waiting = subject.waiting
            if waiting is None or self._waiting.touched(job_id):
                return False
            waiting.stored = True
        self._waiting.left(waiting)
        return True
