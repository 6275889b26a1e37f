"""Every event has a writer, or is known to need none."""

from typing import get_args

from jobyard.contracts.ids import derived_job_id
from jobyard.contracts.job import Job
from jobyard.contracts.reports import End
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core import events as e
from jobyard.coordinator.core.places import Bundle, Waiting
from jobyard.master_db import rows
from jobyard.master_db.answers import Look
from jobyard.master_db.job_rows import MOST_STRETCHES, stretches
from jobyard.master_db.journal import END_RUNNING, START_RUNNING, WRITERS, Journal
from jobyard.master_db.kind_numbers import KindNumbers

ID = "019b0000-0000-7000-8000-000000000001"


def journal() -> Journal:
    kinds = KindNumbers()
    kinds.ids["k"] = 4
    return Journal(6, kinds)


def bundle() -> Bundle:
    return Bundle(7, 3, "i", 9, "k", 1, 1.5, {}, [Job(id=ID, kind="k")], [1], [0], [0], [5], [False])


def test_each_type_of_event_is_written_or_known_not_to_be() -> None:
    assert WRITERS.keys() == set(get_args(e.Event))


def test_what_is_only_sent_or_counted_writes_nothing() -> None:
    one = journal()
    one.write([e.Accepted(3, 0, 0), e.Resent(4), e.Welcomed("i"), e.AgentsHeard({}), e.Waits([]), e.Ended(bundle(), [], [], [], [], [])])
    assert one.empty


def test_L7_a_job_that_started_and_ended_in_one_tick_gets_no_row_of_running() -> None:
    one = journal()
    placed = bundle()
    one.write([e.Started(placed, 0, 1.0, None), e.Ended(placed, [End(ID, 1, Outcome.FAILED, 1.0, 2.0)], None, [1], [None], [])])
    assert [statement for statement, _ in one.calls()] == []
    assert one.sheets[rows.ATTEMPTS].count == 1


def test_L7_a_started_job_gets_a_row_and_an_ended_one_loses_it() -> None:
    one = journal()
    one.write([e.Started(bundle(), 0, 1.0, 9.0)])
    ((statement, values),) = one.calls()
    assert (statement, values["job_ids"], values["fences"]) == (START_RUNNING, [ID], [7])
    two = journal()
    two.write([e.Ended(bundle(), [End(ID, 1, Outcome.FAILED, 1.0, 2.0)], None, [1], [None], [ID])])
    assert two.calls() == [(END_RUNNING, {"job_ids": [ID]})]


def test_a_retry_by_hand_and_a_final_state_in_one_tick_keep_their_order() -> None:
    one = journal()
    one.write([e.Reopened(ID, 5.0, 10, "me"), e.Noted(ID, "k", "cancelled", 5.0, State.CANCELLED)])
    (again,) = one.sheets[rows.REOPENED].lines()
    (noted,) = one.sheets[rows.JOB_EVENTS].lines()
    assert (rows.values(again)[1] or "") < (rows.values(noted)[1] or "")


def test_a_moved_job_leaves_its_row_and_gets_another() -> None:
    one = journal()
    one.write([e.Moved(Waiting(Job(id=ID, kind="k"), ctid="(1,2)", stored=True)), e.Left([Waiting(Job(id=ID, kind="k"))])])
    assert (one.places, one.placed_ids, one.gone, one.sheets[rows.PENDING].count) == (["(1,2)"], [ID], [ID], 1)


def test_ids_that_lie_far_apart_are_asked_for_apart() -> None:
    old, near, new = "019b0000-0000-7000-8000-000000000001", "019b0000-ffff-7000-8000-000000000001", "019c0000-0000-7000-8000-000000000001"
    assert [(part.low, part.high) for part in stretches([near, new, old])] == [(old, near), (new, new)]


def test_a_snapshot_is_read_from_its_text() -> None:
    assert Look.of("10:14:10,12") == Look(10, 14, ("10", "12"))
    assert Look.of("10:10:") == Look(10, 10, ())


def test_ids_over_all_of_time_are_few_statements() -> None:
    ids = [derived_job_id(n * 1_000_000.0, str(n)) for n in range(5_000)]
    found = list(stretches(ids))
    assert len(found) <= MOST_STRETCHES + 1
    assert sum(len(part.ids.ids) for part in found) == len(ids)
    assert {part.low for part in found} | {part.high for part in found} <= set(ids)
