-- The public views, read for people. Their columns are the stable interface.

-- name: job_by_id(job) -> JobStatus
select job_id, kind, version, lane, priority, size, args, tags, state::text, attempts, max_attempts, submitter, submitted_via, parent_id, group_id, schedule, unique_key, submitted_at,
  run_at, started_at, finished_at, agent, progress_done, progress_total, progress_message, error_type, error_message, result
from jobyard.job_status where job_id = $job::uuid;

-- name: find_jobs(state, kind, lane, submitter, tags, error_type, error, since, until, before, most) -> JobStatus
select job_id, kind, version, lane, priority, size, args, tags, state::text, attempts, max_attempts, submitter, submitted_via, parent_id, group_id, schedule, unique_key, submitted_at,
  run_at, started_at, finished_at, agent, progress_done, progress_total, progress_message, error_type, error_message, result
from jobyard.find_jobs(state => $state::text::jobyard.job_state, kind => $kind::text, lane => $lane::text, submitter => $submitter::text, tags => $tags::jsonb,
  error_type => $error_type::text, error => $error::text, since => $since::timestamptz, until => $until::timestamptz, before => $before::uuid, lim => $most::int);

-- name: attempt_history(job) -> Attempt
select job_id, kind, lane, attempt, fence, agent, host, bucket, placed_at, started_at, finished_at, outcome::text, is_final, error_type, error_message, error_traceback, result, reason
from jobyard.attempt_history where job_id = $job::uuid order by attempt;

-- name: job_timeline(job) -> Happening
select job_id, at, event, attempt, agent, actor, detail from jobyard.job_timeline where job_id = $job::uuid
order by at, event <> 'submitted', attempt nulls first, case event when 'placed' then 0 when 'started' then 1 else 2 end;

-- name: late_outcomes(job) -> LateOutcome
select job_id, kind, lane, fence, at, agent, outcome::text, closed_job, error_type, error_message, result from jobyard.late_outcomes where job_id = $job::uuid order by at;

-- name: stuck_jobs(most) -> StuckJob
select job_id, kind, lane, state::text, since, reason from jobyard.stuck_jobs order by since limit $most::int;

-- name: lane_summaries() -> LaneSummary
select lane, led, leader, epoch, paused, pending, scheduled, retrying, blocked, placed, running, oldest_pending_s, finished_last_minute, failed_last_minute,
  paused_at, paused_by, paused_reason, fair_share from jobyard.lane_summary order by lane;

-- name: agent_loads() -> AgentLoad
select agent, host, lane, state, capacity, size_running, size_placed, slots, running, placed, kinds, last_heard_at, started_at from jobyard.agent_load order by lane, agent;

-- name: server_now() -> ServerNow
select now() as at;

-- name: error_counts(kind, lane, since, until) -> ErrorCount
select kind, coalesce(error_type, outcome::text) as error_type, count(*) as attempts, count(*) filter (where is_final) as jobs, max(finished_at) as last_at,
  (array_agg(error_message order by finished_at desc))[1] as last_message
from jobyard.attempt_history
where outcome in ('failed', 'timed_out', 'crashed', 'lost', 'interrupted') and finished_at >= $since::timestamptz and finished_at < $until::timestamptz
  and ($kind::text is null or kind = $kind) and ($lane::text is null or lane = $lane)
group by 1, 2 order by 3 desc, 1, 2;

-- name: kind_summaries() -> KindSummary
select kind, declared, paused, version, lane, priority, size, size_arg, timeout_s, max_attempts, retry, tags, waiting, running, agents, synced_at, paused_at, paused_by, paused_reason
from jobyard.kind_summary order by kind;
