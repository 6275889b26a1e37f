-- up
-- Who has paused it, when and why: null where it goes on.
alter table lanes add column paused_at timestamptz, add column paused_by text, add column paused_reason text;
alter table kinds add column paused_at timestamptz, add column paused_by text, add column paused_reason text;
-- Agents by name that get nothing new, also in their next incarnation; "stop": they end when they hold nothing any more. The row goes with "resume", or
-- when the agent has said goodbye: a process that is started again afterwards is not drained.
create table drains (
  lane_id smallint not null,
  name text not null,
  stop boolean not null default false,
  at timestamptz not null default now(),
  actor text not null,
  reason text,
  primary key (lane_id, name)
);
-- Coordinators that are alive, by their own word, which holds until seen_until. wanted: the only lanes that it leads, none: all.
-- unable: lanes that it could not lead just now.
create table coordinators (
  coordinator uuid primary key,
  started_at timestamptz not null default clock_timestamp(),
  seen_until timestamptz not null,
  host text not null,
  wanted text[] not null,
  unable text[] not null default '{}'
) with (fillfactor = 50, vacuum_truncate = false, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);
grant select, insert, update, delete on coordinators to jobyard_coordinator;
grant select, delete on drains to jobyard_coordinator;
grant select on coordinators, drains to jobyard_operator;

-- A reason as people give it.
create function checked_reason(reason text) returns text language plpgsql set search_path = jobyard, pg_catalog, pg_temp as $$ begin
  if length(reason) > 1000 then perform fail('JY002', format('reason %s must be at most 1000 characters', shown(reason)), 'Shorten it.'); end if;
  return nullif(reason, '');
end $$;
-- A command for one lane's leader; with p_lane null, one for each lane.
create function tell_leaders(p_lane smallint, p_verb text, p_args jsonb) returns setof bigint language sql set search_path = jobyard, pg_catalog, pg_temp as $$
  with told as (insert into commands (lane_id, verb, actor, args) select l.lane_id, p_verb, session_user, p_args from lanes l where p_lane is null or l.lane_id = p_lane
    order by l.lane_id returning command_id, lane_id)
  select t.command_id from told t, lateral (select wake(t.lane_id)) w order by t.command_id $$;

-- A paused lane or kind places nothing; what is placed goes on, and so does taking in. Each returns the numbers of its commands, by which leaders tell that they act by it.
create function pause_lane(lane text, reason text default null) returns bigint language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$
declare l smallint; begin
  update lanes x set paused = true, paused_at = coalesce(x.paused_at, now()), paused_by = session_user, paused_reason = checked_reason(reason) where x.lane = pause_lane.lane returning x.lane_id into l;
  if l is null then perform refuse('JY006:lane', lane); end if;
  return (select t from tell_leaders(l, 'pause_lane', jsonb_strip_nulls(jsonb_build_object('reason', reason))) t);
end $$;
create function resume_lane(lane text) returns bigint language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$
declare l smallint; begin
  update lanes x set paused = false, paused_at = null, paused_by = null, paused_reason = null where x.lane = resume_lane.lane returning x.lane_id into l;
  if l is null then perform refuse('JY006:lane', lane); end if;
  return (select t from tell_leaders(l, 'resume_lane', '{}') t);
end $$;
create function pause_kind(kind text, reason text default null) returns setof bigint language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$ begin
  update kinds x set paused = true, paused_at = coalesce(x.paused_at, now()), paused_by = session_user, paused_reason = checked_reason(reason) where x.kind = pause_kind.kind;
  if not found then perform fail('JY007', format('no kind %s', shown(kind)), 'Kinds are known once they were synced or a job has named them.'); end if;
  return query select * from tell_leaders(null, 'pause_kind', jsonb_strip_nulls(jsonb_build_object('kind', kind, 'reason', reason)));
end $$;
create function resume_kind(kind text) returns setof bigint language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$ begin
  update kinds x set paused = false, paused_at = null, paused_by = null, paused_reason = null where x.kind = resume_kind.kind;
  if not found then perform fail('JY007', format('no kind %s', shown(kind)), 'Kinds are known once they were synced or a job has named them.'); end if;
  return query select * from tell_leaders(null, 'resume_kind', jsonb_build_object('kind', kind));
end $$;

-- A drained agent gives back what it has not started, gets nothing new, and finishes what runs. stop: then it ends. By name, in one lane or in all that it lives in.
create function drain_agent(agent text, lane text default null, stop boolean default false, reason text default null) returns setof bigint
language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$
declare l smallint; any_ boolean := false; begin
  for l in select a.lane_id from agents a join lanes x using (lane_id) where a.name = drain_agent.agent and a.ended_at is null and (drain_agent.lane is null or x.lane = drain_agent.lane) order by 1 loop
    any_ := true;
    insert into drains (lane_id, name, stop, actor, reason) values (l, drain_agent.agent, coalesce(drain_agent.stop, false), session_user, checked_reason(drain_agent.reason))
      on conflict (lane_id, name) do update set stop = excluded.stop, actor = excluded.actor, reason = excluded.reason;
    return query select * from tell_leaders(l, 'drain_agent', jsonb_strip_nulls(jsonb_build_object('agent', drain_agent.agent, 'stop', coalesce(drain_agent.stop, false), 'reason', drain_agent.reason)));
  end loop;
  if not any_ then perform fail('JY007', format('no agent %s is alive', shown(agent)), 'The view jobyard.agent_load shows those that are.'); end if;
end $$;
create function resume_agent(agent text, lane text default null) returns setof bigint language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$
declare l smallint; any_ boolean := false; begin
  for l in select d.lane_id from drains d join lanes x using (lane_id) where d.name = resume_agent.agent and (resume_agent.lane is null or x.lane = resume_agent.lane)
    union select a.lane_id from agents a join lanes x using (lane_id) where a.name = resume_agent.agent and a.ended_at is null and (resume_agent.lane is null or x.lane = resume_agent.lane) order by 1 loop
    any_ := true;
    delete from drains d where d.lane_id = l and d.name = resume_agent.agent;
    return query select * from tell_leaders(l, 'resume_agent', jsonb_build_object('agent', resume_agent.agent));
  end loop;
  if not any_ then perform fail('JY007', format('no agent %s is alive or drained', shown(agent)), 'The view jobyard.agent_load shows those that are alive.'); end if;
end $$;
revoke execute on function checked_reason, tell_leaders, pause_lane, resume_lane, pause_kind, resume_kind, drain_agent, resume_agent from public;
grant execute on function pause_lane, resume_lane, pause_kind, resume_kind, drain_agent, resume_agent to jobyard_operator;

create or replace view lane_summary as
select l.lane, case when s.lease_until > now() then s.leader end as leader, s.epoch, l.paused, coalesce(p.pending, 0) as pending, coalesce(p.scheduled, 0) as scheduled, coalesce(p.retrying, 0) as retrying, coalesce(p.blocked, 0) as blocked,
  coalesce(b.n, 0) as placed, coalesce(r.n, 0) as running, extract(epoch from now() - p.oldest)::float8 as oldest_pending_s,
  coalesce(m.finished, 0) as finished_last_minute, coalesce(m.failed, 0) as failed_last_minute, s.lease_until, s.leader is not null and s.lease_until > now() as led,
  l.paused_at, l.paused_by, l.paused_reason
from lanes l join leases s using (lane_id)
left join (select lane_id, count(*) filter (where run_at <= now()) as pending, count(*) filter (where run_at > now() and why in ('n', 'h')) as scheduled,
   count(*) filter (where run_at > now() and why in ('r', 's', 'l')) as retrying, count(*) filter (where why = 'b') as blocked, min(run_at) filter (where run_at <= now()) as oldest
   from pending group by 1) p using (lane_id)
left join (select lane_id, count(*) as n from job_states where state = 'placed' group by 1) b using (lane_id)
left join (select lane_id, count(*) as n from running group by 1) r using (lane_id)
left join (select lane_id, count(*) as finished, count(*) filter (where outcome <> 'succeeded') as failed from attempts
   where final is not null and finished_at >= now() - interval '1 minute' group by 1) m using (lane_id);

create view kind_summary as
select k.kind, k.declared, k.paused, k.version::int as version, l.lane, (array['critical', 'high', 'medium', 'low', 'very_low'])[k.priority + 1] as priority, k.size, k.size_arg, k.timeout_s,
  k.max_attempts::int as max_attempts, k.retry, k.tags, k.synced_at, k.paused_at, k.paused_by, k.paused_reason,
  coalesce(p.n, 0) as waiting, coalesce(r.n, 0) as running, (select count(distinct g.agent_id) from agents g where g.ended_at is null and k.kind_id = any (g.kinds)) as agents
from kinds k left join lanes l using (lane_id)
left join (select kind_id, count(*) as n from pending group by 1) p using (kind_id)
left join (select kind_id, count(*) as n from running group by 1) r using (kind_id);
grant select on kind_summary to jobyard_auditor, jobyard_coordinator;

-- down
drop view kind_summary;
drop view lane_summary;
create view lane_summary as
select l.lane, case when s.lease_until > now() then s.leader end as leader, s.epoch, l.paused, coalesce(p.pending, 0) as pending, coalesce(p.scheduled, 0) as scheduled, coalesce(p.retrying, 0) as retrying, coalesce(p.blocked, 0) as blocked,
  coalesce(b.n, 0) as placed, coalesce(r.n, 0) as running, extract(epoch from now() - p.oldest)::float8 as oldest_pending_s,
  coalesce(m.finished, 0) as finished_last_minute, coalesce(m.failed, 0) as failed_last_minute, s.lease_until, s.leader is not null and s.lease_until > now() as led
from lanes l join leases s using (lane_id)
left join (select lane_id, count(*) filter (where run_at <= now()) as pending, count(*) filter (where run_at > now() and why in ('n', 'h')) as scheduled,
   count(*) filter (where run_at > now() and why in ('r', 's', 'l')) as retrying, count(*) filter (where why = 'b') as blocked, min(run_at) filter (where run_at <= now()) as oldest
   from pending group by 1) p using (lane_id)
left join (select lane_id, count(*) as n from job_states where state = 'placed' group by 1) b using (lane_id)
left join (select lane_id, count(*) as n from running group by 1) r using (lane_id)
left join (select lane_id, count(*) as finished, count(*) filter (where outcome <> 'succeeded') as failed from attempts
   where final is not null and finished_at >= now() - interval '1 minute' group by 1) m using (lane_id);
grant select on lane_summary to jobyard_auditor, jobyard_coordinator;
drop function resume_agent, drain_agent, resume_kind, pause_kind, resume_lane, pause_lane, tell_leaders, checked_reason;
drop table coordinators, drains;
alter table kinds drop column paused_at, drop column paused_by, drop column paused_reason;
alter table lanes drop column paused_at, drop column paused_by, drop column paused_reason;
