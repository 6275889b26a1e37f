-- name: start_running(job_ids, fences, started, deadlines, agent_ids, kind_ids, lane_id, attempts, used)
insert into jobyard.running (job_id, fence, started_at, deadline, agent_id, kind_id, lane_id, attempt, used)
select job_id, fence, started_at, deadline, agent_id, kind_id, $lane_id::smallint, attempt, used
from unnest($job_ids::uuid[], $fences::bigint[], $started::timestamptz[], $deadlines::timestamptz[], $agent_ids::int[], $kind_ids::int[], $attempts::smallint[], $used::smallint[])
  as new(job_id, fence, started_at, deadline, agent_id, kind_id, attempt, used)
on conflict (job_id) do update set fence = excluded.fence, started_at = excluded.started_at, deadline = excluded.deadline, agent_id = excluded.agent_id,
  attempt = excluded.attempt, used = excluded.used;

-- name: progress_running(job_ids, fences, moments, done, total, messages, agent_ids, kind_ids, lane_id, attempts, used)
insert into jobyard.running (job_id, fence, started_at, progress_at, done, total, message, agent_id, kind_id, lane_id, attempt, used)
select job_id, fence, at, at, done, total, message, agent_id, kind_id, $lane_id::smallint, attempt, used
from unnest($job_ids::uuid[], $fences::bigint[], $moments::timestamptz[], $done::float8[], $total::float8[], $messages::text[], $agent_ids::int[], $kind_ids::int[],
  $attempts::smallint[], $used::smallint[]) as new(job_id, fence, at, done, total, message, agent_id, kind_id, attempt, used)
on conflict (job_id) do update set progress_at = excluded.progress_at, done = excluded.done, total = excluded.total, message = excluded.message;

-- name: end_running(job_ids)
delete from jobyard.running where job_id = any ($job_ids::uuid[]);

-- name: running_of_lane(lane_id) -> RunningRow
select job_id, fence, extract(epoch from started_at)::float8 as started_at from jobyard.running where lane_id = $lane_id;
