"""A handler's arguments and result as JSON, by its signature. What JSON can't feed is an error when the handler is made."""

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec

from jobyard.api import json_values
from jobyard.api.json_values import NotJson, PydanticValue, UnusableAnnotation, ValueCodec
from jobyard.contracts import storable
from jobyard.contracts.errors import InvalidArgs, InvalidResult
from jobyard.contracts.job import shown
from jobyard.contracts.rules import RULES

_NULL: Final = b"null"
_EMPTY: Final = inspect.Parameter.empty
_VOID: Final = (typing.NoReturn, typing.Never)


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function, evaluated. NameError if one names what does not exist (yet)."""
    target: Any = function
    while isinstance(target, functools.partial):
        target = target.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - any callable
    if not inspect.isroutine(target) and not inspect.isclass(target):
        target = type(target).__call__
    return {
        name: Any if isinstance(hint, typing.TypeVar) else hint for name, hint in typing.get_type_hints(target, include_extras=True).items()
    }


class Arguments:
    """The arguments of one handler: bound as Python binds them, sent as a JSON object, read by their annotations."""

    def __init__(self, kind: str, function: Callable[..., Any], hints: Mapping[str, Any]) -> None:
        """Raises TypeError, naming the argument, for a signature that JSON can't feed."""
        self.kind = kind
        self.signature = inspect.signature(function)
        self._codecs: dict[str, ValueCodec] = {}
        self._rest: str | None = None
        self._rest_codec: ValueCodec | None = None
        self._never_sent: set[str] = set()
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        self._all_given = True
        for name, parameter in self.signature.parameters.items():
            annotation = hints.get(name, Any)
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                raise TypeError(f"{kind}: *{name} can't be a handler's argument: arguments are sent by name. Take a list instead")
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                self._rest, self._rest_codec = name, self._codec(f"**{name}", annotation)
                continue
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                if parameter.default is _EMPTY:
                    raise TypeError(f"{kind}: the positional-only argument {name} can't be fed: arguments are sent by name")
                self._never_sent.add(name)
                continue
            codec = self._codec(name, annotation)
            if isinstance(codec, PydanticValue):
                self._codecs[name] = codec
                annotation = msgspec.Raw
            if parameter.default is _EMPTY:
                fields.append((name, annotation))
            else:
                self._all_given = False
                fields.append((name, annotation if annotation is Any else annotation | msgspec.UnsetType, msgspec.UNSET))
        self._fields = {field[0] for field in fields}
        try:
            self._struct = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=self._rest is None)
            self._decoder = msgspec.json.Decoder(self._struct, dec_hook=json_values.accept_object)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{kind}: its arguments can't be read from JSON: {error}") from None
        self._open = msgspec.json.Decoder(dict[str, msgspec.Raw])

    def _codec(self, name: str, annotation: Any) -> ValueCodec:
        try:
            return json_values.codec_of(annotation)
        except UnusableAnnotation as error:
            raise TypeError(f"{self.kind}: argument {name} can't be read from JSON by its annotation {error}") from None

    @property
    def names(self) -> frozenset[str]:
        """The names that can be sent."""
        return frozenset(self._fields)

    def default_of(self, name: str) -> object:
        """The default of an argument; None if it has none."""
        parameter = self.signature.parameters.get(name)
        return None if parameter is None or parameter.default is _EMPTY else parameter.default

    def with_defaults(self, given: Mapping[str, object]) -> inspect.BoundArguments:
        """Bound arguments, completed by the defaults, to call a function of the same arguments with."""
        bound = self.signature.bind(**given)
        bound.apply_defaults()
        return bound

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        """The arguments by name, without defaults. TypeError as Python's own, naming the handler."""
        try:
            given = self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self.kind}(): {error}") from None
        for name in self._never_sent:
            if name in given:
                raise TypeError(f"{self.kind}(): {name} is positional-only and can't be sent; it keeps its default")
        if self._rest is not None and self._rest in given:
            given = {**given, **given[self._rest]}
            if self._rest not in given[self._rest]:
                del given[self._rest]
        return dict(given)

    def encode(self, given: Mapping[str, object]) -> bytes:
        """Bound arguments as a JSON object. InvalidArgs if a value has no JSON form or does not fit its annotation."""
        if not given:
            return b"{}"
        sent: dict[str, object] = dict(given)
        for name, value in given.items():
            codec = self._codecs.get(name) or (self._rest_codec if name not in self._fields else None)
            if codec is not None:
                try:
                    sent[name] = codec.plain(value)
                except NotJson as error:
                    raise self._invalid(name, str(error)) from None
        try:
            raw = json_values.to_json(sent)
        except NotJson as error:
            raise self._unsendable(sent, error) from None
        self._read(raw)
        return raw

    def decode(self, raw: bytes | msgspec.Raw) -> dict[str, object]:
        """A JSON object as keyword arguments. InvalidArgs if it does not fit."""
        found: dict[str, object] = msgspec.structs.asdict(self._read(raw))
        if not self._all_given:
            found = {name: value for name, value in found.items() if value is not msgspec.UNSET}
        for name, codec in self._codecs.items():
            if name in found:
                found[name] = self._value(name, codec, cast("msgspec.Raw", found[name]))
        if self._rest_codec is not None:
            for name, part in self._open.decode(raw).items():
                if name not in self._fields:
                    found[name] = self._value(name, self._rest_codec, part)
        return found

    def _value(self, name: str, codec: ValueCodec, raw: msgspec.Raw) -> object:
        try:
            return codec.decode(raw)
        except NotJson as error:
            raise self._invalid(name, str(error)) from None

    def _read(self, raw: bytes | msgspec.Raw) -> msgspec.Struct:
        try:
            return self._decoder.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, NotJson) as error:
            raise self._misfit(raw, str(error)) from None

    def _misfit(self, raw: bytes | msgspec.Raw, why: str) -> InvalidArgs:
        """The error of msgspec, with the value that it leaves out."""
        what, _, where = why.partition(" - at `$.")
        path = where.rstrip("`")
        name = path.partition(".")[0].partition("[")[0]
        if not name:
            return self._invalid("", why)
        try:
            value = shown(bytes(self._open.decode(raw)[name]).decode())
        except (msgspec.MsgspecError, KeyError, UnicodeDecodeError):
            value = "unreadable"
        return self._invalid(name, f"{what} at {path}: {value}")

    def _unsendable(self, sent: Mapping[str, object], error: NotJson) -> InvalidArgs:
        for name, value in sent.items():
            try:
                json_values.to_json(value)
            except NotJson as reason:
                return self._invalid(name, str(reason))
        return self._invalid("", str(error))

    def _invalid(self, name: str, why: str) -> InvalidArgs:
        return InvalidArgs(f"{self.kind}: {f'argument {name}: ' if name else ''}{why}", field=name or "args")


def _shown(value: object) -> str:
    """A value in an error message; one whose own code is broken by its type."""
    try:
        return shown(repr(value))
    except Exception:
        return f"a {type(value).__name__}"


class Results:
    """What one handler returns, as JSON."""

    def __init__(self, kind: str, hints: Mapping[str, Any]) -> None:
        """Raises TypeError if the return annotation has no JSON form."""
        self.kind = kind
        annotation = hints.get("return", Any)
        if annotation in _VOID:
            annotation = Any
        try:
            self._codec = json_values.codec_of(annotation)
        except UnusableAnnotation as error:
            raise TypeError(f"{kind}: its result can't be JSON by its annotation {error}") from None

    def encode(self, value: object, most: int = RULES.max_result_bytes) -> bytes:
        """The result as JSON, at most `most` bytes. InvalidResult if it has no JSON form that Postgres can keep."""
        if value is None:
            return _NULL
        try:
            raw = json_values.to_json(self._codec.plain(value))
        except NotJson as error:
            raise self._invalid(f"{_shown(value)} {error}") from None
        problem = storable.problem_of_json(raw, most)
        if problem:
            raise self._invalid(problem)
        return raw

    def decode(self, raw: bytes) -> object:
        """A kept result by the annotation. InvalidResult if it does not fit: the handler returned something else than it says."""
        try:
            return self._codec.decode(raw)
        except NotJson as error:
            raise self._invalid(f"{shown(raw.decode(errors='replace'))} does not fit its annotation: {error}") from None

    def _invalid(self, why: str) -> InvalidResult:
        return InvalidResult(f"{self.kind}: the result {why}", field="result")
