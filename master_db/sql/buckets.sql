-- name: give_buckets(lane_id, agent_id, parts, priorities, topic_ids, offsets)
insert into jobyard.buckets (lane_id, part, agent_id, priority, topic_id, start_offset)
select $lane_id::smallint, part, $agent_id::int, priority, topic_id, start_offset
from unnest($parts::int[], $priorities::smallint[], $topic_ids::text[], $offsets::bigint[]) as b(part, priority, topic_id, start_offset)
on conflict (lane_id, part) do update set agent_id = excluded.agent_id, priority = excluded.priority, topic_id = excluded.topic_id, start_offset = excluded.start_offset;

-- name: free_buckets(lane_id, agent_id)
update jobyard.buckets set agent_id = null where lane_id = $lane_id and agent_id = $agent_id;

-- name: buckets_of_lane(lane_id) -> BucketRow
select agent_id, priority::int as priority, part, topic_id, start_offset from jobyard.buckets where lane_id = $lane_id and agent_id is not null order by agent_id, priority, part;
