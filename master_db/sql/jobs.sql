-- name: jobs_of(ids, low, high) -> JobRow
-- The bounds let the planner leave out the partitions in which none of them can be. Run with force_custom_plan. The ids come by a subselect: it would weigh
-- each element of a constant array against each partition, for longer than it takes to look the job up.
select id, kind_id, extract(epoch from run_at)::float8 as run_at, priority::int as priority, size, max_attempts::int as max_attempts, version::int as version, timeout_s, retry::text as retry,
  submitter, tags::text as tags, parent_id, traceparent, args::text as args, lane_id::int as lane_id
from jobyard.jobs where id = any ((select $ids::uuid[])::uuid[]) and id between $low::uuid and $high::uuid;

-- name: due_jobs_of(ids, low, high) -> DueJobRow
-- The same of jobs that are due: what their rows of "pending" tell is left out. Large or compressed arguments are, too: "args_bound" tells how many
-- bytes they may have at most (no method compresses further than to a 256th), without reading them.
select id, case when pg_column_size(args) < 8192 and pg_column_compression(args) is null then args::text end as args,
  pg_column_size(args)::bigint * case when pg_column_compression(args) is null then 1 else 256 end as args_bound, size, max_attempts::int as max_attempts, version::int as version, timeout_s, retry::text as retry, submitter, tags::text as tags, parent_id, traceparent
from jobyard.jobs where id = any ((select $ids::uuid[])::uuid[]) and id between $low::uuid and $high::uuid;

-- name: due_args_of(ids, low, high) -> DueArgsRow
select id, args::text as args from jobyard.jobs where id = any ((select $ids::uuid[])::uuid[]) and id between $low::uuid and $high::uuid;

-- name: known_jobs(ids, low, high) -> KnownJob
select id from jobyard.jobs where id = any ((select $ids::uuid[])::uuid[]) and id between $low::uuid and $high::uuid;
