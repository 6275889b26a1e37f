"""Groups of submitters: where a lane shares fairly, the rows that wait are read ahead one group beside the other, so that no flood hides the rest."""

import hashlib
from functools import lru_cache

FLOWS = 255
"""So many groups there are: 1 to 255. 0 is no group: of lanes that don't share fairly."""


@lru_cache(maxsize=10_000)
def flow_of(submitter: str | None) -> int:
    """The group of a submitter, the same as jobyard.flow_of says in SQL. Jobs without a submitter are those of one."""
    return 1 + hashlib.sha256((submitter or "").encode()).digest()[0] % FLOWS
