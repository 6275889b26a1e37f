"""Values to JSON bytes and back, by one annotation: msgspec where it knows the type (cheap), pydantic for the rest. Never pickle."""

import inspect
import json
import warnings
from typing import Any, Final, NoReturn, Protocol, cast

import msgspec

from jobyard.contracts.job import shown


class NotJson(Exception):
    """The value has no JSON form, or the JSON does not fit the annotation; the message says which and why."""


class UnusableAnnotation(Exception):
    """No JSON can become a value of this annotation."""


class ValueCodec(Protocol):
    """One annotation's way to JSON and back. Both raise NotJson."""

    def plain(self, value: object) -> object:
        """The value as something that `to_json` can write."""
        ...

    def decode(self, raw: bytes | msgspec.Raw) -> object:
        """The value of this JSON."""
        ...


def _hook(value: Any) -> object:
    if inspect.isgenerator(value):  # pydantic would run it, and it may never end
        raise NotJson("is a generator; make a list of it")
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, by_alias=True)


def accept_object(kind: type, value: object) -> object:
    """msgspec's hook for types that it doesn't know: `object` is any JSON."""
    if kind is object:
        return value
    raise NotJson(f"{kind.__name__} can't be read from JSON")


_encoder: Final = msgspec.json.Encoder(enc_hook=_hook)


def to_json(value: object) -> bytes:
    """The value as JSON. Raises NotJson: no JSON form, NaN or infinity, lone surrogates, cycles."""
    try:
        raw = _encoder.encode(value)
        if b"null" in raw:  # NaN and infinity are written as null: only then is it worth a second look
            builtins = msgspec.to_builtins(value, enc_hook=_hook, str_keys=True)
            json.dumps(builtins, allow_nan=False)
    except UnicodeEncodeError as error:
        raise NotJson(f"{shown(str(error.object))} holds a lone surrogate, which is no character") from None
    except RecursionError:
        raise NotJson("is nested too deeply, or holds itself") from None
    except ValueError as error:  # pydantic's and msgspec's errors are ValueErrors, too
        if "not JSON compliant" in str(error):
            raise NotJson("holds NaN or infinity, which JSON has no number for; use None or a text") from None
        raise NotJson(str(error)) from None
    except (TypeError, msgspec.MsgspecError, OverflowError) as error:
        raise NotJson(str(error)) from None
    return raw


def known_to_msgspec(annotation: object) -> bool:
    """Whether msgspec can read all of this annotation by itself."""
    try:
        found = msgspec.inspect.type_info(annotation)
        msgspec.json.Decoder(cast("type[Any]", annotation), dec_hook=accept_object)
    except (TypeError, NameError, AttributeError, ValueError):
        return False
    return not _holds_custom(found, set())


def _holds_custom(info: object, seen: set[int]) -> bool:
    """Whether a type that msgspec can't read, or must not (pydantic's dataclasses have checks of their own), stands somewhere in this one."""
    if id(info) in seen:
        return False
    seen.add(id(info))
    if isinstance(info, msgspec.inspect.CustomType):
        return info.cls is not object
    if isinstance(info, msgspec.inspect.DataclassType) and hasattr(info.cls, "__pydantic_validator__"):
        return True
    if isinstance(info, msgspec.Struct):
        return any(_holds_custom(getattr(info, name), seen) for name in info.__struct_fields__)
    if isinstance(info, tuple):
        return any(_holds_custom(item, seen) for item in cast("tuple[object, ...]", info))
    return False


class MsgspecValue:
    """A type that msgspec knows: plain JSON types, datetime, UUID, Enum, dataclass, NamedTuple, TypedDict, Struct, …"""

    def __init__(self, annotation: object) -> None:
        self._decoder = msgspec.json.Decoder(cast("type[Any]", annotation), dec_hook=accept_object)

    def plain(self, value: object) -> object:
        return value

    def decode(self, raw: bytes | msgspec.Raw) -> object:
        try:
            return self._decoder.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise NotJson(str(error)) from None


class PydanticValue:
    """A type that is, or holds, something that pydantic knows and msgspec doesn't: models, Path, URLs, …"""

    def __init__(self, annotation: Any) -> None:
        from pydantic import PydanticUserError, TypeAdapter
        from pydantic_core import PydanticOmit

        try:
            self._adapter = TypeAdapter[Any](annotation)
            # A Callable, or a class of one's own, is told apart here: no JSON can become one.
            self._adapter.json_schema()
        except (PydanticUserError, PydanticOmit, NameError, TypeError, AttributeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UnusableAnnotation(f"{_named(annotation)}: {reason}") from None

    def plain(self, value: object) -> object:
        from pydantic_core import PydanticSerializationError, ValidationError

        try:
            checked: object = self._adapter.validate_python(value)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                return self._adapter.dump_python(checked, mode="json", by_alias=True)
        except ValidationError as error:
            _refuse(error.errors(include_url=False, include_context=False))
        except (PydanticSerializationError, UserWarning, ValueError, TypeError, RecursionError) as error:
            raise NotJson(str(error)) from None

    def decode(self, raw: bytes | msgspec.Raw) -> object:
        from pydantic_core import ValidationError

        try:
            return self._adapter.validate_json(bytes(raw))
        except ValidationError as error:
            _refuse(error.errors(include_url=False, include_context=False))


def _refuse(errors: list[Any]) -> NoReturn:
    first: dict[str, Any] = errors[0]
    where = ".".join(str(part) for part in first["loc"])
    value = shown(repr(first.get("input")))
    raise NotJson(f"{first['msg']}{f' at {where}' if where else ''}, got {value}")


def _named(annotation: object) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else repr(annotation)


def codec_of(annotation: object) -> ValueCodec:
    """The codec of an annotation. Raises UnusableAnnotation if no JSON can become such a value."""
    if known_to_msgspec(annotation):
        return MsgspecValue(annotation)
    return PydanticValue(annotation)
