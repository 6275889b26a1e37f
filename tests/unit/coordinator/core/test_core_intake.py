"""New jobs, due rows, and how much of them memory holds (L2, L17, L23)."""

import msgspec
from lane_world import T0, World, a_job_id, of

from jobyard.contracts.job import Job, Kind, NewJob, Problem, RefusedJob
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import State
from jobyard.coordinator.core import events as happened
from jobyard.coordinator.core.batch import BadMessage, Batch, IntakeRead
from jobyard.coordinator.core.books.backlog import FIRST_ID


def test_a_placed_intake_job_never_gets_a_pending_row() -> None:
    world = World()
    world.join("a")
    world.job("j")
    events = world.tick()
    assert of(events, happened.Placed)
    assert not of(events, happened.Waits)
    assert not of(events, happened.Left)


def test_one_that_waits_gets_its_row_and_loses_it_when_placed() -> None:
    world = World()
    world.job("j")
    assert of(world.tick(), happened.Waits)
    world.join("a")
    assert world.tables.pending == {}
    assert world.state("j") == State.PLACED


def test_L2_an_id_that_is_known_is_not_placed_again() -> None:
    world = World()
    world.join("a")
    world.job("j")
    world.job("j")
    (accepted,) = of(world.tick(), happened.Accepted)
    assert accepted == happened.Accepted(1, 1, 0)
    world.job("j")
    (accepted,) = of(world.tick(1), happened.Accepted)
    assert accepted == happened.Accepted(0, 1, 0)
    assert len(world.tables.bundles) == 1


def test_L2_a_locked_id_is_set_aside_and_tried_again() -> None:
    world = World()
    world.join("a")
    world.tables.locked.add(world.id("j"))
    world.job("j")
    world.tick(1)
    assert world.state("j") is None
    assert world.lane.busy
    world.tables.locked.clear()
    world.tick(1.5)
    assert world.state("j") is None
    assert world.lane.next_at(T0 + 1.5) == T0 + 2.0
    world.tick(2.0)
    assert world.state("j") == State.PLACED
    assert not world.lane.busy


def test_an_unknown_kind_is_looked_up_and_then_known() -> None:
    world = World()
    world.tables.kinds["k"] = Kind(priority=4)
    world.batch.intake.append(IntakeRead(1, T0, "m", [NewJob(kind="k", id=world.id("j"))], []))
    world.tick()
    assert world.tables.pending[world.ids["j"]].priority == 4
    world.batch.intake.append(IntakeRead(2, T0, "n", [NewJob(kind="k", id=world.id("k"))], []))
    world.tick(1)
    assert world.tables.pending[world.ids["k"]].priority == 4


def test_jobs_of_one_message_without_ids_are_several_jobs_and_the_same_when_read_again() -> None:
    world = World()
    for _ in range(2):
        world.batch.intake.append(IntakeRead(1, T0, "m", [NewJob(kind="k"), NewJob(kind="k")], []))
        world.tick()
    assert len(world.tables.jobs) == 2


def test_a_wrong_size_is_refused_when_its_kind_is_known() -> None:
    world = World()
    world.tables.kinds["k"] = Kind(size_arg="minutes")
    for number, name in ((1, "unmet"), (2, "met")):
        job = NewJob(kind="k", id=world.id(name), args=msgspec.Raw(b'{"minutes": 0}'))
        world.batch.intake.append(IntakeRead(number, T0, f"m{number}", [job], []))
        world.tick()
        assert world.state(name) == State.REFUSED


def test_refused_jobs_are_final_and_told_once() -> None:
    world = World()
    refused = RefusedJob(id=a_job_id(5), kind="k", problem=Problem("JY002", "size", "no"))
    world.refused(refused)
    world.refused(refused)
    assert len(of(world.tick(), happened.Refused)) == 1
    world.refused(refused)
    assert not of(world.tick(1), happened.Refused)
    assert world.tables.state(a_job_id(5)) == State.REFUSED


def test_what_cannot_be_decoded_goes_to_quarantine() -> None:
    world = World()
    world.batch.bad.append(BadMessage("t", 0, 7, "no JSON", b"{"))
    world.tick()
    assert world.tables.quarantine[0].message.offset == 7


# -- reading ahead


def small(read_ahead: int = 4) -> World:
    return World(Rules(read_ahead=read_ahead))


def test_L23_rows_that_others_committed_are_found() -> None:
    world = World()
    world.join("a")
    world.submit("j")
    world.tick(1)
    assert world.lane.next_at(T0 + 1) == T0  # at once
    assert world.placed(world.tick(1)) == "j>a"


def test_L23_a_row_that_commits_late_behind_the_cursor_is_not_missed() -> None:
    world = World()
    world.join("a", 100, 1)
    for name in ("h", "i", "j"):
        world.submit(name, due=1.0)
    world.tick(1)
    assert world.placed(world.tick(1)) == "h>a"
    world.submit("late", due=0.5)
    world.tick(2)
    world.finish("h")
    assert world.placed(world.tick(3)) == "late>a"


def test_memory_is_bounded_however_much_waits() -> None:
    world = small()
    world.join("a", 100, 1)
    for i in range(40):
        world.submit(f"j{i:02}", due=0)
    order: list[str] = []
    for step in range(1, 120):
        order += world.placed(world.tick(float(step))).split()
        assert len(world.lane.picture()) == 6
        for name in world.held("a"):
            world.finish(name)
        world.beat("a")
    assert order == [f"j{i:02}>a" for i in range(40)]


def test_intake_beyond_memory_is_read_back_in_order() -> None:
    world = small()
    world.join("a", 100, 1)
    for i in range(40):
        world.job(f"j{i:02}", due=0)
    order: list[str] = []
    for step in range(1, 120):
        order += world.placed(world.tick(float(step))).split()
        for name in world.held("a"):
            world.finish(name)
        world.beat("a")
    assert order == [f"j{i:02}>a" for i in range(40)]


def test_a_job_of_this_tick_behind_what_was_read_in_it_is_not_lost() -> None:
    world = small(2)
    world.join("a", 100, 1)
    world.job("first", due=0)
    world.tick()
    for i in range(4):
        world.submit(f"j{i}", due=0.5 + i)
    world.tick(1)
    world.job("between", due=0.7)
    world.tick(5)
    order: list[str] = []
    for step in range(6, 40):
        for name in world.held("a"):
            world.finish(name)
        world.beat("a")
        order += world.placed(world.tick(float(step))).split()
    assert sorted(order) == ["between>a", "j0>a", "j1>a", "j2>a", "j3>a"]


def test_kinds_that_nobody_runs_are_not_read() -> None:
    world = World()
    world.join("a")
    for i in range(5):
        world.submit(f"j{i}", kind="none")
    world.tick(1)
    world.tick(2)
    assert world.lane.next_at(T0 + 2) == T0 + 5.0  # only the agent's silence
    assert not world.lane.busy


def test_what_is_due_later_is_read_when_it_is_due() -> None:
    world = World()
    world.join("a")
    world.submit("j", due=3.0)
    world.tick(1)
    assert world.placed(world.tick(2)) == ""
    assert world.lane.next_at(T0 + 2) == T0 + 3.0
    assert world.placed(world.tick(3)) == "j>a"


def test_a_take_over_knows_what_waits() -> None:
    world = World()
    world.job("j")
    world.tables.submit(Job(id=a_job_id(70), kind="other", run_at=T0 + 9.0))
    world.tick()
    assert world.loaded().picture() == world.lane.picture()
    world.lead()
    world.join("a")
    world.tick(1)
    assert world.state("j") == State.PLACED


def test_the_cursor_starts_before_every_id() -> None:
    assert a_job_id(0) > FIRST_ID


def test_L25_the_database_is_looked_at_when_the_batch_says_so() -> None:
    world = World()
    world.join("a")
    world.submit("j")
    world.batch.look = False
    world.tick(1)
    assert world.lane.next_at(T0 + 1) == T0 + 5.0
    assert world.lane.hear(Batch(look=False), T0 + 1.0).look is False
    assert world.lane.hear(Batch(), T0 + 1.0).look is True
