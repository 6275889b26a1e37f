"""What Jobyard promises, as objects: each looks at the evidence of a run and tells what breaks it, a sentence for each.

A run of any scenario, whatever was killed in it, is checked by `check(evidence)`.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol

import msgspec

from jobyard.contracts.retry import Retrying
from promises.evidence import CANCELLED, EITHER, FAILED, SUCCEEDED, Evidence, Execution, Expected, Lease, Row, gather, read_journal

__all__ = ["CANCELLED", "EITHER", "FAILED", "SUCCEEDED", "Evidence", "Execution", "Expected", "Lease", "Row", "gather", "read_journal"]

USED: Final = frozenset({"failed", "timed_out", "crashed", "lost"})
"""Outcomes that use up an attempt, always; an interruption does so only where there is one attempt, or after many."""
AGAIN: Final = USED | {"interrupted", "snoozed", "released", "cancelled"}
"""Outcomes after which a job may be placed again. Cancelled: stopped, but not by anybody who asked for it."""
MANY_INTERRUPTIONS: Final = 10
GIVEN_UP: Final = frozenset({"lost", "replaced"})
"""How an agent ended whose jobs may go on there."""
CLOCKS_S: Final = 0.05
"""How far two clocks that were read one after the other may be apart."""


class Guarantee(Protocol):
    """One promise."""

    def broken(self, evidence: Evidence) -> Iterable[str]: ...


class NothingLost:
    """Promise 1: every submitted job is there, ended in a way that its code allows, and gave its own result. No other job is there."""

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job, expected in evidence.submitted.items():
            rows = evidence.status.get(job, [])
            if len(rows) != 1:
                yield f"job {job} stands in {len(rows)} states: {[row['state'] for row in rows]}"
                continue
            row = rows[0]
            if row["state"] not in expected.states:
                yield f"{row['kind']} job {job} is {row['state']} ({row['error_type']}), not {' or '.join(sorted(expected.states))}"
            if row["state"] == "succeeded" and row["result"] != expected.result:
                yield f"{row['kind']} job {job} gave {row['result']!r}, not {expected.result!r}"
        for job in evidence.status.keys() | evidence.jobs.keys() | evidence.executions.keys():
            if job not in evidence.submitted:
                yield f"job {job} was never submitted"


class EachEndsOnce:
    """Promise 2: one final row a job, one more for each retry by hand; the last one is what the job is, and nothing comes after it."""

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job in evidence.submitted:
            finals = evidence.finals.get(job, [])
            reopened = evidence.reopened.get(job, [])
            allowed = 1 + len(reopened)
            if len(finals) != allowed:
                yield f"job {job} has {len(finals)} final rows instead of {allowed}: {[(row['final'], row['by']) for row in finals]}"
                continue
            states = [row["state"] for row in evidence.status.get(job, [])]
            if states != [finals[-1]["final"]]:
                yield f"job {job} ended as {finals[-1]['final']}, and is told to be {states}"
            if not reopened and any(row["is_final"] for row in evidence.attempts.get(job, [])[:-1]):
                yield f"job {job} has an attempt after its final one"


class RunsAgainOnlyForAReason:
    """Promise 3: again only after a failure, a snooze, an interruption, or where nothing was started or the agent was lost; never more often than
    `max_attempts` allows, never before its time, and not given up before."""

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job, attempts in evidence.attempts.items():
            yield from self._numbers(evidence, job, attempts)
            if job not in evidence.reopened:
                for earlier, later in pairwise(attempts):
                    if earlier["outcome"] not in AGAIN:
                        yield f"attempt {later['attempt']} of job {job} was made though attempt {earlier['attempt']} {earlier['outcome']}"
                yield from self._too_soon(evidence, job, {row["attempt"]: row for row in attempts})

    def _numbers(self, evidence: Evidence, job: str, attempts: Sequence[Row]) -> Iterable[str]:
        single = evidence.jobs[job]["max_attempts"] == 1
        used = interruptions = 0
        for row in attempts:
            asked = row["outcome"] == "cancelled" and job in evidence.cancels
            stopped = row["outcome"] in ("interrupted", "cancelled") and not asked
            interruptions += stopped
            used += row["outcome"] in USED or (stopped and (single or interruptions > MANY_INTERRUPTIONS))
            if row["used"] != used:
                yield f"attempt {row['attempt']} of job {job} says that {row['used']} attempts are used, not {used}"
        for status in evidence.status.get(job, []):
            bound = status["max_attempts"]
            if used > bound:
                yield f"job {job} has used {used} attempts of {bound}"
            gives_up = job in evidence.submitted and evidence.submitted[job].gives_up
            if status["state"] == "failed" and used < bound and not gives_up:
                yield f"job {job} failed after {used} attempts of {bound}"

    def _too_soon(self, evidence: Evidence, job: str, rows: dict[int, Row]) -> Iterable[str]:
        """By the handlers' own clock, since an agent's wall clock may be wrong."""
        for earlier, later in pairwise(evidence.executions.get(job, [])):
            row = rows.get(earlier.attempt)
            if row is None or earlier.ended is None or row["fence"] != earlier.fence:
                continue
            wait_s = 0.0
            if row["outcome"] == "failed":
                wait_s = shortest_wait_s(evidence.jobs[job].get("retry"), row["used"])
            elif row["outcome"] == "snoozed" and job in evidence.submitted:
                wait_s = evidence.submitted[job].snooze_s
            if wait_s and later.started - earlier.ended < wait_s - CLOCKS_S:
                yield (
                    f"attempt {later.attempt} of job {job} started {later.started - earlier.ended:.3f} s after attempt {earlier.attempt} "
                    f"{row['outcome']}, not {wait_s:.3f} s"
                )


def shortest_wait_s(retry: object, used: int) -> float:
    """The backoff after so many attempts, its jitter at the lowest. `retry`: a policy as it is stored; None: the default."""
    policy = Retrying() if retry is None else msgspec.convert(retry, Retrying)
    grown = {"exponential": 2.0 ** (used - 1), "linear": float(used), "constant": 1.0}[policy.backoff]
    return min(policy.base_s * grown, policy.cap_s) * (1 - policy.jitter)


class DoubledOnlyWhereLost:
    """Promise 4: a start while an earlier one goes on, or after one that did its work, only if the earlier attempt was given up with its agent;
    and under a fence above those of all earlier starts."""

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job, executions in evidence.executions.items():
            rows = {(row["attempt"], row["fence"]): row for row in evidence.attempts.get(job, [])}
            for i, later in enumerate(executions):
                for earlier in executions[:i]:
                    if later.fence < earlier.fence and self._given_up(later, earlier, rows.get((later.attempt, later.fence), {})):
                        continue  # its process was paused between the look at the lease and the call (I6)
                    row = rows.get((earlier.attempt, earlier.fence), {})
                    if not self._over(earlier, later, row) and not self._given_up(earlier, later, row):
                        yield (
                            f"job {job} was started as attempt {later.attempt} beside or after attempt {earlier.attempt}, "
                            f"which is {row.get('outcome')} of an agent that is {row.get('agent_state')}"
                        )
                    if later.fence <= earlier.fence:
                        yield f"job {job} was started under fence {later.fence} after fence {earlier.fence}"

    @staticmethod
    def _over(earlier: Execution, later: Execution, row: Row) -> bool:
        """It had ended, and without success: a handler that returns when its time is over, or when it was asked to stop, has not done its work."""
        did_it = earlier.returned and row.get("outcome") not in ("timed_out", "cancelled", "interrupted")
        return earlier.ended is not None and earlier.ended <= later.started and not did_it

    @staticmethod
    def _given_up(earlier: Execution, later: Execution, row: Row) -> bool:
        return earlier.attempt != later.attempt and row.get("outcome") == "lost" and row.get("agent_state") in GIVEN_UP


class AtMostOnce:
    """Promise 5: with max_attempts = 1 a handler is started once; again only after a snooze or a retry by hand."""

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job, row in evidence.jobs.items():
            if row["max_attempts"] != 1:
                continue
            snoozes = sum(attempt["outcome"] == "snoozed" for attempt in evidence.attempts.get(job, []))
            starts = len(evidence.executions.get(job, []))
            if starts > 1 + snoozes + len(evidence.reopened.get(job, [])):
                yield f"job {job} has max_attempts = 1 and was started {starts} times"


class CancelledStaysStopped:
    """Promise 6: a cancelled job is not placed again, and what its agent says it never started did not run; one that succeeds first has succeeded."""

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job, attempts in evidence.attempts.items():
            executions = {(one.attempt, one.fence): one for one in evidence.executions.get(job, [])}
            asked = [row["at"] for row in evidence.cancels.get(job, [])]
            ended = [row["at"] for row in evidence.finals.get(job, []) if row["final"] == "cancelled" and row["by"] == "event"]
            for row in attempts:
                if job not in evidence.reopened and any(at < row["placed_at"] for at in (*asked, *ended)):
                    yield f"attempt {row['attempt']} of job {job} was placed after the job was cancelled"
                one = executions.get((row["attempt"], row["fence"]))
                if row["outcome"] == "cancelled" and one is not None:
                    if row["started_at"] is None:
                        yield f"attempt {row['attempt']} of job {job} ran, though it is said to have been cancelled before"
                    if one.returned:
                        yield f"attempt {row['attempt']} of job {job} is cancelled, though its handler did its work"


class FirstContentCounts:
    """Promise 7: the same id submitted again is one job, with the content that came first; what can't be a job is in quarantine, once, and nothing else."""

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job, expected in evidence.submitted.items():
            row = evidence.jobs.get(job)
            if expected.args is not None and row is not None and row["args"] != expected.args:
                yield f"job {job} has the arguments {row['args']}, not {dict(expected.args)}"
        left = list(evidence.quarantine)
        for part in evidence.bad:
            found = [row for row in left if part in row["reason"] or part in row["body"]]
            if len(found) != 1:
                yield f"{part} is {len(found)} times in quarantine"
            left = [row for row in left if row not in found]
        for row in left:
            yield f"in quarantine is offset {row['offset']} of {row['topic']}: {row['reason']}"


class LateChangesNothing:
    """Promise 8: a late report belongs to a lost attempt; it closes a job only with a success, and only one that had not ended."""

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job, reports in evidence.late.items():
            lost = {row["fence"] for row in evidence.attempts.get(job, []) if row["outcome"] == "lost"}
            finals = evidence.finals.get(job, [])
            for report in reports:
                if report["fence"] not in lost:
                    yield f"job {job} has a late report under fence {report['fence']}, which was not lost"
                if report["closed_job"] and report["outcome"] != "succeeded":
                    yield f"job {job} was closed by a late report that it {report['outcome']}"
                if not report["closed_job"] and report["outcome"] == "succeeded" and not any(row["at"] <= report["at"] for row in finals):
                    yield f"job {job} had not ended when its late success came, and was not closed by it"
            closing = [report for report in reports if report["closed_job"]]
            if closing and [row["by"] for row in finals if row["final"] == "succeeded"] != ["event"]:
                yield f"job {job} was closed by a late report, and ended so: {finals}"
            if closing and evidence.status[job][0]["result"] != closing[0]["result"]:
                yield f"job {job} has the result {evidence.status[job][0]['result']!r}, not that of its late success"


class EachAttemptIsTold:
    """Promise 8, I3: attempts are numbered 1…n without gap, under growing fences; each that ran is told, none that is said not to have run did, and
    what a lost one did after all is told beside it."""

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job, attempts in evidence.attempts.items():
            numbers = [row["attempt"] for row in attempts]
            if numbers != list(range(1, len(numbers) + 1)):
                yield f"job {job} has attempts {numbers}"
            fences = [row["fence"] for row in attempts]
            if fences != sorted(set(fences)):
                yield f"job {job} has fences {fences}"
        for job, executions in evidence.executions.items():
            rows = {(row["attempt"], row["fence"]): row for row in evidence.attempts.get(job, [])}
            for execution in executions:
                row = rows.get((execution.attempt, execution.fence))
                if row is None:
                    yield f"job {job} ran as attempt {execution.attempt} under fence {execution.fence}, which has no row"
                elif row["outcome"] == "released":
                    yield f"job {job} ran as attempt {execution.attempt}, which is said not to have started"
        for job, attempts in evidence.attempts.items():
            ran = {(execution.attempt, execution.fence) for execution in evidence.executions.get(job, []) if execution.ended is not None}
            for row in attempts:
                if row["outcome"] in ("succeeded", "failed", "snoozed", "interrupted") and (row["attempt"], row["fence"]) not in ran:
                    yield f"attempt {row['attempt']} of job {job} {row['outcome']}, but no handler ended"
        for execution in untold(evidence):
            yield f"attempt {execution.attempt} of job {execution.job} was lost, ended after all, and no late report tells it"


def untold(evidence: Evidence) -> list[Execution]:
    """What ran to its end in a process that lives, though it was given up, and stands in no late report (yet: reports are always under way)."""
    found: list[Execution] = []
    for job, executions in evidence.executions.items():
        lost = {row["fence"] for row in evidence.attempts.get(job, []) if row["outcome"] == "lost"}
        late = {row["fence"] for row in evidence.late.get(job, [])}
        found += [one for one in executions if one.ended is not None and one.pid in evidence.living and one.fence in lost - late]
    return found


class NothingLeftOpen:
    """I10: no job waits, is placed or runs any more, and no bundle stays."""

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for row in evidence.left_open:
            yield f"job {row['job_id']} is still {row['place']}"


class OnlyGrows:
    """I7: epochs and fences only grow, and so do the offsets of a topic while it is the same; no attempt has a fence that was never given."""

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for earlier, later in pairwise(evidence.leases):
            if later.epoch < earlier.epoch:
                yield f"epoch {earlier.epoch} was followed by {later.epoch}"
            if later.fence < earlier.fence:
                yield f"fence {earlier.fence} was followed by {later.fence}"
            for topic, (topic_id, offset) in later.offsets.items():
                before = earlier.offsets.get(topic, ("", 0))
                if before[0] == topic_id and offset < before[1]:
                    yield f"offset {before[1]} of {topic} was followed by {offset}"
        if evidence.leases:
            highest = evidence.leases[-1].fence
            for job, attempts in evidence.attempts.items():
                for row in attempts:
                    if row["fence"] > highest:
                        yield f"attempt {row['attempt']} of job {job} has fence {row['fence']}, above {highest}"


@dataclass(frozen=True)
class LostOnlyOf:
    """Attempts are lost only of these agents: those that were killed, paused for too long or replaced. None, whatever happens to a coordinator."""

    agents: Collection[str] = ()

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job, attempts in evidence.attempts.items():
            for row in attempts:
                if row["outcome"] == "lost" and row["agent"] not in self.agents:
                    yield f"attempt {row['attempt']} of job {job} was lost with agent {row['agent']}, which nobody touched"


@dataclass(frozen=True)
class InterruptedOnlyOf:
    """Attempts are interrupted, or given back, only by these agents: those that were told to end."""

    agents: Collection[str] = ()

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job, attempts in evidence.attempts.items():
            for row in attempts:
                if row["outcome"] == "interrupted" and row["agent"] not in self.agents:
                    yield f"attempt {row['attempt']} of job {job} was interrupted by agent {row['agent']}, which nobody told to end"


ALWAYS: tuple[Guarantee, ...] = (
    NothingLost(),
    EachEndsOnce(),
    RunsAgainOnlyForAReason(),
    DoubledOnlyWhereLost(),
    AtMostOnce(),
    CancelledStaysStopped(),
    FirstContentCounts(),
    LateChangesNothing(),
    EachAttemptIsTold(),
    NothingLeftOpen(),
    OnlyGrows(),
)
_SHOWN = 20


def check(evidence: Evidence, *more: Guarantee) -> None:
    """Fails, and tells all that is broken, unless these guarantees and those that hold always do."""
    said = [f"{type(guarantee).__name__}: {line}" for guarantee in (*ALWAYS, *more) for line in guarantee.broken(evidence)]
    assert not said, "\n".join([f"{len(said)} times a guarantee was broken", *said[:_SHOWN]])
