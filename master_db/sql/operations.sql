-- name: add_lane(lane) -> Added
with made as (insert into jobyard.lanes (lane) values ($lane::text) on conflict do nothing returning lane_id),
  led as (insert into jobyard.leases (lane_id) select lane_id from made)  -- returns nothing: an operator may not read leases
select count(*)::int as lanes from made;

-- name: cancel(job, reason) -> Number
select jobyard.cancel($job::uuid, $reason::text) as number;

-- name: retry(job, reason) -> Number
select jobyard.retry($job::uuid, $reason::text) as number;

-- name: reschedule(job, run_at, priority) -> Number
select jobyard.reschedule($job::uuid, $run_at::timestamptz, $priority::text) as number;

-- name: operate(lane, verb, args) -> Number
select jobyard.operate($lane::text, $verb::text, $args::jsonb) as number;

-- name: explain(job) -> Number
select jobyard.explain($job::uuid) as number;

-- name: pause_lane(lane, reason) -> Number
select jobyard.pause_lane($lane::text, $reason::text) as number;

-- name: resume_lane(lane) -> Number
select jobyard.resume_lane($lane::text) as number;

-- name: fair_share(lane, fair) -> Number
select jobyard.fair_share($lane::text, $fair::bool) as number;

-- name: pause_kind(kind, reason) -> Number
select n as number from jobyard.pause_kind($kind::text, $reason::text) n;

-- name: resume_kind(kind) -> Number
select n as number from jobyard.resume_kind($kind::text) n;

-- name: durations_of_kind(name) -> DurationShown
select l.lane, power(2, d.size_class)::float8 as size_up_to, d.mean_s, d.ends
from jobyard.durations d join jobyard.kinds k using (kind_id) join jobyard.lanes l on l.lane_id = d.lane_id where k.kind = $name::text order by l.lane, d.size_class;

-- name: command_answer(number) -> Answer
select answered_at, code, answer from jobyard.command_answer($number::bigint);

-- name: agents_ever(name, most) -> AgentRow
select a.name as agent, a.host, l.lane, a.state, a.capacity, a.slots, a.incarnation, a.started_at, a.heard_at as last_heard_at, a.ended_at,
  array(select k.kind from jobyard.kinds k where k.kind_id = any (a.kinds) order by k.kind) as kinds
from jobyard.agents a join jobyard.lanes l using (lane_id) where a.name = $name::text order by a.agent_id desc limit $most::int;

-- name: drain_agent(agent, lane, stop, reason) -> Number
select n as number from jobyard.drain_agent($agent::text, $lane::text, $stop::boolean, $reason::text) n;

-- name: resume_agent(agent, lane) -> Number
select n as number from jobyard.resume_agent($agent::text, $lane::text) n;
