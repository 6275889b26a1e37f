"""`python -m bench.placement [ROUNDS]`: what the leader's core computes for a placed and ended job, by agents, by waiting jobs, and by how they travel.

The core alone, in this process: no database, no Kafka. Each setting is run in turns with the others, so that a busy machine slows all of them alike; CPU
time, medians. A placement is counted with its report: hearing the end, closing the attempt, finding the next agent, making the bundle.
"""

import gc
import json
import statistics
import sys
import time
from dataclasses import dataclass

from jobyard.contracts.control import Bucket
from jobyard.contracts.job import Job
from jobyard.contracts.reports import End, Finished, Heartbeat, Reports
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import Outcome
from jobyard.contracts.topics import lane_topics
from jobyard.coordinator.core.batch import Batch, ReportsRead
from jobyard.coordinator.core.events import Event, Placed
from jobyard.coordinator.core.lane import Lane
from jobyard.coordinator.core.questions import Answers, Modes
from jobyard.coordinator.core.snapshot import AgentRow, Snapshot

T0 = 1_000_000.0
ROUNDS, SLOTS, KINDS, TICK_S, ENDS_A_TICK = 5, 10, 20, 0.005, 500
TOPICS = lane_topics("bench", "default")
TOPIC_IDS = {topic.name: "one" for topic in TOPICS.all()}
AGENTS = (10, 100, 1_000)
WAITING = (1_000, 1_000_000)


@dataclass(frozen=True)
class Setting:
    """`took_s`: how long a job takes: 1 ms travels in bundles, 60 s alone. `submitters`: so many take turns; 0: the lane does not share fairly."""

    agents: int
    waiting: int
    took_s: float
    submitters: int = 0

    def __str__(self) -> str:
        turns = f", {self.submitters} submitters take turns" if self.submitters else ""
        return f"{self.agents} agents, {self.waiting} waiting, {'short' if self.took_s < 1 else 'long'}{turns}"


class Bench:
    """A lane whose agents end what they hold, the oldest first, while as many new jobs come."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._rules = Rules(read_ahead=10_000_000, read_ahead_bytes=1 << 40)
        kinds = {f"k{number}": 1 for number in range(KINDS)}
        rows = [
            AgentRow(
                number + 1, f"agent-{number:04}", f"{number:032x}", "", float(SLOTS), SLOTS, kinds, "active", 15.0,
                [Bucket(priority, number * 5 + priority, "one", 0) for priority in range(5)], False,
            )
            for number in range(setting.agents)
        ]  # fmt: skip
        self._now = T0
        self._lane = Lane.load(
            Snapshot(0, agents=rows, modes=Modes(fair_share=setting.submitters > 0)),
            lane="default",
            rules=self._rules,
            epoch=1,
            now=T0,
            topic_ids=TOPIC_IDS,
            topics=TOPICS,
        )
        self._rows = rows
        self._seq = self._job = 0
        self._open: list[tuple[str, str, int, list[tuple[str, int]]]] = []
        self._names = {row.incarnation: row.name for row in rows}
        self._tick([Heartbeat(stamp=0.0, epoch=1, capacity=row.capacity, slots=row.slots) for row in rows], self._jobs(setting.waiting))

    def run(self, ticks: int) -> tuple[float, float]:
        """Microseconds a job, and jobs a bundle."""
        placed = bundles = 0
        spent = 0.0
        for _ in range(ticks):
            self._now += TICK_S
            ends, left = self._ends()
            jobs = self._jobs(left)
            began = time.process_time()
            events = self._lane.decide(*self._heard(ends, jobs))
            spent += time.process_time() - began
            made = self._note(events)
            placed += made[0]
            bundles += made[1]
        return spent / placed * 1e6, placed / bundles

    def _heard(self, ends: Batch, jobs: list[Job]) -> tuple[Batch, Answers, float]:
        self._lane.hear(ends, self._now)
        return ends, Answers(jobs=jobs), self._now

    def _tick(self, beats: list[Heartbeat], jobs: list[Job]) -> None:
        batch = Batch()
        for row, beat in zip(self._rows, beats, strict=True):
            self._seq += 1
            batch.reports.append(
                ReportsRead(
                    self._seq, self._now, Reports(v=1, agent=row.name, incarnation=row.incarnation, seq=self._seq, reports=[beat]), {}
                )
            )
        self._note(self._lane.decide(*self._heard(batch, jobs)))

    def _note(self, events: list[Event]) -> tuple[int, int]:
        jobs = bundles = 0
        for event in events:
            if isinstance(event, Placed):
                bundle = event.bundle
                bundles += 1
                jobs += len(bundle.jobs)
                self._open.append(
                    (
                        bundle.incarnation,
                        bundle.kind,
                        bundle.fence,
                        [(job.id, attempt) for job, attempt in zip(bundle.jobs, bundle.attempts, strict=True)],
                    )
                )
        return jobs, bundles

    def _ends(self) -> tuple[Batch, int]:
        """The oldest bundles end, one message an agent."""
        batch, count = Batch(), 0
        by_agent: dict[str, list[Finished]] = {}
        position = 0
        took = self._setting.took_s
        while position < len(self._open) and count < ENDS_A_TICK:
            incarnation, _, fence, jobs = self._open[position]
            ends = [End(job, attempt, Outcome.SUCCEEDED, self._now - took, self._now) for job, attempt in jobs]
            by_agent.setdefault(incarnation, []).append(Finished(fence=fence, ends=ends, busy_s=took))
            count += len(jobs)
            position += 1
        del self._open[:position]
        for incarnation, finished in by_agent.items():
            self._seq += 1
            reports = Reports(v=1, agent=self._names[incarnation], incarnation=incarnation, seq=self._seq, reports=list(finished))
            batch.reports.append(ReportsRead(self._seq, self._now, reports, {}))
        return batch, count

    def _jobs(self, count: int) -> list[Job]:
        made: list[Job] = []
        submitters = self._setting.submitters
        for _ in range(count):
            self._job += 1
            number = self._job
            job = Job(id=f"018f0000-0000-7000-8000-{number:012x}", kind=f"k{number // 50 % KINDS}", run_at=self._now, priority=2)
            if submitters:
                job.submitter = f"submitter {number // 50 % submitters}"
            made.append(job)
        return made


def main(rounds: int) -> None:
    """Print one line of JSON a setting. Short and long jobs one after the other: all settings at once would hold six million jobs."""
    for took_s in (0.001, 60.0):
        _compare([Setting(agents, waiting, took_s) for waiting in WAITING for agents in AGENTS], rounds)
        _compare([Setting(100, 100_000, took_s, submitters) for submitters in (0, 10, 1_000)], rounds)


def _compare(settings: list[Setting], rounds: int) -> None:
    benches = {setting: Bench(setting) for setting in settings}
    for bench in benches.values():
        bench.run(40)  # durations and rates are learned
    gc.collect()
    gc.freeze()  # what waits is no garbage: in turns, one setting would pay for walking the millions of another
    taken: dict[Setting, list[tuple[float, float]]] = {setting: [] for setting in settings}
    for _ in range(rounds):
        for setting, bench in benches.items():
            taken[setting].append(bench.run(40))
    for setting, runs in taken.items():
        costs = sorted(cost for cost, _ in runs)
        print(json.dumps({
            "figure": "placement", "value": round(statistics.median(costs), 2), "unit": "us/job", "runs": [round(costs[0], 2), round(costs[-1], 2)],
            "conditions": {"setting": str(setting), "jobs_a_bundle": round(statistics.median(size for _, size in runs), 1)},
        }), flush=True)  # fmt: skip
    gc.unfreeze()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
