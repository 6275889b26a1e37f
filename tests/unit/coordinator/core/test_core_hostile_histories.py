"""Random histories into which somebody who may write to the reports topic says whatever can be decoded, in anybody's name: the invariants hold all the same."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lane_world import T0
from test_core_forged_reports import Json, fences, message, reports, write
from test_core_histories import History, Step

from jobyard.contracts.codec import Undecodable, decode_reports
from jobyard.contracts.reports import Finished
from jobyard.coordinator.core.batch import ReportsRead
from jobyard.master_db import rows

Said = tuple[int, object, list[Json]]


class Besieged(History):
    """`say`: one message in the name of an agent that is, was or never was."""

    def __init__(self) -> None:
        super().__init__(0.001, 5)
        self.offset = 10_000
        self.enemy = self.world.new_incarnation("eve", kinds={"k": 1})
        del self.world.agents["eve"]

    def say(self, said: Said) -> None:
        who, seq, what = said
        known = [*self.world.agents.values(), self.enemy]
        self.offset += 1
        try:
            found = decode_reports(message(known[who % len(known)], seq, what))
        except Undecodable:
            return
        prepared = {i: rows.prepare(report) for i, report in enumerate(found.reports) if isinstance(report, Finished)}
        self.world.batch.reports.append(ReportsRead(self.offset, T0 + self.world.now, found, prepared))

    def tick(self) -> None:
        world = self.world
        world.now += 0.25
        taken = set(world.tables.buckets)  # for agents that joined by what was said alone
        world.batch.buckets_ready = world.batch.buckets_ready or [(part, 0) for part in range(25, 50) if part not in taken]
        events = world.tick()
        write(events)
        self.check(events)


STEPS = st.lists(
    st.tuples(
        st.tuples(st.integers(0, 19), st.integers(0, 60), st.integers(0, 60)),
        st.lists(st.tuples(st.integers(0, 4), fences, st.lists(reports(), min_size=1, max_size=3)), max_size=2),
    ),
    min_size=3,
    max_size=20,
)


@given(steps=STEPS)
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_I1_I3_I7_hold_whatever_is_said_in_whose_name(steps: list[tuple[Step, list[Said]]]) -> None:
    play_besieged(steps)


def play_besieged(steps: list[tuple[Step, list[Said]]]) -> None:
    history = Besieged()
    for step, said in steps:
        history.play(step)
        for one in said:
            history.say(one)
        history.tick()
    history.tick()
    history.end()
    tables = history.world.tables
    assert all(tables.final(job_id) for job_id in tables.jobs)
