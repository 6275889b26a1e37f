-- name: keep_house() -> Got
select pg_try_advisory_lock(1247, -3) as yes;

-- name: leave_house() -> Got
select pg_advisory_unlock(1247, -3) as yes;

-- name: make_partitions(ahead_days, partition_days) -> Made
select jobyard.make_partitions(now() - make_interval(days => jobyard.setting('id_max_age_days')::int), now() + make_interval(days => $ahead_days::int), $partition_days::int) as partitions;

-- name: partitions(retention_days) -> Partition
select suffix, since, until, until <= now() - make_interval(days => coalesce($retention_days::int, jobyard.setting('retention_days')::int)) as old
from jobyard.partitions where since > '-infinity' order by since;

-- name: id_max_age() -> Days
select jobyard.setting('id_max_age_days')::int as days;

-- name: drop_partition(suffix) -> Moved
select jobyard.drop_partition($suffix::text) as jobs;

-- name: forget_commands(days)
delete from jobyard.commands where answered_at < now() - make_interval(days => $days::int);

-- name: forget_aside(retention_days) -> Forgotten
select quarantined, agents from jobyard.forget_aside($retention_days::int);

-- name: analyzed_lately() -> Got
select coalesce(min(coalesce(pg_stat_get_last_analyze_time(t), '-infinity')) > now() - interval '1 day', false) as yes
from unnest(array['jobyard.jobs'::regclass, 'jobyard.attempts'::regclass, 'jobyard.job_events'::regclass]) t;

-- name: analyze_history() -> Done
select jobyard.analyze_history()::text as nothing;
