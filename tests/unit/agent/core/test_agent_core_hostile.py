"""The agent's core under whatever can be decoded as a leader's message: no exception, no job twice at once, and every report can be read by a leader."""

from agent_world import BUCKETS, World
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inputs import hostile

from jobyard.contracts import codec
from jobyard.contracts.codec import Undecodable, decode_bundle, decode_control, decode_reports
from jobyard.contracts.control import HIGHEST_EPOCH, Confirm
from jobyard.contracts.reports import Goodbye, Hello, Reports
from jobyard.contracts.states import Outcome

INCARNATION = "00000000-0000-4000-8000-000000000001"
IDS = tuple(f"018f0000-0000-7000-8000-{number:012x}" for number in range(6))
ints = st.sampled_from((0, 1, 1, 2, 2, 3, 4, 5, 7, 10**6, 2**31 - 1, 2**60, 2**62 - 1))
epochs = st.sampled_from((0, 1, 1, 1, 1, 1, 2, 3, HIGHEST_EPOCH))
floats = st.sampled_from((0.0, 5e-324, 0.5, 1.0, 2.0, 50.0, 100.0, 101.0, 115.0, 1e9, 1e12))
Json = hostile.Json


@st.composite
def controls(draw: st.DrawFn) -> Json:
    kind = draw(st.sampled_from(("welcome", "confirm", "cancel", "cancel", "drain", "resume", "fenced")))
    said: Json = {"type": kind, "epoch": draw(epochs)}
    match kind:
        case "welcome":
            buckets = [[draw(st.integers(0, 4)), draw(ints), "id", draw(ints)] for _ in range(draw(st.integers(0, 6)))]
            said |= {"stamp": draw(floats), "lost_after_s": draw(floats), "draining": draw(st.booleans()), "buckets": buckets}
        case "confirm":
            said |= {"stamp": draw(floats)}
        case "cancel":
            said |= {"fence": draw(ints), "bucket": draw(ints), "job": draw(st.sampled_from((*IDS, "", "x\x00")))}
        case "fenced":
            said |= {"reason": draw(st.sampled_from(("lost", "unknown", "replaced")))}
        case _:
            pass
    return said


@st.composite
def bundles(draw: st.DrawFn) -> Json:
    ids = draw(st.lists(st.sampled_from(IDS), max_size=4))
    jobs = [
        {
            "id": one,
            "kind": draw(st.sampled_from(("work", "nobody"))),
            "size": draw(floats),
            "timeout_s": draw(floats),
            "priority": draw(ints),
        }
        for one in ids
    ]
    said: Json = {"epoch": draw(epochs), "fence": draw(ints), "bucket": draw(ints), "jobs": jobs}
    said |= {"attempts": [draw(st.integers(1, 32_767)) for _ in ids], "used": [draw(st.integers(0, 32_767)) for _ in ids]}
    said |= {"careful": draw(st.sampled_from(([], [True] * len(ids)))), "cancel": draw(st.lists(st.sampled_from((*IDS, "?")), max_size=3))}
    return said | {"open": draw(st.one_of(st.none(), st.lists(ints, max_size=4)))}


class Besieged:
    """An agent whose incarnation has the form of a real one, its reports as a leader reads them."""

    def __init__(self) -> None:
        self.world = World(slots=2, capacity=10.0)
        self.world.welcome(buckets=BUCKETS)
        self.said = 0

    def control(self, said: Json) -> None:
        self._hear(said, control=True)

    def bundle(self, said: Json) -> None:
        self._hear(said, control=False)

    def _hear(self, said: Json, *, control: bool) -> None:
        world = self.world
        data = hostile.text({"v": 1, "agent": "agent-1", "incarnation": world.incarnation} | said)
        try:
            if control:
                world.agent.hear_control(decode_control(data), world.now, world.at)
            else:
                world.agent.hear_bundle(decode_bundle(data), world.now, world.at)
        except Undecodable:
            return

    def turn(self, later: float) -> None:
        """Time passes; the lease as it was is what starts may go by."""
        world = self.world
        before = len(world.started)
        until = world.agent.life.lease.until
        said = world.turn(later)
        assert len(world.started) == before or world.now < until, "started without a lease (A6)"
        running = [held.job.id for held in world.running]
        assert len(set(running)) == len(running), "a job twice at once (A9)"
        assert 0 <= world.agent.slots.jobs <= 2
        assert world.agent.slots.size >= 0
        assert world.agent.fences.cancels <= 10_000
        assert until <= world.now + 1e9, "a lease from the future"
        for report in said:
            self.said += 1
            codec.encode(Reports(v=1, agent="agent-1", incarnation=INCARNATION, seq=self.said, reports=[report]))
            assert decode_reports(codec.encode(Reports(v=1, agent="agent-1", incarnation=INCARNATION, seq=self.said, reports=[report])))

    def executor(self, what: int) -> None:
        world = self.world
        if not world.running:
            return
        held = world.running[what % len(world.running)]
        match what % 5:
            case 0 | 1:
                world.end(held, (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.SNOOZED)[what % 3])
            case 2:
                world.begin(held, world.now + 1.0)
            case 3:
                world.agent.progressed(held, 1e308, -1.0, "x")
            case _:
                world.decline(held)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("control"), controls()),
        st.tuples(st.just("bundle"), bundles()),
        st.tuples(st.just("bundle"), bundles()),
        st.tuples(st.just("turn"), st.sampled_from((0.0, 0.1, 0.5, 1.0, 3.0, 15.0))),
        st.tuples(st.just("executor"), st.integers(0, 30)),
    ),
    max_size=30,
)


@given(steps=STEPS)
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_A6_A9_hold_whatever_a_leader_says(steps: list[tuple[str, object]]) -> None:
    play(steps)


def play(steps: list[tuple[str, object]]) -> None:
    besieged = Besieged()
    for what, with_what in steps:
        match what, with_what:
            case "control", dict():
                besieged.control(with_what)  # pyright: ignore[reportUnknownArgumentType] - as it was drawn
            case "bundle", dict():
                besieged.bundle(with_what)  # pyright: ignore[reportUnknownArgumentType] - as it was drawn
            case "turn", float():
                besieged.turn(with_what)
            case "executor", int():
                besieged.executor(with_what)
            case _:
                raise AssertionError(what)
    besieged.turn(1.0)
    # It ends in order, whatever it was told: nothing hangs on what was said.
    world = besieged.world
    world.agent.terminate(world.now, 1.0)
    for _ in range(20):
        for held in list(world.running):
            world.end(held, Outcome.INTERRUPTED)
        besieged.turn(1.0)
    assert world.left is not None
    if world.left.code == 0 and world.agent.life.welcomed:
        assert world.reports(Goodbye)
    assert world.reports(Hello)


def test_A6_a_lease_is_never_granted_from_the_future() -> None:
    world = World().welcome()
    until = world.agent.life.lease.until
    world.control(Confirm(v=1, epoch=1, agent="agent-1", incarnation=world.incarnation, stamp=world.now + 0.1))
    assert world.agent.life.lease.until == until
    world.control(Confirm(v=1, epoch=1, agent="agent-1", incarnation=world.incarnation, stamp=world.now))
    assert world.agent.life.lease.until >= until


def test_A8_cancels_of_what_never_comes_are_forgotten_oldest_first() -> None:
    world = World().welcome()
    for fence in range(1, 10_002):
        world.cancel(fence, 1)
    assert world.agent.fences.cancels == 10_000
    world.bundle(1, [1])
    world.bundle(2, [1])
    world.turn()
    assert (1, "job-1", Outcome.CANCELLED) not in world.ends()
    assert (2, "job-1", Outcome.CANCELLED) in world.ends()
