"""Where the store in memory was otherwise than the real one, as the two side by side have shown (tests/integration/test_lane_store_model.py)."""

from lane_world import T0, World

from jobyard.contracts.ids import id_time
from jobyard.contracts.job import Job, Kind, NewJob, Problem, RefusedJob
from jobyard.coordinator.core.questions import Questions, Unresolved


def refused(world: World, name: str = "bad") -> RefusedJob:
    return RefusedJob(id=world.id(name), kind="k", problem=Problem("JY002", "size", "size 0", "Mend it."), submitter="me")


def test_a_kind_that_was_met_stays_though_the_tick_is_lost() -> None:
    world = World()
    world.job("one", kind="fresh")
    world.tick(commit=False)
    assert "fresh" in world.store.snapshot().kinds


def test_kinds_are_told_of_agents_and_of_what_clients_have_submitted_and_once() -> None:
    world = World()
    world.submit("one", kind="mine")
    assert world.store.ask(Questions()).kinds.keys() == {"mine"}
    assert world.store.ask(Questions()).kinds == {}
    assert world.store.ask(Questions(kinds=True)).kinds.keys() == {"mine"}


def test_L2_a_wrong_job_under_a_locked_id_is_set_aside() -> None:
    world = World()
    bad = refused(world)
    world.tables.locked = {bad.id}
    world.refused(bad)
    world.tick()
    assert world.tables.held == {bad.id: bad}
    world.tables.locked = set()
    world.tick(2.0)
    assert (world.tables.held, [row.noted.event for row in world.tables.events]) == ({}, ["refused"])


def test_a_refused_job_has_the_row_and_the_detail_of_the_real_one() -> None:
    world = World()
    bad = refused(world)
    world.refused(bad)
    world.tick()
    assert world.tables.jobs[bad.id] == Job(id=bad.id, kind="k", run_at=id_time(bad.id), max_attempts=1, submitter="me")
    assert (world.tables.events[0].noted.detail or {})["error_type"] == "JY002"


def test_a_refused_job_that_comes_again_is_no_duplicate_of_a_job() -> None:
    world = World()
    world.refused(refused(world))
    world.tick()
    answers = world.store.ask(Questions(refused=[refused(world)]))
    assert (answers.refused, answers.duplicates) == (set(), 0)


def test_L21_a_command_about_a_job_that_was_set_aside_waits() -> None:
    world = World()
    job_id = world.job("one")
    world.tables.locked = {job_id}
    world.tick()
    world.tables.command("cancel", job_id)
    assert world.store.ask(Questions()).commands == []


def test_a_command_finds_its_job_as_due_and_as_urgent_as_its_row_of_pending() -> None:
    world = World()
    job_id = world.submit("one", due=50.0)
    world.tables.command("reschedule", job_id, {"run_at": T0 + 90.0, "priority": "critical"})
    world.tick()
    world.tables.command("explain", job_id)
    (command,) = world.store.ask(Questions()).commands
    assert command.job is not None
    assert (command.job.run_at, command.job.priority) == (T0 + 90.0, 0)


def test_L11_who_ended_long_ago_and_may_hold_a_careful_job_is_loaded() -> None:
    world = World()
    world.join("a")
    world.job("one", max_attempts=1)
    world.tick()
    world.join("a")
    world.now = 4_000.0
    assert [row.ended for row in world.store.snapshot().agents] == [True, False]


def test_a_kind_is_added_by_a_submission_that_turns_out_to_be_a_duplicate() -> None:
    world = World()
    job_id = world.submit("one")
    assert not world.tables.submit(Job(id=job_id, kind="other"))
    assert "other" in world.tables.kinds


def test_a_wrong_job_of_a_kind_that_was_just_met_tells_the_id_that_it_was_given() -> None:
    world = World()
    world.tables.kinds["sized"] = Kind(size_arg="size")
    answers = world.store.ask(Questions(unresolved=[Unresolved(NewJob(kind="sized"), T0, "key")]))
    assert {one.id for one in answers.problems} == answers.refused
    assert answers.refused != {""}
