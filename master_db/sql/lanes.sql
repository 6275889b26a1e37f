-- name: find_lane(lane) -> LaneNumber
select lane_id from jobyard.lanes where lane = $lane;

-- name: all_lanes() -> LaneName
select lane from jobyard.lanes order by lane;

-- name: free_lanes() -> LaneName
-- Those that nobody leads, by the database's clock.
select lane from jobyard.lanes join jobyard.leases using (lane_id) where lease_until <= clock_timestamp() order by lane;
