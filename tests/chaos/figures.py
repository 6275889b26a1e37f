"""The figures of a run."""

from collections import Counter

from promises.guarantees import Evidence


def told(evidence: Evidence, faults: Counter[str], again: int, took_s: float) -> str:
    """`faults`: how often each was made. `again`: how many submissions were repeated."""
    states = Counter(rows[0]["state"] for rows in evidence.status.values() if rows)
    outcomes = Counter(row["outcome"] for rows in evidence.attempts.values() for row in rows)
    late = [report for reports in evidence.late.values() for report in reports]
    doubled = 0
    for executions in evidence.executions.values():
        for i, later in enumerate(executions):
            doubled += any(one.ended is None or one.ended > later.started or one.returned for one in executions[:i])
    return "\n".join(
        [
            f"jobs {len(evidence.submitted):,}: {_counts(states)}; submitted again after a service was away: {again}",
            f"faults {sum(faults.values()):,}: {_counts(faults)}",
            f"attempts {sum(outcomes.values()):,}: {_counts(outcomes)}",
            f"late outcomes {len(late):,}, of which closed their job: {sum(report['closed_job'] for report in late)}",
            f"jobs lost: {sum(not evidence.status.get(job) for job in evidence.submitted)}",
            f"executions beside or after an earlier one of the same job, all of whose attempts were lost with their agents: {doubled:,}",
            f"took {took_s:.0f} s",
        ]
    )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counter.most_common())
