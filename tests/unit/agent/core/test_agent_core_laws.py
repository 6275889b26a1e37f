"""What holds whatever happens: random histories of a correct leader, a broker, executors and time against the agent's core."""

from agent_world import NAME, World, a_job
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jobyard.agent.core.held import Held
from jobyard.contracts.control import Cancel
from jobyard.contracts.job import Job
from jobyard.contracts.reports import Finished, Released, Started
from jobyard.contracts.states import Outcome

SLOTS, CAPACITY = 3, 8.0


class History(RuleBasedStateMachine):
    """`placed`: the leader's open bundles by fence, (bucket, careful, jobs not closed). `due`: fences to be sent (again), in order."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(SLOTS, CAPACITY, acknowledging=False)
        self.world.welcome()
        self.fence = 0
        self.job = 0
        self.placed: dict[int, tuple[int, bool, dict[str, Job]]] = {}
        self.mine: dict[int, str] = {}
        self.since: dict[int, int] = {}
        self.listed: dict[int, int] = {}
        self.started: set[tuple[str, int]] = set()
        self.released: set[tuple[str, int]] = set()
        self.ended: set[tuple[str, int]] = set()
        self.acked: set[tuple[str, int]] = set()
        self.told_cancelled: set[tuple[str, int]] = set()
        self.read_reports = 0
        self.busy: dict[str, int] = {}

    # ---- helpers ----

    def lookup(self, fence: int, with_open: bool) -> None:
        """Send a bundle as it is now (L5)."""
        bucket, careful, jobs = self.placed[fence]
        mine = [f for f, (b, _, _) in self.placed.items() if b == bucket and self.mine[f] == self.world.incarnation]
        self.world.bundle(fence, list(jobs.values()), careful=careful, bucket=bucket, still_open=mine if with_open else None)
        if with_open:
            self.listed[bucket], self.since[bucket] = len(mine), 0
        else:
            self.since[bucket] = self.since.get(bucket, 0) + 1

    def turn(self, later: float = 0.0) -> None:
        world = self.world
        before = len(world.started)
        lease_until = world.agent.life.lease.until
        world.turn(later)
        for held in world.started[before:]:
            key = (held.job.id, held.fence)
            assert world.now < lease_until, "started without a lease (A6)"
            assert key not in self.started, "started twice under one fence (A4, I4)"
            assert key not in self.released, "a released job started"
            assert key not in self.ended, "an ended job started"
            assert key not in self.told_cancelled, "a job started though its agent had read the cancel (A8)"
            assert held.life is world.agent.life, "started under an old incarnation (A12)"
            assert not held.careful or key in self.acked, "a careful job started before its started was acknowledged (A7)"
            assert held.job.id not in self.busy, "a job runs twice at once in one process (A9)"
            assert world.left is None
            self.started.add(key)
            self.busy[held.job.id] = held.fence
        self.hear()
        assert world.agent.next_due(world.now) > world.now or world.waiting, "a turn that is due at once for ever"

    def hear(self) -> None:
        """The leader reads what was said."""
        for say in self.world.said[self.read_reports :]:
            report = say.report
            if isinstance(report, Finished):
                for end in report.ends:
                    self.ended.add((end.job, report.fence))
                    self.close(report.fence, end.job)
            elif isinstance(report, Released):
                for job, _ in report.jobs:
                    assert (job, report.fence) not in self.started, "a job that was started is released"
                    self.released.add((job, report.fence))
                    self.close(report.fence, job)
        self.read_reports = len(self.world.said)

    def close(self, fence: int, job: str) -> None:
        if fence in self.placed:
            self.placed[fence][2].pop(job, None)
            if not self.placed[fence][2]:
                del self.placed[fence]

    # ---- what can happen ----

    @rule(
        count=st.integers(1, 4),
        bucket=st.integers(0, 4),
        careful=st.booleans(),
        size=st.sampled_from([0.1, 1.0, 3.0, 20.0]),
        again=st.booleans(),
        with_open=st.booleans(),
    )
    def place(self, count: int, bucket: int, careful: bool, size: float, again: bool, with_open: bool) -> None:
        """A new bundle; `again`: one of its jobs may still run here under an older fence."""
        self.fence += 1
        jobs: dict[str, Job] = {}
        elsewhere = {job for _, _, jobs in self.placed.values() for job in jobs}
        if again:
            for job in self.busy:
                if job not in elsewhere:
                    jobs[job] = Job(id=job, kind="work", size=size)
                    break
        for _ in range(count):
            self.job += 1
            jobs[f"job-{self.job}"] = a_job(self.job, size)
        self.placed[self.fence] = (bucket, careful, jobs)
        self.mine[self.fence] = self.world.incarnation
        self.lookup(self.fence, with_open)
        self.turn()

    @precondition(lambda self: any(self.mine[f] == self.world.incarnation for f in self.placed))
    @rule(data=st.data(), with_open=st.booleans())
    def send_again(self, data: st.DataObject, with_open: bool) -> None:
        fence = data.draw(st.sampled_from([f for f in self.placed if self.mine[f] == self.world.incarnation]))
        self.lookup(fence, with_open)
        self.turn()

    @precondition(lambda self: bool(self.placed))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        fence = data.draw(st.sampled_from(list(self.placed)))
        bucket, _, jobs = self.placed[fence]
        job = data.draw(st.sampled_from(list(jobs)))
        world = self.world
        world.control(
            Cancel(v=1, epoch=1, agent=NAME, incarnation=self.mine[fence], fence=fence, bucket=bucket, job=job),
        )
        # Before welcome nothing is read, so no cancel either (A10).
        if world.agent.life.welcomed and self.mine[fence] == world.incarnation and (job, fence) not in self.started:
            self.told_cancelled.add((job, fence))
        self.turn()

    @precondition(lambda self: bool(self.placed))
    @rule(data=st.data())
    def supersede(self, data: st.DataObject) -> None:
        """The leader ends an attempt by itself."""
        fence = data.draw(st.sampled_from(list(self.placed)))
        self.close(fence, data.draw(st.sampled_from(list(self.placed[fence][2]))))

    @rule(seconds=st.sampled_from([0.0, 0.3, 1.0, 2.5, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.turn(seconds)

    @rule(most=st.integers(1, 5))
    def broker_acknowledges(self, most: int) -> None:
        for say in self.world.waiting[:most]:
            if isinstance(say.report, Started):
                self.acked.add((say.report.job, say.report.fence))
        self.world.acknowledge(most)
        self.turn()

    @rule()
    def leader_confirms(self) -> None:
        self.world.confirm(self.world.now)
        self.turn()

    @precondition(lambda self: bool(self.world.running))
    @rule(data=st.data(), outcome=st.sampled_from([Outcome.SUCCEEDED, Outcome.FAILED]), begun=st.booleans())
    def job_ends(self, data: st.DataObject, outcome: Outcome, begun: bool) -> None:
        held = data.draw(st.sampled_from(self.world.running))
        if begun:
            self.world.begin(held, self.world.now + 5)
        del self.busy[held.job.id]
        self.world.end(held, outcome)
        self.turn()

    @precondition(lambda self: bool(self.world.running))
    @rule(data=st.data())
    def handler_goes_on(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(self.world.running))
        self.world.begin(held, self.world.now + 5)
        self.world.agent.progressed(held, 1.0, None, "")
        self.turn()

    @precondition(lambda self: bool(self.unbegun()))
    @rule(data=st.data())
    def executor_declines(self, data: st.DataObject) -> None:
        """Only what it has not begun, and only without a lease or when told to stop."""
        held = data.draw(st.sampled_from(self.unbegun()))
        self.started.discard((held.job.id, held.fence))
        del self.busy[held.job.id]
        self.world.decline(held)
        self.turn()

    def unbegun(self) -> list[Held]:
        stopped = [stop.held for stop in self.world.stops]
        return [held for held in self.world.running if held.began == 0.0 and (held in stopped or not held.life.lease.holds(self.world.now))]

    @rule(welcome=st.booleans())
    def leader_fences(self, welcome: bool) -> None:
        old = self.world.incarnation
        for fence in [f for f in self.placed if self.mine[f] == old]:
            del self.placed[fence]  # lost: all of it has rows now
        self.listed.clear()
        self.since.clear()
        self.world.fence_off("lost")
        self.turn()
        if welcome:
            self.world.welcome()
            self.hear()

    @precondition(lambda self: not self.world.agent.life.welcomed)
    @rule()
    def leader_welcomes(self) -> None:
        self.world.welcome()
        self.hear()

    # ---- what always holds ----

    @invariant()
    def slots_and_capacity_are_kept(self) -> None:
        slots = self.world.agent.slots
        assert 0 <= slots.jobs <= SLOTS
        assert slots.size <= CAPACITY + 1e-6 or slots.jobs == 1
        assert slots.others <= slots.jobs
        assert (slots.size == 0.0) or slots.jobs

    @invariant()
    def memory_is_bounded_by_open(self) -> None:
        """I8: what the last `open` of each bucket listed, and what was read since."""
        bound = sum(self.listed.values()) + sum(self.since.values())
        assert len(self.world.agent.fences) <= bound

    def teardown(self) -> None:
        """Once all goes well, everything that is placed here is answered."""
        world = self.world
        if not world.agent.life.welcomed:
            world.welcome()
            self.hear()
        for _ in range(60):
            for fence in [f for f in self.placed if self.mine[f] == world.incarnation]:
                self.lookup(fence, True)
            for say in world.waiting:
                if isinstance(say.report, Started):
                    self.acked.add((say.report.job, say.report.fence))
            world.acknowledge()
            world.confirm(world.now)
            self.turn(0.5)
            for held in list(world.running):
                del self.busy[held.job.id]
                world.end(held)
            self.turn()
        left = [f for f in self.placed if self.mine[f] == world.incarnation]
        assert left == [], f"never answered: {left}"
        assert world.agent.slots.jobs == 0
        assert world.agent.running == 0


History.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestHistory = History.TestCase
