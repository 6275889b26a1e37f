"""Results in reports travel unopened, whatever JSON they are."""

import msgspec
import pytest

from jobyard.contracts import codec
from jobyard.contracts.reports import NO_RESULT, End, Finished, Reports
from jobyard.contracts.states import Outcome

INCARNATION = "00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize("result", [b"3", b'"text"', b"true", b"[1,2]", b'{"a":{"b":null}}', b"null"])
def test_any_json_is_a_result(result: bytes) -> None:
    end = End("01999999-9999-7999-8999-999999999999", 1, Outcome.SUCCEEDED, 1.0, 2.0, msgspec.Raw(result))
    sent = codec.encode(Reports(v=1, seq=1, agent="a", incarnation=INCARNATION, reports=[Finished(fence=1, ends=[end])]))
    (found,) = codec.decode_reports(sent).reports
    assert isinstance(found, Finished)
    assert bytes(found.ends[0].result) == result


def test_none_is_left_where_nothing_was_said() -> None:
    assert bytes(NO_RESULT) == b"null"
    assert bytes(End("id", 1, Outcome.FAILED, None, 2.0).result) == b"null"
