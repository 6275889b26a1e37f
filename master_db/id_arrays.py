"""Many ids as one parameter, in Postgres' binary form: made in one go, and read by the server at once. As text each id would be parsed for 0.5 µs."""

import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from psycopg.adapt import Dumper
from psycopg.pq import Format

_UUID_ARRAY: Final = 2951
_UUID: Final = 2950
_EACH: Final = "00000010"
"""The length of an element, 16 bytes, in hexadecimal."""


@dataclass(frozen=True, slots=True)
class IdArray:
    """A uuid[]. `ids`: as text, in any order."""

    ids: Collection[str]


class IdArrayDumper(Dumper):
    """Header (one dimension, no nulls, its length, from 1 on), then length and bytes of each."""

    format = Format.BINARY
    oid = _UUID_ARRAY

    def dump(self, obj: IdArray) -> bytes:
        """The parameter."""
        if not obj.ids:
            return struct.pack(">iiI", 0, 0, _UUID)
        return struct.pack(">iiIii", 1, 0, _UUID, len(obj.ids), 1) + bytes.fromhex(_EACH + _EACH.join(obj.ids).replace("-", ""))
