"""What every commit must keep: one place for each job, one end, numbers without gaps, offsets that say what was done (I1, I2, I3, I7, I9)."""

from collections.abc import Sequence

from jobyard.contracts import codec
from jobyard.contracts.reports import Finished, Released
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import Outcome, State
from jobyard.contracts.topics import LaneTopics
from jobyard.coordinator.core import events as e
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.simulation.broker import Broker
from jobyard.coordinator.simulation.database import SimulatedStore
from jobyard.coordinator.simulation.ledger import Ledger
from jobyard.coordinator.simulation.violation import Violation
from jobyard.testing.memory_tables import MemoryLane


class Commits:
    """`placed`: job → fence, of all that stand in an open bundle. `placements`: fence → incarnation, of all that ever were committed."""

    def __init__(
        self, tables: MemoryLane, ledger: Ledger, broker: Broker, topics: LaneTopics, lane: str, rules: Rules, *, every_message: int = 1
    ) -> None:
        self._t = tables
        self._ledger = ledger
        self._broker = broker
        self._topics = topics
        self._lane = lane
        self._rules = rules
        self._every = every_message
        self.placed: dict[str, int] = {}
        self.placements: dict[int, str] = {}
        self.checked = 0
        self._attempts: dict[str, int] = {}
        self._finals: dict[str, State] = {}
        self._fence = 0
        self._epoch = 0
        self._offsets: dict[str, tuple[str, int]] = {}

    def committed(
        self, store: SimulatedStore, events: Sequence[Event], offsets: dict[str, tuple[str, int]], fence: int, epoch: int
    ) -> None:
        """Look at what changed."""
        if epoch < self._epoch or fence < self._fence:
            raise Violation("I7", f"epoch {epoch} after {self._epoch}, fence {fence} after {self._fence}")
        self._epoch = epoch
        touched = list(store.inserted)
        reopened: set[str] = set()
        for event in events:
            self._event(event, touched, reopened)
        self._fence = fence
        self._moved(offsets)
        for job in touched:
            self._stands(job)
            final, before = self._t.final(job), self._finals.get(job)
            if before is not None and final is not before and job not in reopened:
                raise Violation("I2", f"job {job} was {before} for good, and is {final}")
            if final is None:
                self._finals.pop(job, None)
            else:
                self._finals[job] = final
        self.checked += 1 + len(touched)

    def everything(self) -> None:
        """All jobs that were ever accepted."""
        t = self._t
        for job in t.jobs:
            self._stands(job)
        for job, (fence, _) in t.running.items():
            if self.placed.get(job) != fence:
                raise Violation("I1", f"job {job} has a running row of fence {fence}, and is placed under {self.placed.get(job)}")
        for job, rows in t.attempts_of.items():
            numbers = sorted(row.attempt for row in rows)
            if numbers != list(range(1, len(numbers) + 1)):
                raise Violation("I3", f"job {job} has the attempts {numbers}")
        self.checked += len(t.jobs) + len(t.running) + len(t.attempts_of)

    def _event(self, event: Event, touched: list[str], reopened: set[str]) -> None:
        match event:
            case e.Waits() | e.Left():
                touched += [waiting.job.id for waiting in event.waiting]
            case e.Placed():
                self._was_placed(event, touched)
            case e.Ended():
                self._ended(event, touched)
            case e.Noted():
                touched.append(event.job_id)
            case e.Reopened():
                reopened.add(event.job_id)
                touched.append(event.job_id)
            case e.Refused() | e.Quarantined():
                raise Violation("L18", f"all messages are good, and {event} was decided")
            case _:
                pass

    def _was_placed(self, event: e.Placed, touched: list[str]) -> None:
        bundle = event.bundle
        if bundle.fence <= self._fence or bundle.fence in self.placements:
            raise Violation("I7", f"fence {bundle.fence} is placed after {self._fence}")
        self.placements[bundle.fence] = bundle.incarnation
        for job, attempt in zip(bundle.jobs, bundle.attempts, strict=True):
            if job.id in self.placed:
                raise Violation("I1", f"job {job.id} is placed under {bundle.fence}, and stands in {self.placed[job.id]}")
            if attempt != self._attempts.get(job.id, 0) + 1:
                raise Violation("I3", f"job {job.id}: attempt {attempt} after {self._attempts.get(job.id, 0)}")
            self._attempts[job.id] = attempt
            self.placed[job.id] = bundle.fence
            touched.append(job.id)

    def _ended(self, event: e.Ended, touched: list[str]) -> None:
        fence = event.bundle.fence
        for end in event.ends:
            if self.placed.pop(end.job, None) != fence:
                raise Violation("I1", f"job {end.job} ended under {fence}, and did not stand there")
            if end.attempt != self._attempts[end.job]:
                raise Violation("I3", f"job {end.job}: attempt {end.attempt} ended, {self._attempts[end.job]} was placed")
            touched.append(end.job)
            runs = [run for run in self._ledger.runs.get(end.job, ()) if run.fence == fence]
            really = runs[-1].outcome if runs else None
            if end.outcome is Outcome.CANCELLED and really is Outcome.SUCCEEDED:
                raise Violation("I9", f"job {end.job} was recorded as cancelled under {fence}, and had succeeded")
            if end.outcome is Outcome.SUCCEEDED and really is not Outcome.SUCCEEDED:
                raise Violation("I2", f"job {end.job} was recorded as succeeded under {fence}, and it was {really}")
            if end.outcome is Outcome.RELEASED and runs and not any(run.late for run in runs):
                raise Violation("S9", f"job {end.job} was recorded as released under {fence}, and it was started")

    def _moved(self, offsets: dict[str, tuple[str, int]]) -> None:
        for topic in (self._topics.intake, self._topics.reports):
            if topic.name not in offsets:
                continue
            topic_id, offset = offsets[topic.name]
            before_id, before = self._offsets.get(topic.name, ("", 0))
            self._offsets[topic.name] = (topic_id, offset)
            there = self._broker.topics[topic.name]
            if there.id != topic_id:  # destroyed meanwhile; whoever found its end before its offset begins at 0
                continue
            if topic_id == before_id and offset < before:
                raise Violation("I7", f"{topic.name} was read to {before}, and now to {offset}")
            partition = there.partitions[0]
            first = max(partition.first, before if topic_id == before_id else 0)
            for at in range(first, min(offset, partition.end)):
                if at % self._every == 0:
                    value, _ = partition.record(at)
                    if topic is self._topics.intake:
                        self._taken_in(value, at)
                    else:
                        self._reported(value, at)

    def _taken_in(self, value: bytes, at: int) -> None:
        for job in codec.decode_intake(value, self._lane, self._t.now(), self._rules).jobs:
            if job.id is not None and job.id not in self._t.jobs and job.id not in self._t.held:
                raise Violation("I7", f"intake is committed beyond offset {at}, and its job {job.id} is nowhere")

    def _reported(self, value: bytes, at: int) -> None:
        for report in codec.decode_reports(value).reports:
            jobs: list[str] = []
            if isinstance(report, Finished):
                jobs = [end.job for end in report.ends]
            elif isinstance(report, Released):
                jobs = [job for job, _ in report.jobs]
            else:
                continue
            for job in jobs:
                if (job, report.fence) not in self._t.attempts:
                    raise Violation("I7", f"reports are committed beyond offset {at}, and the end of {job} under {report.fence} is not")

    def _stands(self, job: str) -> None:
        places = (job in self._t.pending) + (job in self.placed) + (self._t.final(job) is not None)
        if places != 1:
            raise Violation(
                "I1",
                f"job {job} stands in {places} places: pending {job in self._t.pending}, fence {self.placed.get(job)}, final {self._t.final(job)}",
            )
