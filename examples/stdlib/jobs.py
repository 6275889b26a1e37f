"""The demo's jobs: read one source file of the standard library and tell what is in it."""

import ast
import hashlib
from dataclasses import dataclass
from pathlib import Path

from jobyard import App, RetryPolicy, current_job

app = App()


@dataclass(frozen=True)
class Counts:
    """What stands in one file."""

    lines: int
    functions: int
    classes: int
    names: int


# A file that is no Python stays so however often it is parsed: the first attempt is the last.
@app.job(size="kilobytes", retry=RetryPolicy(max_attempts=3, base=0.5, no_retry_for=(SyntaxError, ValueError)))
def parse(path: str, kilobytes: float) -> Counts:
    """Parse one file and count definitions, names and lines."""
    source = Path(path).read_bytes()
    tree = ast.parse(source, filename=path)
    functions = classes = names = 0
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                functions += 1
            case ast.ClassDef():
                classes += 1
            case ast.Name():
                names += 1
            case _:
                pass
    return Counts(source.count(b"\n"), functions, classes, names)


@app.job
def fingerprint(path: str) -> str:
    """The SHA-256 of one file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@app.job(retry=RetryPolicy(max_attempts=5, base=0.3, cap=2))
def unsteady(path: str, failures: int) -> int:
    """The size of one file, from a source that fails at first: a job that is retried until it succeeds."""
    if current_job().attempts_used < failures:
        raise ConnectionResetError(f"reading {Path(path).name} was cut off ({current_job().attempts_used + 1} of {failures} times)")
    return Path(path).stat().st_size
