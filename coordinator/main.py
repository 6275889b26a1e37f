"""The coordinator's composition root: builds adapters from plain values, and leads lanes until a signal comes."""

import gc
import logging
import threading
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field

from jobyard import migrations
from jobyard.contracts.errors import ConfigurationError, ServiceUnavailable
from jobyard.contracts.rules import RULES, Rules
from jobyard.contracts.topics import lane_topics
from jobyard.coordinator.election import Election
from jobyard.coordinator.housekeeper import Housekeeper
from jobyard.coordinator.leader import Leader, World
from jobyard.coordinator.meters import Meters
from jobyard.coordinator.seams import Bus, Clock, LaneStore, Notices, Source, Term
from jobyard.kafka.admin import Admin, ensure_topics
from jobyard.kafka.consumer import open_consumer
from jobyard.kafka.producer import open_producer
from jobyard.master_db import check, retention, rows
from jobyard.master_db.connection import Timeouts, connect
from jobyard.master_db.lane_store import PostgresLaneStore
from jobyard.master_db.lanes import PostgresLanes
from jobyard.master_db.notices import PostgresNotices
from jobyard.process.clock import DatabaseClock, monotonic
from jobyard.process.signals import Signals

_log = logging.getLogger(__name__)

_HOUSEKEEPING = Timeouts(statement_s=0)
"""Statistics of a large history take minutes; its locks are given up by their own time-outs."""
_AGAIN_S = 1.0
"""How often a database that does not answer at the start is tried again."""
_COLLECT = (50_000, 20, 50)
"""A lane's books are many small objects without cycles: the collector walks them seldom."""
_DELIVERY_S = 5.0
"""A message of the leader that is not acknowledged for this long counts as failed: it is looked up and sent again (L5)."""


@dataclass(frozen=True, kw_only=True)
class CoordinatorPlan:
    """What one coordinator process is to do. `lanes`: the only ones that it may lead; empty: all. Days None: the settings in the Master DB.

    `metrics`: address and port for Prometheus; None: nothing is counted.
    """

    database_url: str = field(repr=False)
    bootstrap_servers: str
    kafka_options: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    namespace: str = "jobyard"
    lanes: tuple[str, ...] = ()
    rules: Rules = RULES
    retention_days: int | None = None
    partition_days: int | None = None
    metrics: tuple[str, int] | None = None


class Coordinator:
    """One coordinator without signals and process: `run` leads until `stop` is set. Any number may run, in one process, too."""

    def __init__(self, plan: CoordinatorPlan) -> None:
        self._plan = plan
        self._me = str(uuid.uuid4())  # never a name: two processes of one name must not take each other for themselves (T1)
        self._admin = Admin(plan.bootstrap_servers, plan.kafka_options)
        self._meters = Meters() if plan.metrics is not None else None

    def run(self, stop: threading.Event) -> None:
        """Lead lanes until `stop` is set. Waits for services that do not answer yet.

        ConfigurationError if the database's schema is not this program's, if a service does not let us in, or if the metrics' port is taken.
        """
        with ExitStack() as stack:
            stack.callback(self._admin.close)
            if self._meters is not None and self._plan.metrics is not None:
                address, port = self._plan.metrics
                _log.info("metrics at http://%s:%d/metrics", address, stack.enter_context(self._meters.served(address, port)))
            self._try_kafka()
            if not self._await_database(stop):
                return
            housekeeper = Housekeeper(self._keep)
            housekeeper.start()
            stack.callback(housekeeper.stop)
            lanes = PostgresLanes(self._plan.database_url, self._me)
            stack.callback(lanes.close)
            Election(lanes, self._me, self._plan.lanes, self._leader, self._plan.rules).run(stop)

    def _try_kafka(self) -> None:
        """A password or certificate that is wrong is wrong for every lane: told before any is taken. That nobody answers is each leader's trouble."""
        try:
            self._admin.reach()
        except ServiceUnavailable as error:
            _log.warning("%s; trying until it answers", error)

    def _await_database(self, stop: threading.Event) -> bool:
        """Whether the database is ready, its partitions made: without them jobs cannot be stored. False: stopped before."""
        failing = False
        while not stop.is_set():
            try:
                self._check_schema()
                self._keep()
                return True
            except ServiceUnavailable as error:
                if not failing:
                    _log.warning("waits for the Master DB: %s", error)
                failing = True
                stop.wait(_AGAIN_S)
        return False

    def _check_schema(self) -> None:
        with connect(self._plan.database_url, application_name="jobyard-coordinator start") as connection:
            found, needed = check.current(connection), migrations.head()
        # A newer schema is fine: it is expanded before the code that needs it comes (two versions run side by side in a deploy).
        if found is None or found < needed:
            raise ConfigurationError(f'the schema is at revision {found or "none"}, this program needs {needed}; run "jobyard db upgrade"')

    def _leader(self, lane: str) -> Leader:
        plan = self._plan

        def store() -> LaneStore:
            return PostgresLaneStore(plan.database_url, lane, self._me, plan.rules, monotonic)

        def source() -> Source:
            return open_consumer(plan.bootstrap_servers, plan.kafka_options, namespace=plan.namespace)

        def bus() -> Bus:
            return open_producer(plan.bootstrap_servers, plan.kafka_options, timeout_s=_DELIVERY_S)

        def notices() -> Notices:
            return PostgresNotices(plan.database_url, lane)

        def clock(term: Term) -> Clock:
            # A new one for each leadership: its `now` never jumps while it lasts, since a clock that was set ends it.
            read = DatabaseClock()
            read.heard(term.now, term.asked_at, term.answered_at)
            return read

        world = World(
            store=store, source=source, bus=bus, notices=notices, clock=clock, admin=self._admin, prepare=rows.prepare, meters=self._meters
        )

        def make_topics() -> None:
            ensure_topics(plan.bootstrap_servers, plan.kafka_options, plan.namespace, lane)

        return Leader(lane, world, plan.rules, lane_topics(plan.namespace, lane), make_topics)

    def _keep(self) -> bool:
        with connect(
            self._plan.database_url, application_name="jobyard-housekeeper", autocommit=True, timeouts=_HOUSEKEEPING
        ) as connection:
            kept = retention.keep(connection, retention_days=self._plan.retention_days, partition_days=self._plan.partition_days)
        if kept.made or kept.dropped:
            _log.info("made %d partitions, dropped %s, moved %d unfinished jobs", kept.made, kept.dropped or "none", kept.moved_jobs)
        return bool(kept.waiting)


def run(plan: CoordinatorPlan) -> int:
    """Lead lanes until SIGTERM or SIGINT; a second one ends at once. The exit status, 1 if it could not end in order. Main thread only."""
    gc.set_threshold(*_COLLECT)
    stop = threading.Event()
    died: list[BaseException] = []
    with Signals() as signals:

        def lead() -> None:
            try:
                Coordinator(plan).run(stop)
            except BaseException as error:
                died.append(error)
            finally:
                signals.wake()

        thread = threading.Thread(target=lead, name="election", daemon=True)
        thread.start()
        while thread.is_alive() and not signals.now:
            signals.wait(1.0)
            if signals.orderly:
                stop.set()
    if died:
        raise died[0]
    if thread.is_alive():
        _log.warning("ends at once: what it led is led again when its leases are over")
        return 1
    return 0
