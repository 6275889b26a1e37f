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

-- How long jobs take, by kind and size class (S16), as the lane's leader has learned it; written every few seconds while it changes.
create table durations (
  lane_id smallint not null,
  kind_id int not null,
  size_class smallint not null,
  ends int not null,
  mean_s float8 not null,
  primary key (lane_id, kind_id, size_class)
) with (fillfactor = 50);

revoke execute on function explain from public;
grant execute on function explain to jobyard_client, jobyard_operator;
grant select, insert, update on durations to jobyard_coordinator;
grant select on durations to jobyard_operator;

-- down
drop table durations;
drop function explain;
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
