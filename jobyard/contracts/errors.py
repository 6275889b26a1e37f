"""The errors that users of Jobyard meet.

JobyardError
├── InvalidJob (ValueError)        found before anything was sent, or refused by SQL with JY001 … JY006, JY010
│   ├── InvalidArgs                the arguments do not fit the handler (also on the agent: never retried)
│   └── InvalidResult              the result cannot be kept as JSON (on the agent: never retried)
├── Refused                        a command or job was understood and refused (JY008, JY009)
├── ServiceUnavailable             Postgres or Kafka did not answer; nothing is known to have happened
├── NotFound (LookupError)         no such job (JY007), lane, kind or agent
├── WaitTimeout (TimeoutError)     the job had not ended in time
├── JobFailed                      the awaited job ended otherwise than well
│   ├── JobCancelled
│   └── JobExpired
├── WrongPlace (RuntimeError)      a call that would block an event loop, or make a job wait for a job
└── ConfigurationError (ValueError)  settings, topics or database are not as they must be
"""


class JobyardError(Exception):
    """Everything that Jobyard raises for its users."""


class InvalidJob(JobyardError, ValueError):
    """The job is wrong; nothing was sent. `code` is the SQLSTATE that SQL gives for the same mistake."""

    def __init__(self, message: str, *, field: str = "", code: str = "JY002", hint: str = "") -> None:
        super().__init__(message if not hint else f"{message}. {hint}")
        self.field = field
        self.code = code
        self.hint = hint


class InvalidArgs(InvalidJob):
    """The arguments do not fit the handler's signature or annotations."""


class InvalidResult(InvalidJob):
    """What the handler returned cannot be kept as JSON."""


class Refused(JobyardError):
    """What was asked was understood, and refused for `reason`."""

    def __init__(self, reason: str, *, code: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code


class ServiceUnavailable(JobyardError):
    """Postgres or Kafka could not be reached or did not answer in time."""


class NotFound(JobyardError, LookupError):
    """What was named does not exist."""


class WaitTimeout(JobyardError, TimeoutError):
    """The job had not ended when the time was up; it goes on."""


class WrongPlace(JobyardError, RuntimeError):
    """This call would block the running event loop, or make a job wait for another; the message names what to call instead."""


class ConfigurationError(JobyardError, ValueError):
    """A setting, a topic or the database is not as it must be; the message names the mend."""


class JobFailed(JobyardError):
    """The awaited job ended otherwise than well."""

    def __init__(self, job_id: str, error_type: str, error_message: str) -> None:
        super().__init__(f"job {job_id} {self._ended(error_type, error_message)}")
        self.job_id = job_id
        self.error_type = error_type
        self.error_message = error_message

    def _ended(self, error_type: str, error_message: str) -> str:
        what = ": ".join(part for part in (error_type, error_message) if part)
        return f"failed: {what}" if what else "failed"


class JobCancelled(JobFailed):
    """The awaited job was cancelled. `error_message`: the reason that was given, if any."""

    def _ended(self, error_type: str, error_message: str) -> str:
        return f"was cancelled: {error_message}" if error_message else "was cancelled"


class JobExpired(JobFailed):
    """The awaited job expired before it was started."""

    def _ended(self, error_type: str, error_message: str) -> str:
        return "expired before it was started"


# Users know them by this name, and the audit keeps it as the type of an error.
for _known in (
    JobyardError, InvalidJob, InvalidArgs, InvalidResult, Refused, ServiceUnavailable, NotFound, WaitTimeout, WrongPlace, ConfigurationError,
    JobFailed, JobCancelled, JobExpired,
):  # fmt: skip
    _known.__module__ = "jobyard"
