-- name: attempts_of(ids, low, high) -> AttemptRow
select job_id, fence, extract(epoch from placed_at)::float8 as placed_at, agent_id, kind_id, outcome::text as outcome, final::text as final,
  attempt::int as attempt, used::int as used
from jobyard.attempts where job_id = any ((select $ids::uuid[])::uuid[]) and job_id between $low::uuid and $high::uuid;

-- name: ended_of(ids, low, high) -> EndedRow
-- Which of these attempts have ended, whatever their fence.
select job_id, fence from jobyard.attempts where job_id = any ((select $ids::uuid[])::uuid[]) and job_id between $low::uuid and $high::uuid;
