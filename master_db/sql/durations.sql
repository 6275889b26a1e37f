-- name: durations_of_lane(lane_id) -> DurationRow
select kind_id, size_class::int as size_class, ends, mean_s from jobyard.durations where lane_id = $lane_id::smallint;

-- name: learn_durations(lane_id, kind_ids, classes, ends, means)
insert into jobyard.durations (lane_id, kind_id, size_class, ends, mean_s)
select $lane_id::smallint, * from unnest($kind_ids::int[], $classes::smallint[], $ends::int[], $means::float8[])
on conflict (lane_id, kind_id, size_class) do update set ends = excluded.ends, mean_s = excluded.mean_s;
