"""Commands: cancel, retry, reschedule, sync, and one about a job that nobody knows (L13, L21)."""

import pytest
from lane_world import T0, World, a_job_id, of

from jobyard.contracts.job import Kind
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core import events as happened


def with_job(max_attempts: int = 5) -> World:
    world = World()
    world.join("a")
    world.job("j", max_attempts=max_attempts)
    world.tick()
    return world


def answer(world: World, number: int) -> tuple[str | None, str] | None:
    return world.tables.commands[number].answer


def code(world: World, number: int) -> str | None:
    given = answer(world, number)
    assert given is not None
    return given[0]


def failed(max_attempts: int = 1) -> World:
    world = with_job(max_attempts)
    world.finish("j", Outcome.FAILED, retryable=False)
    world.tick(1)
    assert world.state("j") == State.FAILED
    return world


def test_retry_by_hand_grants_max_attempts_more() -> None:
    world = failed(max_attempts=2)
    number = world.tables.command("retry", world.ids["j"], {"reason": "mended"})
    world.tick(2)
    assert code(world, number) is None
    assert world.state("j") == State.PLACED
    assert world.bundle("j").bounds == [3]
    for at in (3.0, 4.0):
        world.finish("j", Outcome.FAILED, delay_s=0.0)
        world.tick(at)
        world.tick(at + 0.5)
    assert world.state("j") == State.FAILED
    assert [row.used for row in world.attempts("j")] == [1, 2, 3]
    assert [row.attempt for row in world.attempts("j")] == [1, 2, 3]


def test_retry_of_a_cancelled_job_that_never_ran() -> None:
    world = World()
    world.job("j")
    world.tick()
    world.tables.command("cancel", world.ids["j"])
    world.tick(1)
    world.tables.command("retry", world.ids["j"])
    world.join("a")
    world.tick(2)
    assert world.state("j") == State.PLACED
    assert world.bundle("j").attempts == [1]


@pytest.mark.parametrize("verb", ["cancel", "reschedule"])
def test_a_final_job_refuses(verb: str) -> None:
    world = failed()
    number = world.tables.command(verb, world.ids["j"], {"priority": "high"})
    world.tick(2)
    assert answer(world, number) == ("JY009", f"job {world.ids['j']} has ended as failed")


def test_a_succeeded_job_is_not_retried() -> None:
    world = with_job()
    world.finish("j")
    world.tick(1)
    number = world.tables.command("retry", world.ids["j"])
    world.tick(2)
    assert answer(world, number) == ("JY009", f"job {world.ids['j']} has ended as succeeded")


@pytest.mark.parametrize("verb", ["retry", "reschedule"])
def test_a_placed_job_refuses(verb: str) -> None:
    world = with_job()
    number = world.tables.command(verb, world.ids["j"], {"priority": "high"})
    world.tick(2)
    assert code(world, number) == "JY009"


def test_a_waiting_job_is_not_retried() -> None:
    world = World()
    world.job("j")
    world.tick()
    number = world.tables.command("retry", world.ids["j"])
    world.tick(1)
    assert code(world, number) == "JY009"


def test_reschedule_moves_the_row_and_the_order() -> None:
    world = World()
    world.job("j", priority=2)
    world.tick()
    number = world.tables.command("reschedule", world.ids["j"], {"run_at": T0 + 50.0, "priority": "critical"})
    world.tick(1)
    assert code(world, number) is None
    row = world.tables.pending[world.ids["j"]]
    assert (row.run_at, row.priority) == (T0 + 50.0, 0)
    world.join("a")
    assert world.placed(world.tick(2)) == ""
    world.beat("a")
    assert world.placed(world.tick(50)) == "j>a"
    assert world.bundle("j").priority == 0


def test_reschedule_of_a_job_that_only_the_tables_hold() -> None:
    world = World()
    world.join("a")
    world.submit("j", due=1_000.0)
    world.tick()
    world.tables.command("reschedule", world.ids["j"], {"run_at": T0 + 1.0})
    world.tick(1)
    assert world.placed(world.tick(1)) == "j>a"


def test_reschedule_to_what_it_is_changes_nothing() -> None:
    world = World()
    world.job("j")
    world.tick()
    number = world.tables.command("reschedule", world.ids["j"], {"priority": "medium"})
    events = world.tick(1)
    assert code(world, number) is None
    assert not of(events, happened.Moved)


@pytest.mark.parametrize("args", [{"run_at": "soon"}, {"run_at": 1e12}, {"run_at": True}, {"priority": "urgent"}, {"priority": 3}])
def test_reschedule_refuses_nonsense(args: dict[str, object]) -> None:
    world = World()
    world.job("j")
    world.tick()
    number = world.tables.command("reschedule", world.ids["j"], args)
    world.tick(1)
    assert code(world, number) == "JY002"


def test_there_and_back_again() -> None:
    world = World()
    world.job("j", priority=2)
    world.job("k", priority=2)
    world.tick()
    for step, priority in enumerate(("critical", "medium", "critical", "medium")):
        world.tables.command("reschedule", world.ids["j"], {"priority": priority})
        world.tick(1.0 + step)
    world.join("a")
    world.tick(10)
    assert world.held("a") == ["j", "k"]


def test_an_unknown_verb_is_refused() -> None:
    world = with_job()
    number = world.tables.command("dance", world.ids["j"])
    world.tick(1)
    assert code(world, number) == "JY002"


def test_two_cancels_in_one_tick() -> None:
    world = World()
    world.job("j")
    world.tick()
    first = world.tables.command("cancel", world.ids["j"])
    second = world.tables.command("cancel", world.ids["j"])
    world.tick(1)
    assert code(world, first) is None
    assert answer(world, second) is None
    world.tick(2)
    assert code(world, second) == "JY009"
    assert world.state("j") == State.CANCELLED


def test_a_cancel_is_asked_once() -> None:
    world = with_job()
    world.tables.command("cancel", world.ids["j"])
    world.tables.command("cancel", world.ids["j"])
    events = world.tick(1)
    assert len(of(events, happened.Noted)) == 1
    assert len(of(events, happened.Answered)) == 2


def test_sync_is_answered_when_the_kinds_have_been_read_again() -> None:
    world = with_job()
    world.tables.kinds["k"] = Kind(priority=0)
    number = world.tables.command("sync")
    world.tick(1)
    assert answer(world, number) is None
    assert world.lane.next_at(T0 + 1) == T0 + 1
    world.tick(1.1)
    assert code(world, number) is None
    assert world.loaded().picture() == world.lane.picture()


def test_L21_a_command_about_an_unknown_job_waits_for_intake() -> None:
    world = World()
    world.now = 1.0
    number = world.tables.command("cancel", a_job_id(99))
    world.tick(2)
    assert world.lane.wants_intake_end
    world.batch.intake_read_at = T0 + 0.5  # before the command
    world.tick(3)
    world.tick(3.1)
    assert answer(world, number) is None
    world.batch.intake_read_at = T0 + 3.5
    assert not of(world.tick(4), happened.NotHere)  # jobs of this very tick may be it
    assert of(world.tick(4.1), happened.NotHere)
    assert code(world, number) == "JY007"
    world.tick(5)
    assert not world.lane.wants_intake_end


def test_L21_not_here_is_said_once() -> None:
    world = World()
    world.tables.command("cancel", a_job_id(99))
    world.tick(1)
    world.batch.intake_read_at = T0 + 2.0
    world.tick(2)
    events = world.tick(3)
    assert len(of(events, happened.NotHere)) == 1
    for row in world.tables.commands.values():
        row.answer = None  # another lane has not said so yet
    assert not of(world.tick(4), happened.NotHere)


def test_L21_only_the_leaders_own_clock_counts() -> None:
    """The database's may be ahead: so what says when a command was recorded is not compared with when intake was read."""
    world = World()
    number = world.tables.command("cancel", a_job_id(99))
    world.tables.commands[number].command.asked_at = T0 + 1_000.0
    world.tick(1)
    world.batch.intake_read_at = T0 + 0.9  # asked for before the command was read: the job may have been sent since
    world.tick(2)
    assert not of(world.tick(3), happened.NotHere)
    assert world.lane.wants_intake_end
    world.batch.intake_read_at = T0 + 3.5
    world.tick(4)
    assert of(world.tick(5), happened.NotHere)
    assert code(world, number) == "JY007"


def test_L21_the_job_arrives_before_intake_is_read() -> None:
    world = World()
    world.join("a")
    number = world.tables.command("cancel", world.id("j"))
    world.tick(1)
    world.job("j", due=1)
    world.batch.intake_read_at = T0 + 2.0
    world.tick(2)
    world.tick(3)
    assert code(world, number) is None
    assert world.state("j") in (State.CANCELLED, State.PLACED)


def test_cancelled_jobs_leave_memory_and_order_alone() -> None:
    world = World()
    for number in range(400):
        world.job(f"j{number:03}", due=0)
    world.tick()
    for number in range(400):
        if number % 40:
            world.tables.command("cancel", world.ids[f"j{number:03}"])
    world.tick(1)
    assert len(world.tables.pending) == 10
    agent = world.new_incarnation("a", 100, 20)
    world.hello(agent)
    world.batch.buckets_ready = [(part, 0) for part in range(5)]
    assert world.placed(world.tick(2)) == " ".join(f"j{number:03}>a" for number in range(0, 400, 40))
