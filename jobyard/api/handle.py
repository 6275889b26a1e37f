"""An id and a way to ask: what has become of a job."""

import asyncio
import time
from datetime import timedelta
from typing import Generic, NoReturn, TypeVar, cast
from uuid import UUID

import msgspec

from jobyard.api.context import running_job
from jobyard.api.shape import Shape
from jobyard.client.client import Client
from jobyard.client.lookup import AttemptRecord, JobStatus
from jobyard.client.place import refuse_on_loop
from jobyard.client.waiting import ON_ITS_WAY_S, UNANSWERED_S, pauses
from jobyard.contracts.errors import InvalidJob, JobCancelled, JobExpired, JobFailed, NotFound, ServiceUnavailable, WaitTimeout, WrongPlace
from jobyard.contracts.ids import is_job_id
from jobyard.contracts.job import shown
from jobyard.contracts.states import State

R_co = TypeVar("R_co", covariant=True)


class JobHandle(Generic[R_co]):
    """A job that was submitted. All methods but `id` and `duplicate` do I/O (they need the database); each has an _async twin.

    `duplicate`: its id was a job already when it was submitted; by Kafka that is not known, and False.
    """

    __slots__ = ("_client", "_job_id", "_shape", "duplicate")

    def __init__(self, client: Client, job_id: UUID | str, shape: Shape | None, *, duplicate: bool = False) -> None:
        """InvalidJob if `job_id` is no UUIDv7. `shape`: how to read the result; None: plain JSON."""
        self._client = client
        self._job_id = str(job_id).lower()
        self._shape = shape
        self.duplicate = duplicate
        if not is_job_id(self._job_id):
            raise InvalidJob(f"id {shown(str(job_id))} must be a UUIDv7", field="id", code="JY004")

    def __repr__(self) -> str:
        return f"JobHandle({self._job_id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobHandle) and self._job_id == cast("JobHandle[object]", other)._job_id

    def __hash__(self) -> int:
        return hash(self._job_id)

    @property
    def id(self) -> UUID:
        """The job's id."""
        return UUID(self._job_id)

    def status(self) -> JobStatus:
        """Where it stands now. NotFound if no such job is known (one sent by Kafka may still be on its way)."""
        refuse_on_loop("status")
        return self._client.status(self._job_id) or _unknown(self._job_id)

    async def status_async(self) -> JobStatus:
        """status(), for the event loop."""
        return await self._client.status_async(self._job_id) or _unknown(self._job_id)

    def wait(self, timeout: timedelta | float | None = None) -> JobStatus:
        """Wait until it has succeeded; None: for ever.

        JobFailed (JobCancelled, JobExpired): it ended otherwise. WaitTimeout: it goes on. NotFound: still unknown after 10 s.
        ServiceUnavailable: the database did not answer at first, or, later, for 30 s.
        """
        refuse_on_loop("wait")
        _refuse_in_handler()
        watch = _Watch(self._job_id)
        for pause in pauses(timeout):
            try:
                ended = watch.saw(self._client.status(self._job_id))
            except ServiceUnavailable as error:
                watch.saw_nothing(error)
            else:
                if ended is not None:
                    return ended
            time.sleep(pause)
        raise self._late(timeout)

    async def wait_async(self, timeout: timedelta | float | None = None) -> JobStatus:
        """wait(), for the event loop."""
        _refuse_in_handler()
        watch = _Watch(self._job_id)
        for pause in pauses(timeout):
            try:
                ended = watch.saw(await self._client.status_async(self._job_id))
            except ServiceUnavailable as error:
                watch.saw_nothing(error)
            else:
                if ended is not None:
                    return ended
            await asyncio.sleep(pause)
        raise self._late(timeout)

    def result(self, timeout: timedelta | float | None = None) -> R_co:
        """wait(), then what it returned, by the handler's return annotation. InvalidResult: what was kept does not fit it."""
        refuse_on_loop("result")
        return self._result(self.wait(timeout))

    async def result_async(self, timeout: timedelta | float | None = None) -> R_co:
        """result(), for the event loop."""
        return self._result(await self.wait_async(timeout))

    def history(self) -> list[AttemptRecord]:
        """All attempts that have ended, in order."""
        refuse_on_loop("history")
        return self._client.history(self._job_id)

    async def history_async(self) -> list[AttemptRecord]:
        """history(), for the event loop."""
        return await self._client.history_async(self._job_id)

    def cancel(self, reason: str | None = None) -> None:
        """Cancel it; returns when the lane's leader has taken that up. A running one is asked to stop, and may still succeed.

        Refused: it has ended. WaitTimeout: recorded, but no leader has answered within 10 s.
        """
        refuse_on_loop("cancel")
        self._client.command("cancel", self._job_id, reason)

    async def cancel_async(self, reason: str | None = None) -> None:
        """cancel(), for the event loop."""
        await self._client.command_async("cancel", self._job_id, reason)

    def retry(self, reason: str | None = None) -> None:
        """Run it again although it has ended, with as many attempts more as it had; returns when the leader has decided. Refused: it can't be."""
        refuse_on_loop("retry")
        self._client.command("retry", self._job_id, reason)

    async def retry_async(self, reason: str | None = None) -> None:
        """retry(), for the event loop."""
        await self._client.command_async("retry", self._job_id, reason)

    def _result(self, status: JobStatus) -> R_co:
        raw = b"null" if status.raw_result is None else status.raw_result.encode()
        return cast("R_co", msgspec.json.decode(raw) if self._shape is None else self._shape.results.decode(raw))

    def _late(self, timeout: timedelta | float | None) -> WaitTimeout:
        return WaitTimeout(f"job {self._job_id} had not ended after {timeout}{'' if isinstance(timeout, timedelta) else ' s'}; it goes on")


class _Watch:
    """What one wait has seen of its job."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id
        self._known_by = time.monotonic() + ON_ITS_WAY_S
        self._answered: float | None = None

    def saw(self, found: JobStatus | None) -> JobStatus | None:
        """The status if the job has succeeded; None: go on waiting. A job that is not known yet may still be on its way."""
        self._answered = time.monotonic()
        if found is None:
            return _unknown(self._job_id) if self._answered > self._known_by else None
        if not found.is_final:
            return None
        if found.state is State.SUCCEEDED:
            return found
        sort = {State.CANCELLED: JobCancelled, State.EXPIRED: JobExpired}.get(found.state, JobFailed)
        raise sort(self._job_id, found.error_type or found.state.value, found.error_message or "")

    def saw_nothing(self, error: ServiceUnavailable) -> None:
        """The database did not answer: raise that if it never did, or has not for too long. Else it is being restarted, perhaps."""
        if self._answered is None or time.monotonic() - self._answered > UNANSWERED_S:
            raise error


def _unknown(job_id: str) -> NoReturn:
    raise NotFound(f"no job {job_id} is known. Has the transaction that submitted it been committed?")


def _refuse_in_handler() -> None:
    job = running_job()
    if job is not None:
        raise WrongPlace(
            f"job {job.id} ({job.kind}) must not wait for another job: it would hold a slot that the other may need. "
            "Let the other job submit what comes next"
        )
