"""The store in memory is the model of the real one: whatever happens to a lane, both say the same, and keep the same."""

import dataclasses
import os
from collections.abc import Generator
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from twins.frozen_database import DAY_S, FrozenDatabase
from twins.history import Asked, History, Told
from twins.twins import Differ, Fate

from jobyard.contracts.rules import Rules
from jobyard.contracts.states import REPORTABLE
from jobyard.coordinator.core.places import Waiting
from jobyard.master_db.answers import READ_DUE
from jobyard.testing.memory_store import MemoryLaneStore

SEQUENCES = int(os.environ.get("MODEL_SEQUENCES", "0"))
"""So many, each run others; 0: the few of every day, each run the same."""

RULES = {
    "plenty": Rules(intake_lock_timeout_s=0.02),
    "two in memory": Rules(read_ahead=2, learned_every_s=0.5, trust_ends=1, interruptions_max=1, intake_lock_timeout_s=0.02, bundle_max=2),
    "few bytes": Rules(
        read_ahead=4, read_ahead_bytes=120, tick_bytes=60, intake_lock_timeout_s=0.02, aging_s=4.0, reserve_after_s=2.0, agents_max=3
    ),
}
picks = st.integers(0, 1_000)
priorities = st.none() | st.integers(0, 4)
spans = st.sampled_from((None, None, 0.0, 0.5, 3.0, 40.0, DAY_S))
asked = st.builds(
    Asked,
    kind=st.sampled_from(("k", "k", "k", "m", "z", "new", "sized")),
    priority=priorities,
    size=st.sampled_from((None, 1.0, 3.0, 9.5)),
    max_attempts=st.sampled_from((None, 1, 2, 2, 5)),
    due_in_s=spans,
    timeout_s=st.sampled_from((None, 7.5)),
    args=st.sampled_from((1, 1, 30, 90)),
    rare=st.booleans(),
    age_s=st.sampled_from((0.0, 0.0, 2 * DAY_S)),
)
told = st.builds(
    Told,
    outcome=st.sampled_from(sorted(REPORTABLE)),
    delay_s=st.sampled_from((None, 0.0, 0.5, 3.0)),
    retryable=st.sampled_from((True, True, False)),
    took_s=st.sampled_from((None, 0.0, 0.25, 5.0)),
    ended_ago_s=st.sampled_from((0.0, 0.0, 0.25, 30.0, -30.0)),
    result=st.sampled_from(("null", '{"x":1}', '"\\\\"')),
)
again = st.none() | picks
ticks = st.sampled_from((0, 1, 1, 2))
fates: st.SearchStrategy[Fate] = st.sampled_from(("committed", "committed", "committed", "lost", "unknown", "cut before", "cut after"))


class StoreModel(RuleBasedStateMachine):
    """`ticks`: how many follow at once."""

    database: ClassVar[FrozenDatabase]
    compared: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.history: History

    @initialize(rules=st.sampled_from(sorted(RULES)), first=st.lists(asked, min_size=1, max_size=4))
    def begin(self, rules: str, first: list[Asked]) -> None:
        self.history = History(self.database, RULES[rules])
        self.history.declare_sized()
        self.history.start("a")
        self.history.start("b", 2.0, 1, ("k",))
        self._ticks(2)
        self.history.send(first)
        self._ticks(1)

    def teardown(self) -> None:
        if hasattr(self, "history"):
            type(self).compared += self.history.twins.count
            self.history.close()

    def _ticks(self, count: int) -> None:
        for _ in range(count):
            self.history.twins.pass_time(1 / 64)
            self.history.twins.tick()

    # -- clients and operators

    @rule(jobs=st.lists(asked, min_size=1, max_size=3), again=again, ticks=ticks)
    def submit(self, jobs: list[Asked], again: int | None, ticks: int) -> None:
        self.history.submit(jobs, again)
        self._ticks(ticks)

    @rule(jobs=st.lists(asked, min_size=1, max_size=4), again=again, named=st.booleans(), refused=st.booleans(), ticks=ticks)
    def send(self, jobs: list[Asked], again: int | None, named: bool, refused: bool, ticks: int) -> None:
        self.history.send(jobs, again, named=named or again is not None, refused=refused)
        self._ticks(ticks)

    @rule(one=asked, count=st.integers(9, 14), ticks=ticks)
    def send_many(self, one: Asked, count: int, ticks: int) -> None:
        self.history.send([one] * count)
        self._ticks(ticks)

    @rule(ticks=ticks)
    def send_rubbish(self, ticks: int) -> None:
        self.history.send_rubbish()
        self._ticks(ticks)

    @rule(one=asked, send=st.booleans(), ticks=ticks)
    def transaction_begins(self, one: Asked, send: bool, ticks: int) -> None:
        self.history.begin(one)
        if send:
            self.history.send([one], 1)
        self._ticks(ticks)

    @rule(commit=st.booleans(), wait=st.booleans(), ticks=ticks)
    def transaction_ends(self, commit: bool, wait: bool, ticks: int) -> None:
        self.history.end(commit=commit)
        if wait:
            self.history.twins.pass_time(1.0)
        self._ticks(ticks)

    @rule(
        verb=st.sampled_from(("cancel", "cancel", "retry", "reschedule", "explain")),
        pick=picks,
        due=spans,
        priority=priorities,
        ticks=ticks,
    )
    def command(self, verb: str, pick: int, due: float | None, priority: int | None, ticks: int) -> None:
        self.history.command(verb, pick, due, priority)  # type: ignore[arg-type]  # drawn from these
        self._ticks(ticks)

    @rule(
        what=st.sampled_from(("lane", "kind", "agent", "sync", "fair share")),
        pick=picks,
        on=st.booleans(),
        stop=st.booleans(),
        priority=st.integers(0, 4),
        ticks=ticks,
    )
    def operate(self, what: str, pick: int, on: bool, stop: bool, priority: int, ticks: int) -> None:
        if what == "lane":
            self.history.pause_lane(paused=on)
        elif what == "fair share":
            self.history.share_fairly(fair=on)
        elif what == "kind":
            self.history.pause_kind(pick, paused=on)
        elif what == "agent":
            self.history.drain(pick, drained=on, stop=stop)
        else:
            self.history.sync(pick, priority, 1 + pick % 3)
        self._ticks(ticks)

    # -- agents

    @rule(
        name=st.sampled_from("abc"),
        capacity=st.sampled_from((1.0, 8.0, 20.0)),
        slots=st.sampled_from((1, 3, 12)),
        both=st.booleans(),
        ticks=ticks,
    )
    def agent_starts(self, name: str, capacity: float, slots: int, both: bool, ticks: int) -> None:
        self.history.start(name, capacity, slots, ("k", "m", "late") if both else ("k",))
        self._ticks(ticks)

    @rule(pick=picks, ticks=ticks)
    def says_hello_again(self, pick: int, ticks: int) -> None:
        processes = self.history.processes
        self.history.hello(processes[pick % len(processes)])
        self._ticks(ticks)

    @rule(
        pick=picks, inventory=again, suspended=st.booleans(), draining=st.booleans(), resized=st.sampled_from((0.0, 0.0, 1.0)), ticks=ticks
    )
    def beats(self, pick: int, inventory: int | None, suspended: bool, draining: bool, resized: float, ticks: int) -> None:
        process = self.history.processes[pick % len(self.history.processes)]
        process.capacity += resized
        self.history.beat(process, inventory=inventory, suspended=suspended, draining=draining)
        self._ticks(ticks)

    @rule(pick=picks, ago=st.sampled_from((0.0, 0.5)), ticks=ticks)
    def starts_a_job(self, pick: int, ago: float, ticks: int) -> None:
        self.history.started(pick, ago)
        self._ticks(ticks)

    @rule(pick=picks, done=st.sampled_from((0.5, 3.0)), ticks=ticks)
    def tells_progress(self, pick: int, done: float, ticks: int) -> None:
        self.history.progress(pick, done)
        self._ticks(ticks)

    @rule(pick=picks, told=told, count=st.sampled_from((1, 1, 2, 9)), ticks=ticks)
    def finishes(self, pick: int, told: Told, count: int, ticks: int) -> None:
        self.history.finish(pick, told, count)
        self._ticks(ticks)

    @rule(pick=picks, told=told, lost=st.sampled_from((True, True, False)), released=st.booleans(), ticks=ticks)
    def finishes_late(self, pick: int, told: Told, lost: bool, released: bool, ticks: int) -> None:
        self.history.finish_late(pick, told, lost=lost, released=released)
        self._ticks(ticks)

    @rule(pick=picks, count=st.integers(1, 3), ticks=ticks)
    def gives_back(self, pick: int, count: int, ticks: int) -> None:
        self.history.release(pick, count)
        self._ticks(ticks)

    @rule(pick=picks, who=picks, ticks=ticks)
    def forges(self, pick: int, who: int, ticks: int) -> None:
        self.history.forge(pick, who)
        self._ticks(ticks)

    @rule(pick=picks, which=picks, ticks=ticks)
    def repeats(self, pick: int, which: int, ticks: int) -> None:
        self.history.repeat(pick, which)
        self._ticks(ticks)

    @rule(pick=picks, ticks=ticks)
    def says_goodbye(self, pick: int, ticks: int) -> None:
        self.history.goodbye(pick)
        self._ticks(ticks)

    @rule(span=st.sampled_from((6.0, 16.0, 16.0)), but=again, ticks=ticks)
    def is_silent(self, span: float, but: int | None, ticks: int) -> None:
        self.history.twins.pass_time(span)
        self.history.beat_all(but)
        self.history.twins.tick(to_the_end=True)
        self._ticks(ticks)

    # -- time, ticks, leaders

    @rule(span=st.sampled_from((1 / 64, 0.5, 1.0, 3.0, 41.0, 4_000.0, DAY_S)), ticks=ticks)
    def time_passes(self, span: float, ticks: int) -> None:
        self.history.twins.pass_time(span)
        self._ticks(ticks)

    @rule(fate=fates, look=st.booleans(), messages=st.none() | st.integers(1, 2), to_the_end=st.booleans())
    def tick(self, fate: Fate, look: bool, messages: int | None, to_the_end: bool) -> None:
        self.history.twins.tick(fate, look=look, messages=messages, to_the_end=to_the_end)

    @rule(restored=st.sampled_from((False, False, False, True)), ticks=ticks)
    def another_leads(self, restored: bool, ticks: int) -> None:
        twins = self.history.twins
        twins.lead(at_least=twins.epoch + 3 if restored else 0, fence_all=restored)
        self._ticks(ticks)

    @rule(topic=st.sampled_from(("reports", "intake", "buckets")), ticks=ticks)
    def topic_is_made_anew(self, topic: str, ticks: int) -> None:
        self.history.remake(topic)  # type: ignore[arg-type]  # drawn from these
        self._ticks(ticks)

    @rule(pick=picks, most=st.integers(1, 3), most_bytes=st.none() | st.sampled_from((5, 60, 150)), behind=st.booleans())
    def somebody_asks(self, pick: int, most: int, most_bytes: int | None, behind: bool) -> None:
        self.history.ask(pick, most, most_bytes, behind)


@pytest.fixture
def frozen(database_url: str) -> Generator[FrozenDatabase]:
    database = FrozenDatabase(database_url)
    StoreModel.database = database
    StoreModel.compared = 0
    yield database
    database.close()


def play(sequences: int, steps: int, *, random: bool = False, shrink: bool = True) -> None:
    run_state_machine_as_test(
        StoreModel,
        settings=settings(
            max_examples=sequences,
            stateful_step_count=steps,
            phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
            derandomize=not random,
            database=None,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        ),
    )


@pytest.mark.timeout(0 if SEQUENCES else 120)
def test_both_stores_say_and_keep_the_same_whatever_happens(frozen: FrozenDatabase) -> None:
    if SEQUENCES:
        play(SEQUENCES, 60, random=True)
    else:
        play(16, 40)
    assert StoreModel.compared > 400


# -- mistakes made on purpose


def found() -> str:
    """How the first history that finds something does so."""
    with pytest.raises(Differ) as differ:
        play(40, 40, shrink=False)
    return str(differ.value)


def test_a_memory_that_forgets_why_a_job_waits_is_found(frozen: FrozenDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = MemoryLaneStore._wait  # pyright: ignore[reportPrivateUsage]

    def forgets(self: MemoryLaneStore, waiting: Waiting) -> None:
        wait(self, dataclasses.replace(waiting, why="n"))

    monkeypatch.setattr(MemoryLaneStore, "_wait", forgets)
    assert "why" in found()


def test_a_statement_that_reads_the_row_at_the_cursor_again_is_found(frozen: FrozenDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = READ_DUE.text.sql.replace("(run_at, id) > (", "(run_at, id) >= (")
    assert sql != READ_DUE.text.sql
    monkeypatch.setattr(READ_DUE, "_sql", sql.encode())
    assert "answers['due']" in found()
