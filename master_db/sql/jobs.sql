-- name: jobs_of(ids, low, high) -> JobRow
-- The bounds let the planner leave out the partitions in which none of them can be. Run with force_custom_plan.
select id, kind_id, extract(epoch from run_at)::float8 as run_at, priority::int as priority, size, max_attempts::int as max_attempts, version::int as version, timeout_s, retry::text as retry,
  submitter, tags::text as tags, parent_id, traceparent, args::text as args, lane_id::int as lane_id
from jobyard.jobs where id = any ($ids::uuid[]) and id between $low::uuid and $high::uuid;

-- name: known_jobs(ids, low, high) -> KnownJob
select id from jobyard.jobs where id = any ($ids::uuid[]) and id between $low::uuid and $high::uuid;
