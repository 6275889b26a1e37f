"""New jobs, due rows, and how much of them memory holds (L2, L17, L23)."""

import msgspec
from lane_world import T0, World, a_job_id, of

from jobyard.contracts.ids import FIRST_ID
from jobyard.contracts.job import Job, Kind, NewJob, Problem, RefusedJob
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import State
from jobyard.coordinator.core import events as happened
from jobyard.coordinator.core.batch import BadMessage, Batch, IntakeRead


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


def test_a_brokers_clock_that_is_ahead_lets_no_job_wait() -> None:
    """Received in half an hour, by the broker's clock: due now, whether its kind was met before or not."""
    world = World()
    world.join("a")
    world.job("first", due=1_800.0)
    world.job("second", due=1_800.0)
    world.tick()
    assert [world.state(name) for name in ("first", "second")] == [State.PLACED, State.PLACED]


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
        assert world.lane.in_memory[0] <= 4
        for name in world.held("a"):
            world.finish(name)
        world.beat("a")
    assert order == [f"j{i:02}>a" for i in range(40)]


def test_memory_is_bounded_also_for_what_lies_behind_the_cursor() -> None:
    world = small(10)
    world.join("a", 100, 1)
    for i in range(30):
        world.submit(f"late{i:02}", due=100.0 + i / 10)
    world.tick(200)
    world.tick(200.1)
    for i in range(50):
        world.job(f"early{i:02}", due=50.0 + i / 10)
    world.tick(200.2)
    assert world.lane.in_memory[0] <= 10
    order: list[str] = []
    for step in range(1, 200):
        for name in world.held("a"):
            world.finish(name)
        world.beat("a")
        order += world.placed(world.tick(201.0 + step)).split()
        assert world.lane.in_memory[0] <= 10
    assert order[:50] == [f"early{i:02}>a" for i in range(50)]  # S2, though memory was full of later ones
    assert order[50:] == [f"late{i:02}>a" for i in range(1, 30)]


def test_memory_is_bounded_for_jobs_that_come_back() -> None:
    world = small(5)
    world.join("a", 100, 20)
    for i in range(20):
        world.submit(f"j{i:02}", due=i / 10)
    for i in range(5):
        world.tick(5.0 + i)
    assert len(world.held("a")) == 20
    for i in range(10):
        world.submit(f"k{i:02}", due=20.0 + i / 10)
    world.tick(30)
    world.tick(31)
    world.batch.reports_read_at = T0 + 60
    world.tick(60)
    assert world.lane.in_memory[0] <= 5
    world.join("b", 100, 30)
    order: list[str] = []
    for step in range(20):
        order += world.placed(world.tick(61.0 + step)).split()
        assert world.lane.in_memory[0] <= 5
        world.beat("b")
    assert sorted(order[:20]) == [f"j{i:02}>b" for i in range(20)]
    assert len(world.held("b")) == 30


def test_memory_is_bounded_in_bytes_and_one_job_of_each_kind_always_fits() -> None:
    world = World(Rules(read_ahead_bytes=1_000, tick_bytes=600))
    world.join("a", 100, 1, {"k": 1, "l": 1})
    size = len(b'{"a":""}') + 292
    for i in range(12):
        world.job(f"k{i:02}", due=0, priority=4, args=b'{"a":"' + b"x" * 292 + b'"}')
    world.tick(1)
    assert world.lane.in_memory == (1, size)  # 600 of 1,000 bytes are for the lowest priority: one was placed, one waits in memory
    for i in range(3):
        world.job(f"urgent{i}", due=0, priority=0, args=b'{"a":"' + b"x" * 292 + b'"}')
    world.tick(2)
    assert world.lane.in_memory == (3, 3 * size)
    world.job("large", due=0, kind="l", priority=4, args=b'{"a":"' + b"x" * 5_000 + b'"}')
    world.tick(3)
    assert world.lane.in_memory == (4, 3 * size + 5_008)  # the first of its kind
    order: list[str] = []
    for step in range(4, 60):
        for name in world.held("a"):
            world.finish(name)
        world.beat("a")
        order += world.placed(world.tick(float(step))).split()
    assert order[:3] == ["urgent0>a", "urgent1>a", "urgent2>a"]
    assert sorted(order[3:]) == sorted(["large>a"] + [f"k{i:02}>a" for i in range(1, 12)])


def test_a_tick_reads_a_bounded_number_of_bytes() -> None:
    world = World(Rules(tick_bytes=1_000))
    world.join("a", 100, 1)
    for i in range(10):
        job = Job(id=a_job_id(100 + i), kind="k", run_at=T0, args=msgspec.Raw(b'{"a":"' + b"x" * 392 + b'"}'))
        assert world.tables.submit(job)
    world.tick(1)
    read: list[int] = []
    for step in range(6):
        before = world.lane.in_memory[0]
        placed = len(world.placed(world.tick(2.0 + step)).split())
        read.append(world.lane.in_memory[0] - before + placed)
    assert read == [2, 2, 2, 2, 2, 0]


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
