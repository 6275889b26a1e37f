-- up
-- Why a job is where it is: the leader answers with facts as JSON. About one that has ended, too.
create or replace function command(job uuid, verb text, args jsonb) returns bigint language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$
declare j jobs; c bigint; begin
  if job is null then perform fail('JY002', 'job null must be the id of a job', 'As submit returned it.'); end if;
  select * into j from jobs x where x.id = job;
  if found then
    if not may_act_for(j.submitter) then
      perform fail('JY008', format('job %s was submitted by %s', job, shown(j.submitter)), 'Only its submitter or an operator may do that.');
    end if;
    if verb in ('cancel', 'reschedule') and exists (select from job_states s where s.job_id = job and s.state in ('succeeded', 'failed', 'cancelled', 'expired', 'refused')) then
      perform fail('JY009', format('job %s has ended: it cannot be %s', job, case verb when 'cancel' then 'cancelled' else 'rescheduled' end), 'The view jobyard.job_status tells how it ended.');
    end if;
  elsif not is_job_id(job::text) or id_time(job) not between clock_timestamp() - interval '1 hour' and clock_timestamp() + interval '1 hour' then
    perform fail('JY007', format('no job %s', job), 'Is the id complete? Jobs older than the retention are gone.');
  end if;   -- a younger one may still be in the intake topic: the leader answers (L21)
  insert into commands (job_id, lane_id, verb, actor, args) values (job, j.lane_id, command.verb, session_user, command.args) returning command_id into c;
  if j.lane_id is null then perform wake(l.lane_id) from lanes l; else perform wake(j.lane_id); end if;
  return c;
end $$;
create function explain(job uuid) returns bigint language sql security definer set search_path = jobyard, pg_catalog, pg_temp as $$ select command(job, 'explain', '{}') $$;

-- What is paused places nothing; what is placed goes on, and so does intake. The row tells a leader that takes over, the command the one that leads.
create function pause_or_resume_lane(lane text, verb text) returns bigint language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$ begin
  update lanes l set paused = verb = 'pause' where l.lane = pause_or_resume_lane.lane;
  if not found then perform refuse('JY006:lane', lane); end if;
  return operate(lane, verb);
end $$;
create function pause_lane(lane text) returns bigint language sql security definer set search_path = jobyard, pg_catalog, pg_temp as $$ select pause_or_resume_lane(lane, 'pause') $$;
create function resume_lane(lane text) returns bigint language sql security definer set search_path = jobyard, pg_catalog, pg_temp as $$ select pause_or_resume_lane(lane, 'resume') $$;
create function pause_or_resume_kind(kind text, verb text) returns table (lane text, command bigint) language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$ begin
  update kinds k set paused = verb = 'pause' where k.kind = pause_or_resume_kind.kind;
  if not found then perform fail('JY006', format('kind %s is unknown', shown(kind)), 'A kind is known once code that declares it was synced, or a job of it was submitted.'); end if;
  return query select l.lane, operate(l.lane, verb, jsonb_build_object('kind', kind)) from lanes l order by l.lane;
end $$;
create function pause_kind(kind text) returns table (lane text, command bigint) language sql security definer set search_path = jobyard, pg_catalog, pg_temp as $$ select * from pause_or_resume_kind(kind, 'pause') $$;
create function resume_kind(kind text) returns table (lane text, command bigint) language sql security definer set search_path = jobyard, pg_catalog, pg_temp as $$ select * from pause_or_resume_kind(kind, 'resume') $$;

-- Drained by hand: takes nothing new, gives back what it has not started; and with "stop" it ends when nothing runs there any more.
alter table agents add column drain text check (drain in ('drain', 'stop'));
create function drain_agents(names text[] default null, host text default null, stop boolean default false) returns table (agent text, lane text, command bigint)
language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$ begin
  if num_nonnulls(names, drain_agents.host) = 0 then perform fail('JY002', 'names or host must be given', 'Both may be.'); end if;
  return query with told as (update agents g set drain = case when stop then 'stop' else 'drain' end
      where g.ended_at is null and (g.name = any (names) or g.host = drain_agents.host) returning g.name, g.lane_id)
    select t.name, l.lane, operate(l.lane, case when stop then 'stop' else 'drain' end, jsonb_build_object('agent', t.name)) from told t join lanes l using (lane_id);
end $$;
create function resume_agents(names text[] default null, host text default null) returns table (agent text, lane text, command bigint)
language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$ begin
  if num_nonnulls(names, resume_agents.host) = 0 then perform fail('JY002', 'names or host must be given', 'Both may be.'); end if;
  return query with told as (update agents g set drain = null where g.ended_at is null and (g.name = any (names) or g.host = resume_agents.host) returning g.name, g.lane_id)
    select t.name, l.lane, operate(l.lane, 'undrain', jsonb_build_object('agent', t.name)) from told t join lanes l using (lane_id);
end $$;

-- How long jobs take, by kind and size class (S16), as the lane's leader has learned it; written every few seconds while it changes.
create table durations (
  lane_id smallint not null,
  kind_id int not null,
  size_class smallint not null,
  ends int not null,
  mean_s float8 not null,
  primary key (lane_id, kind_id, size_class)
) with (fillfactor = 50);

revoke execute on function explain, pause_or_resume_lane, pause_lane, resume_lane, pause_or_resume_kind, pause_kind, resume_kind, drain_agents, resume_agents from public;
grant execute on function explain to jobyard_client, jobyard_operator;
grant execute on function pause_lane, resume_lane, pause_kind, resume_kind, drain_agents, resume_agents to jobyard_operator;
grant select, insert, update on durations to jobyard_coordinator;
grant select on durations to jobyard_operator;

-- down
drop table durations;
drop function resume_agents, drain_agents;
alter table agents drop column drain;
drop function resume_kind, pause_kind, pause_or_resume_kind, resume_lane, pause_lane, pause_or_resume_lane, explain;
create or replace function command(job uuid, verb text, args jsonb) returns bigint language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$
declare j jobs; c bigint; begin
  if job is null then perform fail('JY002', 'job null must be the id of a job', 'As submit returned it.'); end if;
  select * into j from jobs x where x.id = job;
  if found then
    if not may_act_for(j.submitter) then
      perform fail('JY008', format('job %s was submitted by %s', job, shown(j.submitter)), 'Only its submitter or an operator may do that.');
    end if;
    if verb <> 'retry' and exists (select from job_states s where s.job_id = job and s.state in ('succeeded', 'failed', 'cancelled', 'expired', 'refused')) then
      perform fail('JY009', format('job %s has ended: it cannot be %s', job, case verb when 'cancel' then 'cancelled' else 'rescheduled' end), 'The view jobyard.job_status tells how it ended.');
    end if;
  elsif not is_job_id(job::text) or id_time(job) not between clock_timestamp() - interval '1 hour' and clock_timestamp() + interval '1 hour' then
    perform fail('JY007', format('no job %s', job), 'Is the id complete? Jobs older than the retention are gone.');
  end if;   -- a younger one may still be in the intake topic: the leader answers (L21)
  insert into commands (job_id, lane_id, verb, actor, args) values (job, j.lane_id, command.verb, session_user, command.args) returning command_id into c;
  if j.lane_id is null then perform wake(l.lane_id) from lanes l; else perform wake(j.lane_id); end if;
  return c;
end $$;
