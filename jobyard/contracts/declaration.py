"""What a program declares of a kind, for `app sync` to write to the Master DB."""

from dataclasses import dataclass

from jobyard.contracts.retry import Retrying


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """The defaults of one kind. None: the general default.

    `priority`: 0 (critical) to 4. `size_arg`: the dotted path of the argument that gives a job's size, else `size` counts. `retry`: without attempts.
    """

    kind: str
    version: int = 1
    lane: str | None = None
    priority: int = 2
    size_arg: str | None = None
    size: float = 1.0
    timeout_s: float | None = None
    max_attempts: int = 5
    retry: Retrying | None = None
    tags: dict[str, str] | None = None
