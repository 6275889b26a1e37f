"""A failing case made small: fewer faults, jobs, agents and coordinators, as long as the same invariant breaks."""

import dataclasses
from collections.abc import Callable
from typing import Final

from jobyard.coordinator.simulation.case import Case

_SIZES: Final = (1, 2, 3, 5, 8, 12, 20, 35, 60)


def shrunk(case: Case, planned: int, breaks: Callable[[Case], bool], tries: int = 400) -> Case:
    """`planned`: how many faults the whole case has. `breaks`: whether a smaller case shows the same."""
    left = [tries]

    def shows(smaller: Case) -> bool:
        left[0] -= 1
        return left[0] >= 0 and breaks(smaller)

    case = _fewer_faults(case, planned, shows)
    for jobs in [size for size in _SIZES if size < case.jobs]:
        fewer = dataclasses.replace(case, jobs=jobs)
        if shows(fewer):
            case = fewer
            break
    for agents in range(1, case.agents):
        fewer = dataclasses.replace(case, agents=agents)
        if shows(fewer):
            case = fewer
            break
    for coordinators in range(1, case.coordinators):
        fewer = dataclasses.replace(case, coordinators=coordinators)
        if shows(fewer):
            case = fewer
            break
    if case.memory is not None and shows(ample := dataclasses.replace(case, memory=None)):
        case = ample
    return _fewer_faults(case, planned, shows)


def _fewer_faults(case: Case, planned: int, shows: Callable[[Case], bool]) -> Case:
    """Delta debugging: leave out halves, then quarters, then single ones."""
    kept = list(range(planned)) if case.faults is None else list(case.faults)
    parts = 2
    while kept:
        size = -(-len(kept) // parts)
        for first in range(0, len(kept), size):
            fewer = kept[:first] + kept[first + size :]
            if shows(dataclasses.replace(case, faults=tuple(fewer))):
                kept, parts = fewer, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), parts * 2)
    smaller = dataclasses.replace(case, faults=tuple(kept))
    return smaller if len(kept) < planned else case
