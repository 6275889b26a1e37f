-- name: find_lane(lane) -> LaneNumber
select lane_id from jobyard.lanes where lane = $lane;

-- name: lane_paused(lane_id) -> LanePaused
select paused from jobyard.lanes where lane_id = $lane_id::smallint;

-- name: all_lanes() -> LaneName
select lane from jobyard.lanes order by lane;

-- name: free_lanes(longest_s) -> LaneName
-- Those that nobody leads, by the database's clock; also if it was set back since, so that the lease lies further ahead than any is taken for.
select lane from jobyard.lanes join jobyard.leases using (lane_id)
where lease_until <= clock_timestamp() or lease_until > clock_timestamp() + make_interval(secs => $longest_s::float8) order by lane;
