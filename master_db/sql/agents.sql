-- name: replace_agent(lane_id, name, incarnation)
-- A hello of a new incarnation ends the current one of that name (L11): only one may be current.
update jobyard.agents set ended_at = clock_timestamp(), state = 'replaced'
where lane_id = $lane_id and name = $name and ended_at is null and not exists (select from jobyard.agents where incarnation = $incarnation::uuid);

-- name: insert_agent(incarnation, started, capacity, lost_after_s, slots, lane_id, name, host, kinds, versions) -> AgentNumber
insert into jobyard.agents (incarnation, started_at, heard_at, capacity, lost_after_s, slots, lane_id, name, host, kinds, versions)
values ($incarnation::uuid, $started::timestamptz, $started::timestamptz, $capacity, $lost_after_s, $slots, $lane_id, $name, $host, $kinds::int[], $versions::smallint[])
on conflict (incarnation) do nothing returning agent_id, incarnation;

-- name: set_kinds(agent_id, kinds, versions)
update jobyard.agents set kinds = $kinds::int[], versions = $versions::smallint[] where agent_id = $agent_id;

-- name: hear_agents(agent_ids, moments)
update jobyard.agents set heard_at = h.at from unnest($agent_ids::int[], $moments::timestamptz[]) as h(agent_id, at) where agents.agent_id = h.agent_id;

-- name: change_agent(agent_id, state, capacity, slots)
update jobyard.agents set state = $state, capacity = $capacity, slots = $slots where agent_id = $agent_id;

-- name: end_agent(agent_id, state, at)
update jobyard.agents set state = $state, ended_at = $at::timestamptz where agent_id = $agent_id;

-- name: agents_of_lane(lane_id) -> AgentsRow
-- Current ones, those that ended within the hour (T5), and those that still hold careful jobs until their own lease is over (L11).
select agent_id, name, incarnation, coalesce(host, '') as host, capacity, slots, kinds, versions, state, lost_after_s, ended_at is not null as ended
from jobyard.agents
where lane_id = $lane_id and (ended_at is null or ended_at > now() - interval '1 hour' or agent_id in (select b.agent_id from jobyard.bundles b where b.lane_id = $lane_id))
order by agent_id;

-- name: incarnations_of(agent_ids) -> IncarnationRow
select agent_id, incarnation from jobyard.agents where agent_id = any ($agent_ids::int[]);
