"""Jobyard: background jobs that run through Kafka and are answered for in Postgres."""

from jobyard.api.app import App
from jobyard.api.context import JobContext, current_job
from jobyard.api.handle import JobHandle
from jobyard.api.handler import AsyncHandler, Handler
from jobyard.api.options import HandlerOptions, JobOptions
from jobyard.api.request import JobRequest
from jobyard.api.resource import Resource
from jobyard.client.bulk import BulkResult
from jobyard.client.lookup import AttemptRecord, JobStatus
from jobyard.contracts.endings import Fail, Retry, Snooze
from jobyard.contracts.errors import (
    ConfigurationError,
    InvalidArgs,
    InvalidJob,
    InvalidResult,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobyardError,
    NotFound,
    Refused,
    ServiceUnavailable,
    WaitTimeout,
    WrongPlace,
)
from jobyard.contracts.retry import RetryPolicy

__all__ = [
    "App",
    "AsyncHandler",
    "AttemptRecord",
    "BulkResult",
    "ConfigurationError",
    "Fail",
    "Handler",
    "HandlerOptions",
    "InvalidArgs",
    "InvalidJob",
    "InvalidResult",
    "JobCancelled",
    "JobContext",
    "JobExpired",
    "JobFailed",
    "JobHandle",
    "JobOptions",
    "JobRequest",
    "JobStatus",
    "JobyardError",
    "NotFound",
    "Refused",
    "Resource",
    "Retry",
    "RetryPolicy",
    "ServiceUnavailable",
    "Snooze",
    "WaitTimeout",
    "WrongPlace",
    "current_job",
]
