-- name: lanes_by_name() -> LaneId
select lane, lane_id from jobyard.lanes order by lane_id;

-- name: kinds_now() -> KindRow
select kind, declared, version, lane_id, priority, size_arg, size, timeout_s, max_attempts, retry, tags from jobyard.kinds order by kind for update;

-- name: declare_kind(kind, version, lane_id, priority, size_arg, size, timeout_s, max_attempts, retry, tags)
insert into jobyard.kinds (kind, declared, version, lane_id, priority, size_arg, size, timeout_s, max_attempts, retry, tags, synced_at)
values ($kind::text, true, $version::smallint, $lane_id::smallint, $priority::smallint, $size_arg::text, $size::float8, $timeout_s::float8, $max_attempts::smallint, $retry::jsonb, $tags::jsonb, now())
on conflict (kind) do update set declared = true, version = excluded.version, lane_id = excluded.lane_id, priority = excluded.priority, size_arg = excluded.size_arg, size = excluded.size,
  timeout_s = excluded.timeout_s, max_attempts = excluded.max_attempts, retry = excluded.retry, tags = excluded.tags, synced_at = excluded.synced_at;

-- name: undeclare_kinds(kinds)
update jobyard.kinds set declared = false, synced_at = now() where kind = any ($kinds::text[]) and declared;
