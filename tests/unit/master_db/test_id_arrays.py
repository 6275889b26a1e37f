"""Ids as Postgres reads them in its binary form."""

import uuid

import pytest

from jobyard.master_db.id_arrays import IdArray, IdArrayDumper


def test_an_array_has_a_header_and_each_id_its_length() -> None:
    ids = [str(uuid.UUID(int=n)) for n in (1, 2**127 + 5)]
    header = bytes.fromhex("00000001 00000000 00000b86 00000002 00000001")
    each = b"".join(bytes.fromhex("00000010") + uuid.UUID(one).bytes for one in ids)
    assert IdArrayDumper(IdArray).dump(IdArray(ids)) == header + each


def test_an_empty_array_has_no_dimension() -> None:
    assert IdArrayDumper(IdArray).dump(IdArray([])) == bytes.fromhex("00000000 00000000 00000b86")


def test_what_is_no_id_is_refused_here_or_by_the_server() -> None:
    with pytest.raises(ValueError, match="hex"):
        IdArrayDumper(IdArray).dump(IdArray(["not-an-id"]))
