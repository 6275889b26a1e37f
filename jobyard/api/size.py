"""How big a job is: a number, an argument named by its dotted path, or a function of the arguments."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from jobyard.api import json_values
from jobyard.api.shape import Shape
from jobyard.contracts.errors import InvalidJob
from jobyard.contracts.job import LARGEST_SIZE, shown


class Size:
    """The size option of one handler. `path`: the dotted argument, or None. `fixed`: the number, or None."""

    def __init__(self, kind: str, option: float | str | Callable[..., float] | None, shape: Shape) -> None:
        """Raises TypeError or ValueError, at decoration, for an option that can't work."""
        self._kind = kind
        self._shape = shape
        self.path: str | None = None
        self.fixed: float | None = None
        self._function: Callable[..., float] | None = None
        if option is None:
            return
        if isinstance(option, str):
            self.path = option
            self._check_path(option)
        elif callable(option):
            self._function = option
        elif isinstance(option, bool) or not isinstance(option, int | float):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped callers
            raise TypeError(f"{kind}: size={option!r} must be a number, the name of an argument, or a function of the arguments")
        elif not 0 < option <= LARGEST_SIZE:
            raise ValueError(f"{kind}: size={option!r} must be a number above 0, at most {LARGEST_SIZE:g}")
        else:
            self.fixed = float(option)

    def _check_path(self, path: str) -> None:
        parts = path.split(".")
        if not all(parts):
            raise ValueError(f"{self._kind}: size={path!r} must be an argument's name, or a dotted path that begins with one")
        signature = inspect.signature(self._shape.function)
        names = {p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        any_name = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
        if parts[0] not in names and not any_name:
            raise ValueError(f"{self._kind}: size={path!r} names no argument; there are {', '.join(sorted(names)) or 'none'}")

    def of(self, given: Mapping[str, object], raw: bytes) -> float | None:
        """The size of a job with these bound arguments, sent as `raw`; None: left to the kind. InvalidJob if it is no number."""
        if self._function is not None:
            bound = self._shape.arguments.with_defaults(given)
            return self._number(self._function(*bound.args, **bound.kwargs), "its size function gave")
        if self.path is not None:
            return self._number(self._at(self.path, given, raw), f"argument {self.path} is")
        return self.fixed

    def _at(self, path: str, given: Mapping[str, object], raw: bytes) -> Any:
        first, *rest = path.split(".")
        found: Any = msgspec.json.decode(raw).get(first)
        if first not in given:
            default = self._shape.arguments.default_of(first)
            found = None if default is None else msgspec.json.decode(json_values.to_json(default))
        for part in rest:
            found = found.get(part) if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - any JSON
        return found  # pyright: ignore[reportUnknownVariableType] - any JSON

    def _number(self, value: object, what: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST_SIZE:
            raise InvalidJob(
                f"{self._kind}: {what} {shown(repr(value))}, but a size must be a number above 0, at most {LARGEST_SIZE:g}", field="size"
            )
        return float(value)
