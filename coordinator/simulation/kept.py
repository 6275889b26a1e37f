"""Cases that broke an invariant once, in a file, one a line: a test runs them all."""

from pathlib import Path

import msgspec

from jobyard.coordinator.simulation.case import Case


class Kept(msgspec.Struct, forbid_unknown_fields=True):
    """`case`: as text. `rule`: what it broke. `found`: what the mistake was, for people."""

    case: str
    rule: str
    found: str = ""


def read(path: Path) -> list[Kept]:
    """All of a file; none if there is no file."""
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=Kept) for line in path.read_text().splitlines() if line.strip()]


def keep(path: Path, case: Case, rule: str, found: str) -> bool:
    """Add one. False: it is there already."""
    if any(one.case == case.text for one in read(path)):
        return False
    with path.open("a") as file:
        file.write(msgspec.json.encode(Kept(case.text, rule, found[:300])).decode() + "\n")
    return True
