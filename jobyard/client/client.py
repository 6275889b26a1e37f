"""One program's way to Jobyard: settings, own connections, producer. Opens nothing until used, and anew after a fork or close()."""

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec

from jobyard.client import lookup, sql
from jobyard.client.connections import Async, Connections, Sync, async_one, sync_one
from jobyard.client.kafka import KafkaIntake
from jobyard.client.lookup import AttemptRecord, JobStatus
from jobyard.client.place import refuse_on_loop
from jobyard.client.refusals import by_code
from jobyard.client.waiting import ON_ITS_WAY_S, pauses
from jobyard.contracts.errors import ConfigurationError, InvalidJob, WaitTimeout
from jobyard.contracts.job import NewJob, problem_of
from jobyard.contracts.rules import RULES, Rules
from jobyard.contracts.topics import problem_of_name

T = TypeVar("T")
Way: TypeAlias = Literal["sql", "kafka"]
SubmitVia: TypeAlias = Literal["sql", "kafka", "connection"]
_DEFAULT_LANE: Final = "default"
_LOST_COMMAND: Final = (
    "job {}: the {} is recorded, but no coordinator has answered within {:g} s; it will be carried out when one leads the lane"
)


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """What a program says in code; None: as the settings say."""

    database_url: str | None = field(default=None, repr=False)
    kafka_bootstrap_servers: str | None = None
    kafka_options: dict[str, str] | None = field(default=None, repr=False)
    namespace: str | None = None
    lane: str | None = None
    submitter: str | None = None
    submit_via: SubmitVia | None = None


@dataclass(frozen=True, kw_only=True)
class Effective:
    """Overrides and settings together."""

    database_url: str | None = field(repr=False)
    kafka_bootstrap_servers: str | None
    kafka_options: dict[str, str] = field(repr=False)
    namespace: str
    lane: str
    submitter: str | None
    submit_via: SubmitVia
    rules: Rules


def _effective(over: Overrides) -> Effective:
    from jobyard.settings import client_settings

    found = client_settings()
    url = over.database_url or (None if found.database_url is None else found.database_url.get_secret_value())
    effective = Effective(
        database_url=url,
        kafka_bootstrap_servers=over.kafka_bootstrap_servers or found.kafka_bootstrap_servers,
        kafka_options=dict(found.kafka_options) if over.kafka_options is None else over.kafka_options,
        namespace=over.namespace or found.namespace,
        lane=over.lane or found.lane,
        submitter=over.submitter or found.submitter,
        submit_via=over.submit_via or found.submit_via,
        rules=Rules(max_args_bytes=found.max_args_bytes),
    )
    for what, name in (("namespace", effective.namespace), ("lane", effective.lane)):
        problem = problem_of_name(what, name)
        if problem:
            raise ConfigurationError(problem)
    wrong = problem_of(NewJob(kind="any", submitter=effective.submitter), RULES)
    if wrong:
        raise ConfigurationError(wrong.message)
    return effective


class Client:
    """Submits jobs and commands, and looks jobs up. Any thread; the _async twins on any event loop."""

    def __init__(self, overrides: Overrides) -> None:
        self._overrides = overrides
        self._lock = threading.RLock()
        self._settings: Effective | None = None
        self._connections: Connections | None = None
        self._intake: KafkaIntake | None = None
        _clients.add(self)

    def forget(self) -> None:
        """In the child of a fork: nothing of what is open is the child's, and locks may be held by threads that stayed behind."""
        self._lock = threading.RLock()
        if self._connections is not None:
            self._connections.forget()
        if self._intake is not None:
            self._intake.forget()

    @property
    def settings(self) -> Effective:
        """Read from the environment when first asked for. ConfigurationError if they are wrong."""
        if self._settings is None:
            self._settings = _effective(self._overrides)
        return self._settings

    @property
    def _own(self) -> Connections:
        if self._connections is None:
            url = self.settings.database_url
            if url is None:
                raise ConfigurationError(
                    "no database is known: set JOBYARD_DATABASE_URL (`jobyard dev env` prints it for the embedded services), submit in a connection "
                    "of yours (connection=), or by Kafka (via='kafka')"
                )
            with self._lock:
                self._connections = self._connections or Connections(url)
        return self._connections

    @property
    def intake(self) -> KafkaIntake:
        """The way by Kafka. ConfigurationError if no brokers are known."""
        if self._intake is None:
            settings = self.settings
            if settings.kafka_bootstrap_servers is None:
                raise ConfigurationError(
                    "no Kafka is known: set JOBYARD_KAFKA_BOOTSTRAP_SERVERS (`jobyard dev env` prints it for the embedded services), or submit by SQL"
                )
            with self._lock:
                self._intake = self._intake or KafkaIntake(settings.kafka_bootstrap_servers, settings.kafka_options, settings.namespace)
        return self._intake

    def way(self, via: Way | None) -> Way:
        """By which way a job without a connection goes. ConfigurationError: JOBYARD_SUBMIT_VIA=connection wants one."""
        chosen = via or self.settings.submit_via
        if chosen == "connection":
            raise ConfigurationError("a connection is missing: JOBYARD_SUBMIT_VIA=connection wants each job in one (connection=)")
        return chosen

    def lane_of(self, job: NewJob) -> str:
        """The lane to whose topic a job goes."""
        return job.lane or self.settings.lane

    def completed(self, job: NewJob) -> NewJob:
        """The job with the submitter and lane of this program, where it names none. The lane "default" is left to the kind."""
        settings = self.settings
        lane = job.lane or (settings.lane if settings.lane != _DEFAULT_LANE else None)
        submitter = job.submitter or settings.submitter
        if lane == job.lane and submitter == job.submitter:
            return job
        return msgspec.structs.replace(job, lane=lane, submitter=submitter)

    def submit(self, job: NewJob, via: Way | None, connection: object) -> bool:
        """Submit one job; whether its id was a job already (by Kafka: not known, False)."""
        if connection is not None:
            _refuse_both(via)
            given = sync_one(connection)
            if given is None:
                raise TypeError("connection is an AsyncConnection: use `await submit_async()`")
            return sql.submit(given, self.completed(job))
        refuse_on_loop("submit")
        if self.way(via) == "kafka":
            self.intake.submit(self.lane_of(job), self.completed(job))
            return False
        ready = self.completed(job)
        return self._own.run(lambda c: sql.submit(c, ready))

    async def submit_async(self, job: NewJob, via: Way | None, connection: object) -> bool:
        """submit() for the event loop. A sync connection is used in a thread, so that it blocks nobody."""
        if connection is not None:
            _refuse_both(via)
            given = async_one(connection)
            if given is None:
                return await asyncio.to_thread(self.submit, job, via, connection)
            return await sql.submit_async(given, self.completed(job))
        if self.way(via) == "kafka":
            await asyncio.to_thread(self.intake.submit, self.lane_of(job), self.completed(job))
            return False
        ready = self.completed(job)
        return await self._own.run_async(lambda c: sql.submit_async(c, ready))

    def run(self, call: Callable[[Sync], T], *, fresh: bool = False) -> T:
        """Call with an own connection; each statement is committed at once."""
        return self._own.run(call, fresh=fresh)

    async def run_async(self, call: Callable[[Async], Awaitable[T]], *, fresh: bool = False) -> T:
        """run() for the event loop."""
        return await self._own.run_async(call, fresh=fresh)

    def status(self, job_id: str) -> JobStatus | None:
        """Where a job stands; None if it is not known (yet)."""
        return self.run(lambda c: lookup.status(c, job_id))

    async def status_async(self, job_id: str) -> JobStatus | None:
        """status() for the event loop."""
        return await self.run_async(lambda c: lookup.status_async(c, job_id))

    def history(self, job_id: str) -> list[AttemptRecord]:
        """All attempts of a job that have ended."""
        return self.run(lambda c: lookup.history(c, job_id))

    async def history_async(self, job_id: str) -> list[AttemptRecord]:
        """history() for the event loop."""
        return await self.run_async(lambda c: lookup.history_async(c, job_id))

    def command(self, verb: Literal["cancel", "retry"], job_id: str, reason: str | None) -> None:
        """Cancel or retry a job; returns when the leader has decided. NotFound, Refused; WaitTimeout: recorded, no answer within 10 s."""
        # on a fresh connection: one that died half-way must not make a second command
        number = self.run(lambda c: sql.command(c, verb, job_id, reason), fresh=True)
        for pause in pauses(ON_ITS_WAY_S):
            answer = self.run(lambda c: sql.answer(c, number))
            if answer is not None:
                _raise_refusal(answer)
                return
            threading.Event().wait(pause)
        raise WaitTimeout(_LOST_COMMAND.format(job_id, verb, ON_ITS_WAY_S))

    async def command_async(self, verb: Literal["cancel", "retry"], job_id: str, reason: str | None) -> None:
        """command() for the event loop."""
        number = await self.run_async(lambda c: sql.command_async(c, verb, job_id, reason), fresh=True)
        for pause in pauses(ON_ITS_WAY_S):
            answer = await self.run_async(lambda c: sql.answer_async(c, number))
            if answer is not None:
                _raise_refusal(answer)
                return
            await asyncio.sleep(pause)
        raise WaitTimeout(_LOST_COMMAND.format(job_id, verb, ON_ITS_WAY_S))

    def close(self) -> None:
        """Close connections and producer; what is on its way by Kafka gets a moment. The next use opens anew."""
        with self._lock:
            connections, self._connections = self._connections, None
            intake, self._intake = self._intake, None
            self._settings = None
        if connections is not None:
            connections.close()
        if intake is not None:
            intake.close()

    async def close_async(self) -> None:
        """close() for the event loop."""
        await asyncio.to_thread(self.close)


_clients: Final[weakref.WeakSet[Client]] = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_clients):
        client.forget()


os.register_at_fork(after_in_child=_after_fork)


def _refuse_both(via: Way | None) -> None:
    if via == "kafka":
        raise InvalidJob("via 'kafka' and connection= exclude each other: a connection is a transaction of the database", field="via")


def _raise_refusal(answer: sql.Answer) -> None:
    _, code, text = answer
    if code is not None:
        raise by_code(code, text or code)
