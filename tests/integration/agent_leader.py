"""A leader that does what a test says, on real Kafka: reads reports, writes control and bundles."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from jobyard.contracts import codec
from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.control import Bucket, Cancel, Confirm, Fenced, FencedReason, Welcome
from jobyard.contracts.ids import new_job_id
from jobyard.contracts.job import Job
from jobyard.contracts.reports import End, Finished, Heartbeat, Hello, Released, Report, Reports
from jobyard.contracts.topics import lane_topics
from jobyard.kafka.admin import Admin
from jobyard.kafka.consumer import BEGINNING, Message, open_consumer
from jobyard.kafka.producer import open_producer

PATIENCE_S = 30.0
R = TypeVar("R", bound=Report)


class Leader:
    """Welcomes every hello by itself; the rest is asked for. `reports`: (incarnation, report), as read, with the time of reading."""

    def __init__(self, bootstrap: str, namespace: str, lost_after_s: float = 15.0, welcoming: bool = True) -> None:
        self.topics = lane_topics(namespace, "default")
        self.admin = Admin(bootstrap, {})
        self.admin.ensure(self.topics.all())
        self.lost_after_s = lost_after_s
        self.welcoming = welcoming
        self.epoch = 1
        self.fence = 0
        self.reports: list[tuple[str, Report, float]] = []
        self.seqs: dict[str, list[int]] = {}
        self.agents: dict[str, str] = {}
        self.welcomed: dict[str, None] = {}
        self._changed = threading.Condition()
        self._producer = open_producer(bootstrap, {}, timeout_s=10.0)
        self._consumer = open_consumer(bootstrap, {}, namespace=namespace)
        self._consumer.assign([(self.topics.reports.name, 0, BEGINNING)])
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ending.set()
        self._thread.join(10.0)
        self._consumer.close()
        self._producer.close(1.0)
        self.admin.close()

    # ---- reading ----

    def _read(self) -> None:
        while not self._ending.is_set():
            for read in self._consumer.consume(1000, 0.05):
                assert isinstance(read, Message)
                self._hear(codec.decode_reports(read.value))

    def _hear(self, batch: Reports) -> None:
        with self._changed:
            self.agents[batch.incarnation] = batch.agent
            self.seqs.setdefault(batch.incarnation, []).append(batch.seq)
            now = time.monotonic()
            self.reports += [(batch.incarnation, report, now) for report in batch.reports]
            self._changed.notify_all()
        for report in batch.reports:
            if isinstance(report, Hello) and self.welcoming:
                self.welcome(batch.incarnation, report.stamp)
            elif isinstance(report, Heartbeat) and report.suspended and self.welcoming:
                self.control(Confirm(v=1, epoch=self.epoch, agent=batch.agent, incarnation=batch.incarnation, stamp=report.stamp))

    def of(self, kind: type[R], incarnation: str | None = None) -> list[R]:
        with self._changed:
            return [report for life, report, _ in self.reports if isinstance(report, kind) and incarnation in (None, life)]

    def times(self, kind: type[Report]) -> list[float]:
        with self._changed:
            return [when for _, report, when in self.reports if isinstance(report, kind)]

    def until(self, holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + patience_s
        while not holds():
            left = deadline - time.monotonic()
            assert left > 0, f"did not happen in {patience_s:g} s; the reports were {[r for _, r, _ in self.reports][-20:]}"
            with self._changed:
                self._changed.wait(min(left, 0.05))

    def incarnation(self, number: int = 0) -> str:
        """Of the agent that was welcomed as the first, second, …: only from then on a bundle lies behind its start offsets (L22)."""
        self.until(lambda: len(self.welcomed) > number)
        return list(self.welcomed)[number]

    def heartbeat(self) -> Heartbeat:
        """The last one; the first comes a moment after the welcome."""
        self.until(lambda: bool(self.of(Heartbeat)))
        return self.of(Heartbeat)[-1]

    def ends(self) -> dict[str, End]:
        return {end.job: end for report in self.of(Finished) for end in report.ends}

    def released(self) -> list[str]:
        return [job for report in self.of(Released) for job, _ in report.jobs]

    # ---- writing ----

    def welcome(self, incarnation: str, stamp: float) -> None:
        name = self.topics.buckets.name
        topic_id = self.admin.topic_ids([name])[name]
        assert topic_id is not None
        ends = self.admin.end_offsets(name, range(5))
        self.control(
            Welcome(
                v=1,
                epoch=self.epoch,
                agent=self.agents[incarnation],
                incarnation=incarnation,
                stamp=stamp,
                buckets=[Bucket(p, p, topic_id, ends[p]) for p in range(5)],
                lost_after_s=self.lost_after_s,
            )
        )
        with self._changed:
            self.welcomed[incarnation] = None
            self._changed.notify_all()

    def fenced(self, incarnation: str, reason: FencedReason) -> None:
        self.control(Fenced(v=1, epoch=self.epoch, agent=self.agents[incarnation], incarnation=incarnation, reason=reason))

    def cancel(self, incarnation: str, fence: int, job: str) -> None:
        self.control(Cancel(v=1, epoch=self.epoch, agent=self.agents[incarnation], incarnation=incarnation, fence=fence, bucket=2, job=job))

    def control(self, message: Welcome | Confirm | Fenced | Cancel) -> None:
        with self._lock:
            self._producer.produce(self.topics.control.name, codec.encode(message))
            assert self._producer.flush(10.0) == 0

    def place(
        self, incarnation: str, kinds: Sequence[str], *, careful: bool = False, fence: int | None = None, jobs: list[Job] | None = None
    ) -> list[str]:
        """One bundle; returns the ids of its jobs."""
        self.fence += fence is None
        placed = jobs or [Job(id=new_job_id(), kind=kind) for kind in kinds]
        message = BundleMessage(
            v=1,
            epoch=self.epoch,
            fence=self.fence if fence is None else fence,
            agent=self.agents[incarnation],
            incarnation=incarnation,
            bucket=2,
            jobs=placed,
            attempts=[1] * len(placed),
            used=[0] * len(placed),
            careful=[careful] * len(placed),
        )
        with self._lock:
            self._producer.produce(self.topics.buckets.name, codec.encode(message), partition=2)
            assert self._producer.flush(10.0) == 0
        return [job.id for job in placed]
