-- The row that every tick updates: by ctid, in a table without any index (D5).

-- name: free_lease(lane_id, leader, lease_s, tick_s) -> FreeLease
-- Whether the lane may be taken (T1), and the lease as it is now.
select epoch, lease_until::text as lease_until, leader from jobyard.leases
where lane_id = $lane_id and (lease_until <= clock_timestamp() or leader = $leader
  -- A lease that lies further ahead than any is taken for is of a time before the clock was set back: nobody would lead for as long as it was set.
  or lease_until > clock_timestamp() + make_interval(secs => 2 * $lease_s::float8)
  -- Nor is the first, long lease of a leader worth anything whose process has died inside its take-over.
  or (lease_until > clock_timestamp() + make_interval(secs => $tick_s::float8)
    and exists (select from jobyard.coordinators c where c.coordinator::text = leases.leader and c.seen_until <= clock_timestamp())));

-- name: end_transactions(lane_id, leader) -> Ended
-- Transactions that a leader has left open: it can't commit any more, but its locks would stop every tick to come. No time-out of the server ends them while
-- its client is stopped between two messages of a pipeline. Sessions are known by their names, see lane_store.py.
select count(pg_terminate_backend(a.pid)) as ended from pg_stat_activity a
where a.application_name = 'jobyard-coordinator ' || $lane_id::smallint || ' ' || $leader::text
  and a.datname = current_database() and a.pid <> pg_backend_pid() and a.xact_start is not null and pg_has_role(a.usesysid, 'USAGE');

-- name: seize_lease(lane_id, leader, epoch, lease_until, at_least, lease_s) -> Seized
-- T1, if the lease is still the one that was found free. An epoch that is asked for above the one here tells of a restored backup: then fences must not be
-- given twice either.
update jobyard.leases set epoch = greatest(epoch, $at_least::bigint) + 1, leader = $leader,
  fence = fence + case when $at_least::bigint > epoch then 1000000000 else 0 end,
  lease_until = clock_timestamp() + make_interval(secs => $lease_s::float8)
where lane_id = $lane_id and epoch = $epoch::bigint and lease_until = $lease_until::text::timestamptz
returning ctid, epoch, extract(epoch from clock_timestamp())::float8 as now;

-- name: name_session(name) -> Named
-- By its name, which holds lane and leader, the next leader finds this session.
select set_config('application_name', $name, false) as name;

-- name: renew_lease(lane_id, at, epoch, offsets, fence, lease_s) -> Renewed
-- The last statement of a tick (L1). The row is looked for by lane if it is not where it was (VACUUM FULL). If it is nowhere under this epoch, ln(0)
-- fails with 2201E: so a COMMIT that is already on its way behind this statement commits nothing.
with here as (
  update jobyard.leases set offsets = $offsets::jsonb, fence = $fence::bigint, lease_until = clock_timestamp() + make_interval(secs => $lease_s::float8)
  where ctid = $at::tid and epoch = $epoch::bigint returning ctid),
moved as (
  update jobyard.leases set offsets = $offsets::jsonb, fence = $fence::bigint, lease_until = clock_timestamp() + make_interval(secs => $lease_s::float8)
  where lane_id = $lane_id and epoch = $epoch::bigint and not exists (select from here) returning ctid)
select coalesce((select ctid from here), (select ctid from moved)) as at,
  ln(((select count(*) from here) + (select count(*) from moved))::float8) as one, extract(epoch from clock_timestamp())::float8 as now;

-- name: release_lease(lane_id, leader, epoch)
update jobyard.leases set lease_until = clock_timestamp() where lane_id = $lane_id and leader = $leader and epoch = $epoch::bigint;

-- name: load_lease(lane_id, epoch) -> Lease
select ctid as at, fence, offsets from jobyard.leases where lane_id = $lane_id and epoch = $epoch::bigint;
