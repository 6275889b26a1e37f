-- The advisory lock (1247, lane) tells submitters that the lane's leader is awake (D8).

-- name: take_awake(lane_id) -> Took
select pg_try_advisory_lock(1247, $lane_id::int) as took;

-- name: give_awake(lane_id) -> Took
select pg_advisory_unlock(1247, $lane_id::int) as took;

-- name: look_snapshot() -> LookedAt
select pg_current_snapshot()::text as snapshot;

-- name: notify_lane(lane_id)
-- Wakes a leader whether it sleeps or not.
select pg_notify('jobyard', $lane_id::smallint::text);

-- name: mark_asleep() -> Mark
-- A transaction id of its own: whoever has one already has a smaller one. (pg_snapshot_xmax would not do: it is one more than the last that has ENDED,
-- so what is open may lie beyond it.)
select pg_current_xact_id()::text as xid;
