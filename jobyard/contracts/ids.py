"""Identifiers: job ids are UUIDv7 as lower-case text; fences, epochs and incarnations are compared, never computed with."""

import hashlib
import re
from typing import Final

import uuid_utils

from jobyard.contracts.moments import Instant

FIRST_ID: Final = "00000000-0000-0000-0000-000000000000"
"""Smaller than any job's id."""
_JOB_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def new_job_id() -> str:
    """A fresh UUIDv7 as lower-case text; ids made by one process grow."""
    return str(uuid_utils.uuid7())


def derived_job_id(at: Instant, key: str) -> str:
    """The UUIDv7 of an instant whose other bits are drawn from `key`: the same message read twice gives the same job."""
    drawn = hashlib.blake2b(key.encode(), digest_size=10).hexdigest()
    digits = f"{int(at * 1000):012x}7{drawn[:3]}{'89ab'[int(drawn[3], 16) & 3]}{drawn[4:19]}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def is_job_id(text: str) -> bool:
    """Whether the text is a UUIDv7 in the one form that Jobyard uses: lower case with hyphens."""
    return _JOB_ID.fullmatch(text) is not None


def id_time(job_id: str) -> Instant:
    """The moment in a UUIDv7, to the millisecond."""
    return int(job_id[:8] + job_id[9:13], 16) / 1000.0


def id_floor(at: Instant) -> str:
    """The smallest UUID-shaped text whose time is `at`: ids from then on are not smaller."""
    digits = f"{max(0, int(at * 1000)):012x}"
    return f"{digits[:8]}-{digits[8:]}-0000-0000-000000000000"
