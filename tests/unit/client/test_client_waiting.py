"""How often, and how long, a waiting client looks."""

import itertools
from datetime import timedelta

from jobyard.client.waiting import pauses


def test_pauses_grow_to_a_second() -> None:
    first = list(itertools.islice(pauses(None), 15))
    assert first[0] == 0.02
    assert first == sorted(first)
    assert first[-1] == 1.0


def test_with_no_time_there_is_one_look() -> None:
    assert list(pauses(0)) == [0.0]
    assert list(pauses(timedelta(0))) == [0.0]
    assert list(pauses(-5)) == [0.0]
