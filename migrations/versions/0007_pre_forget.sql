-- up
create index quarantine_at on quarantine (at);   -- in the order of arrival, so that old rows are found without the others
-- What lies aside and is past the retention (null: the setting): rows of quarantine, and ended agents that no row of the history names.
-- An attempt of an agent belongs to a job that was older than its end: so with the partitions of that time gone, only those kept for unfinished jobs may name it.
create function forget_aside(days int default null) returns table (quarantined bigint, agents bigint) language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$
declare before timestamptz; oldest timestamptz; begin
  days := coalesce(days, setting('retention_days')::int);
  if days < setting('id_max_age_days')::int then
    raise exception using errcode = 'JY002', message = format('days must be at least id_max_age_days (%s), not %s', setting('id_max_age_days'), days), hint = 'As for the history.';
  end if;
  before := now() - make_interval(days => days);
  delete from quarantine q where q.at < before;
  get diagnostics quarantined = row_count;
  select least(before, min(p.since)) - interval '1 day' into oldest from partitions p where p.since > '-infinity';
  delete from agents g where g.ended_at < oldest
    and not exists (select from attempts a where a.job_id < id_floor(oldest + interval '1 day') and a.agent_id = g.agent_id)
    and not exists (select from bundles b where b.agent_id = g.agent_id)
    and not exists (select from running r where r.agent_id = g.agent_id)
    and not exists (select from late_reports l where l.agent_id = g.agent_id);
  get diagnostics agents = row_count;
  return next;
end $$;
revoke execute on function forget_aside from public;
grant execute on function forget_aside to jobyard_coordinator;

-- down
drop function forget_aside;
drop index quarantine_at;
