-- name: close_bundles(lane_id, fences)
delete from jobyard.bundles where lane_id = $lane_id and fence = any ($fences::bigint[]);

-- name: open_bundles(lane_id) -> BundleRow
select b.fence, extract(epoch from b.placed_at)::float8 as placed_at, b.agent_id, a.incarnation, b.bucket, b.kind_id, b.priority::int as priority, b.job_ids,
  b.attempts, b.used, b.interruptions, b.careful, b.bounds, b.reason
from jobyard.bundles b join jobyard.agents a using (agent_id) where b.lane_id = $lane_id order by b.fence;
