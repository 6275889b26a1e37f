"""The demo's questions to the Master DB. Each is shown as it is asked: anybody can ask them with psql."""

from dataclasses import dataclass

import psycopg


@dataclass(frozen=True)
class Question:
    """One question with its SQL. `%(run)s` is the tag of this run, `%(killed)s` the name of the agent that was killed, `%(job)s` one job's id."""

    title: str
    sql: str


TOTALS = Question(
    "Every job, by kind and state",
    """
select kind, state, count(*) as jobs, sum(attempts) as attempts_used
from jobyard.job_status
where tags @> jsonb_build_object('run', %(run)s::text)
group by kind, state
order by kind, state""",
)
ERRORS = Question(
    "What went wrong, by kind and type of error (attempts that were retried included)",
    """
select h.kind, h.error_type, count(*) as attempts, count(*) filter (where h.is_final) as final, left(min(h.error_message), 60) as example
from jobyard.attempt_history h join jobyard.job_status s using (job_id)
where s.tags @> jsonb_build_object('run', %(run)s::text) and h.error_type is not null
group by h.kind, h.error_type
order by attempts desc""",
)
ATTEMPTS = Question(
    "How many attempts a job took",
    """
select attempts, count(*) as jobs
from (select h.job_id, count(*) as attempts from jobyard.attempt_history h join jobyard.job_status s using (job_id)
      where s.tags @> jsonb_build_object('run', %(run)s::text) group by h.job_id) q
group by attempts
order by attempts""",
)
LOST = Question(
    "What the killed agent left behind: jobs that may have run (lost), and jobs that were certainly not started (released)",
    """
select h.outcome, count(*) as jobs
from jobyard.attempt_history h join jobyard.job_status s using (job_id)
where s.tags @> jsonb_build_object('run', %(run)s::text) and h.agent = %(killed)s and h.outcome in ('lost', 'released')
group by h.outcome
order by h.outcome""",
)
MOVED = Question(
    "Some of them, and where they ran next",
    """
select lost.job_id, lost.kind, lost.attempt as lost_attempt, lost.outcome, following.attempt as next_attempt,
       following.agent as next_agent, following.outcome as next_outcome
from jobyard.attempt_history lost
join jobyard.job_status s using (job_id)
left join lateral (select * from jobyard.attempt_history f where f.job_id = lost.job_id and f.attempt > lost.attempt
                   order by f.attempt limit 1) following on true
where s.tags @> jsonb_build_object('run', %(run)s::text) and lost.agent = %(killed)s and lost.outcome in ('lost', 'released')
order by lost.job_id
limit 12""",
)
SLOWEST = Question(
    "The slowest kinds",
    """
select h.kind, count(*) as attempts, round(extract(epoch from avg(h.finished_at - h.started_at)) * 1000) as mean_ms,
       round((percentile_cont(0.99) within group (order by extract(epoch from h.finished_at - h.started_at)) * 1000)::numeric) as p99_ms,
       round((max(extract(epoch from h.finished_at - h.started_at)) * 1000)::numeric) as max_ms
from jobyard.attempt_history h join jobyard.job_status s using (job_id)
where s.tags @> jsonb_build_object('run', %(run)s::text) and h.started_at is not null
group by h.kind
order by mean_ms desc""",
)
AGENTS = Question(
    "Who did the work",
    """
select h.agent, count(*) as attempts, count(distinct h.bucket) as buckets, min(h.placed_at)::time(0) as first, max(h.finished_at)::time(0) as last
from jobyard.attempt_history h join jobyard.job_status s using (job_id)
where s.tags @> jsonb_build_object('run', %(run)s::text)
group by h.agent
order by h.agent""",
)
RETRIED = Question(
    "One job that was retried until it succeeded",
    """
select s.job_id from jobyard.job_status s
where s.tags @> jsonb_build_object('run', %(run)s::text) and s.kind = 'unsteady' and s.state = 'succeeded' and s.attempts > 1
order by s.attempts desc, s.job_id
limit 1""",
)
TIMELINE = Question(
    "Its life",
    """
select at::time(3) as at, event, attempt, agent, left(detail::text, 70) as detail
from jobyard.job_timeline
where job_id = %(job)s
order by job_timeline.at, attempt""",
)
UNFINISHED = Question(
    "Check: jobs that are not final",
    """
select count(*) as unfinished from jobyard.job_status
where tags @> jsonb_build_object('run', %(run)s::text) and state not in ('succeeded', 'failed', 'cancelled', 'expired', 'refused')""",
)
FINAL = Question(
    "Check: jobs that are final",
    """
select count(*) as jobs, count(distinct job_id) as ids from jobyard.job_status
where tags @> jsonb_build_object('run', %(run)s::text) and state in ('succeeded', 'failed', 'cancelled', 'expired', 'refused')""",
)
GAPS = Question(
    "Check: jobs whose attempts are not 1…n without gap",
    """
select count(*) as jobs_with_gaps
from (select h.job_id from jobyard.attempt_history h join jobyard.job_status s using (job_id)
      where s.tags @> jsonb_build_object('run', %(run)s::text)
      group by h.job_id having min(h.attempt) <> 1 or max(h.attempt) <> count(*) or count(distinct h.attempt) <> count(*)) q""",
)


def ask(connection: psycopg.Connection[tuple[object, ...]], question: Question, **values: object) -> list[tuple[object, ...]]:
    """Print the question, its SQL and the answer as a table; return the rows."""
    print(f"\n── {question.title}")
    print("\n".join(f"   {line}" for line in question.sql.strip().splitlines()))
    cursor = connection.execute(question.sql.encode(), values)
    rows = cursor.fetchall()
    names = [column.name for column in cursor.description or ()]
    texts = [["" if value is None else str(value) for value in row] for row in rows]
    widths = [max([len(name), *(len(text[i]) for text in texts)]) for i, name in enumerate(names)]
    print()
    print("   " + "  ".join(name.ljust(width) for name, width in zip(names, widths, strict=True)))
    print("   " + "  ".join("─" * width for width in widths))
    for text in texts:
        print("   " + "  ".join(value.ljust(width) for value, width in zip(text, widths, strict=True)))
    return rows
