-- up
-- job_states: where each job stands. Every member of the UNION ALL but "placed" is ONE table WITHOUT a WHERE (its condition is the column "ok", tested outside): only such
-- members are flattened by the planner, so that ORDER BY job_id LIMIT n becomes a Merge Append over indexes, and a constant state (or the CHECK on "final") removes members
-- while planning.
-- "held_at": a retry by hand after it voids the row. Moments of the leader's clock only: for an attempt that of its placement, since its end is told by the agent's clock; for an event
-- its own, less the smallest step, since one of the same moment is void, too. master_db/standing.py decides by the same rule.
create view job_states as
select s.job_id, s.state, s.kind_id, s.lane_id, s.used, s.run_at, s.started_at, s.finished_at, s.agent_id, s.fence, s.error_type, s.error_message, s.result, s.done, s.total, s.message, s.priority
from (
  select p.id as job_id, 'pending'::job_state as state, p.run_at <= now() as ok, p.kind_id, p.lane_id, p.used, p.run_at, null::timestamptz as started_at,
    null::timestamptz as finished_at, null::int as agent_id, null::bigint as fence, null::text as error_type, null::text as error_message, null::json as result,
    null::float8 as done, null::float8 as total, null::text as message, null::timestamptz as held_at, p.priority from pending p
  union all
  select p.id, 'scheduled', p.run_at > now() and p.why in ('n', 'h'), p.kind_id, p.lane_id, p.used, p.run_at, null, null, null, null, null, null, null, null, null, null, null, p.priority from pending p
  union all
  select p.id, 'retrying', p.run_at > now() and p.why in ('r', 's', 'l'), p.kind_id, p.lane_id, p.used, p.run_at, null, null, null, null, null, null, null, null, null, null, null, p.priority from pending p
  union all
  select p.id, 'blocked', p.run_at > now() and p.why = 'b', p.kind_id, p.lane_id, p.used, p.run_at, null, null, null, null, null, null, null, null, null, null, null, p.priority from pending p
  union all
  select r.job_id, 'running', true, r.kind_id, r.lane_id, r.used, null, r.started_at, null, r.agent_id, r.fence, null, null, null, r.done, r.total, r.message, null, null from running r
  union all
  select u.id, 'placed', true, b.kind_id, b.lane_id, u.used, null, null, null, b.agent_id, b.fence, null, null, null, null, null, null, null, b.priority
    from bundles b cross join lateral unnest(b.job_ids, b.attempts, b.used) u(id, attempt, used)
    where u.id between b.lo and b.hi and not exists (select from running r where r.job_id = u.id) and not exists (select from attempts a where a.job_id = u.id and a.attempt = u.attempt)
  union all
  select a.job_id, a.final, true, a.kind_id, a.lane_id, a.used, null, a.started_at, a.finished_at, a.agent_id, a.fence, a.error_type, a.error_message, a.result, null, null, null, a.placed_at, null from attempts a
  union all
  select e.job_id, e.final, true, e.kind_id, e.lane_id, e.used, null, null, e.at, null, null, e.detail ->> 'error_type', coalesce(e.detail ->> 'error_message', nullif(e.detail ->> 'reason', '')), (e.detail -> 'result')::json, null, null, null, e.at - interval '1 microsecond', null
    from job_events e
) s
where s.ok and s.state is not null and not exists (select from reopened o where o.job_id = s.job_id and o.at > s.held_at);

create view job_status as
select s.job_id, k.kind, j.version::int as version, l.lane, (array['critical', 'high', 'medium', 'low', 'very_low'])[coalesce(s.priority, j.priority) + 1] as priority, j.size, j.args, j.tags, s.state,
  coalesce(s.used, 0)::int as attempts, coalesce((select max(o.max_attempts) from reopened o where o.job_id = j.id), j.max_attempts)::int as max_attempts,
  j.submitter, case j.via when 'k' then 'kafka' when 's' then 'sql' else 'schedule' end as submitted_via, j.parent_id, j.group_id, j.schedule, j.unique_key,
  j.created_at as submitted_at, coalesce(nullif(s.run_at, 'infinity'), j.run_at) as run_at, s.started_at, s.finished_at, g.name as agent,
  s.done as progress_done, s.total as progress_total, s.message as progress_message, s.error_type, s.error_message, s.result, j.expires_at, j.limits, j.timeout_s
from job_states s join jobs j on j.id = s.job_id join kinds k on k.kind_id = s.kind_id join lanes l on l.lane_id = s.lane_id left join agents g on g.agent_id = s.agent_id;

create view attempt_history as
select a.job_id, k.kind, l.lane, a.attempt::int as attempt, a.fence, g.name as agent, a.bucket, a.placed_at, a.started_at, a.finished_at, a.outcome, a.final is not null as is_final,
  a.error_type, a.error_message, a.error_traceback, a.result, g.host, a.reason
from attempts a join kinds k on k.kind_id = a.kind_id join lanes l on l.lane_id = a.lane_id left join agents g on g.agent_id = a.agent_id;

create view job_timeline as
select j.id as job_id, j.created_at as at, 'submitted' as event, null::int as attempt, null::text as agent, j.submitter as actor, jsonb_build_object('via', case j.via when 'k' then 'kafka' when 's' then 'sql' else 'schedule' end, 'run_at', j.run_at) as detail
  from jobs j
union all
select a.job_id, v.at, v.event, a.attempt::int, g.name, null, v.detail from attempts a left join agents g on g.agent_id = a.agent_id
  cross join lateral (values ('placed', a.placed_at, a.reason), ('started', a.started_at, null),
    (a.outcome::text, a.finished_at, jsonb_build_object('error_type', a.error_type, 'final', a.final))) v(event, at, detail) where v.at is not null
union all
select j.id, b.placed_at, 'placed', u.attempt::int, g.name, null, b.reason from bundles b cross join lateral unnest(b.job_ids, b.attempts) u(id, attempt)
  join jobs j on j.id = u.id and j.id between b.lo and b.hi left join agents g on g.agent_id = b.agent_id
  where not exists (select from attempts a where a.job_id = j.id and a.attempt = u.attempt)
union all
select r.job_id, r.started_at, 'started', r.attempt::int, g.name, null, null from running r left join agents g on g.agent_id = r.agent_id
union all
select e.job_id, e.at, e.event, e.attempt::int, null, e.actor, e.detail from job_events e
union all
select o.job_id, o.at, 'late_' || o.outcome, null, g.name, null, jsonb_build_object('closed_job', o.closed_job, 'fence', o.fence) from late_reports o left join agents g on g.agent_id = o.agent_id;

create view stuck_jobs as
select r.job_id, k.kind, l.lane, 'running'::job_state as state, r.deadline as since, 'past its deadline' as reason
from running r join kinds k on k.kind_id = r.kind_id join lanes l on l.lane_id = r.lane_id where r.deadline < now() - interval '60 s'
union all
select p.id, k.kind, l.lane, 'pending', p.run_at, case when s.lease_until < now() then 'no coordinator leads the lane' else 'no agent of the lane has the kind' end
from pending p join kinds k on k.kind_id = p.kind_id join lanes l on l.lane_id = p.lane_id join leases s on s.lane_id = p.lane_id
where p.run_at < now() - interval '60 s' and (s.lease_until < now() or not exists (
  select from (select distinct g.lane_id, unnest(g.kinds) as kind_id from agents g where g.ended_at is null and g.state = 'active') h where h.lane_id = p.lane_id and h.kind_id = p.kind_id))
union all
select h.id, h.job -> 'job' ->> 'kind', l.lane, null, h.since, 'its id is locked by an open transaction' from held_intake h join lanes l using (lane_id) where h.since < now() - interval '60 s';

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

create view agent_load as
select g.name as agent, g.host, l.lane, g.state, g.capacity, coalesce(h.size_running, 0) as size_running, coalesce(h.size_placed, 0) as size_placed, g.slots,
  coalesce(h.running, 0) as running, coalesce(h.placed, 0) as placed, array(select k.kind from kinds k where k.kind_id = any (g.kinds) order by k.kind) as kinds,
  g.heard_at as last_heard_at, g.started_at
from agents g join lanes l using (lane_id)
left join (select s.agent_id, count(*) filter (where s.state = 'running') as running, count(*) filter (where s.state = 'placed') as placed,
    sum(j.size) filter (where s.state = 'running') as size_running, sum(j.size) filter (where s.state = 'placed') as size_placed
   from job_states s join jobs j on j.id = s.job_id where s.state in ('running', 'placed') group by 1) h using (agent_id)
where g.ended_at is null;

create view late_outcomes as
select o.job_id, k.kind, l.lane, o.fence, o.at, g.name as agent, o.outcome, o.closed_job, o.error_type, o.error_message, o.result
from late_reports o left join agents g on g.agent_id = o.agent_id left join jobs j on j.id = o.job_id left join kinds k on k.kind_id = j.kind_id left join lanes l on l.lane_id = j.lane_id;

-- Lists, by page: first the ids, driven by the table that the filter selects best (dynamic SQL: literals, so the planner sees how rare a kind is), then the rows of these ids.
-- since, until: of the time in the id; before: the last id of the page before; error: text in the error's message. Newest first. Values reach the text only by %L.
create function find_jobs(state job_state default null, kind text default null, lane text default null, submitter text default null, tags jsonb default null, "group" uuid default null,
  unique_key text default null, error_type text default null, since timestamptz default null, until timestamptz default null, before uuid default null, lim int default 50, error text default null)
returns setof job_status language plpgsql stable security definer set search_path = jobyard, pg_catalog, pg_temp set jit = off as $$
declare src text; w text := ''; jw text := ''; ids uuid[]; k int; l smallint; hi uuid; lo uuid; key text; begin
  if lim is null or lim not between 1 and 10000 then perform fail('JY002', format('lim %s must lie between 1 and 10000', lim), 'Ask for the next page with before.'); end if;
  if kind is not null then select x.kind_id into k from kinds x where x.kind = find_jobs.kind; if not found then return; end if; end if;
  if lane is not null then select x.lane_id into l from lanes x where x.lane = find_jobs.lane; if not found then return; end if; end if;
  hi := least(before, case when until < '2200-01-01 00:00:00+00' then id_floor(until) end);
  lo := case when since >= '2200-01-01 00:00:00+00' then 'ffffffff-ffff-ffff-ffff-ffffffffffff' when since > '1970-01-01 00:00:00+00' then id_floor(since) end;
  if until <= '1970-01-01 00:00:00+00' then return; end if;
  if submitter is not null then jw := jw || format(' and j.submitter = %L', submitter); end if;
  if tags is not null then jw := jw || format(' and j.tags @> %L', tags); end if;
  if "group" is not null then jw := jw || format(' and j.group_id = %L', "group"); end if;
  if unique_key is not null then jw := jw || format(' and j.unique_key = %L', unique_key); end if;
  if k is not null then w := w || format(' and s.kind_id = %s', k); end if;
  if l is not null then w := w || format(' and s.lane_id = %s', l); end if;
  if error_type is not null then w := w || format(' and s.error_type = %L', error_type); end if;
  if error is not null then w := w || format(' and s.error_message ilike %L', '%' || regexp_replace(error, '([\\%_])', '\\\1', 'g') || '%'); end if;
  if state in ('pending', 'scheduled', 'retrying', 'blocked') and coalesce(error_type, error) is not null then return; end if;   -- nothing that waits has an error
  if state is null and error_type is null and error is null then
    key := 's.id';
    src := 'select s.id from jobs s where true' || w || replace(jw, ' and j.', ' and s.');
  elsif state in ('pending', 'scheduled', 'retrying', 'blocked') then
    key := 's.id';
    src := 'select s.id from pending s' || case when jw <> '' then ' join jobs j on j.id = s.id' || jw else '' end || ' where ' || case state
      when 'pending' then 's.run_at <= now()' when 'scheduled' then $q$s.run_at > now() and s.why in ('n', 'h')$q$
      when 'retrying' then $q$s.run_at > now() and s.why in ('r', 's', 'l')$q$ else $q$s.why = 'b'$q$ end || w;
  else
    key := 's.job_id';
    src := 'select s.job_id as id from job_states s' || case when jw <> '' then ' join jobs j on j.id = s.job_id' || jw else '' end || ' where '
      || case when state is null then $q$s.state in ('failed', 'cancelled', 'expired', 'refused')$q$ else format('s.state = %L', state) end || w;
  end if;
  if hi is not null then src := src || format(' and %s < %L', key, hi); end if;
  if lo is not null then src := src || format(' and %s >= %L', key, lo); end if;
  execute format('select array_agg(id) from (%s order by %s desc limit %s) q', src, key, lim) into ids;
  if ids is null then return; end if;
  return query execute format('select * from job_status x where x.job_id = any (%L::uuid[]) and x.job_id between %L and %L order by x.job_id desc', ids, ids[array_length(ids, 1)], ids[1]);
end $$;

-- down
drop function find_jobs;
drop view late_outcomes, agent_load, lane_summary, stuck_jobs, job_timeline, attempt_history, job_status, job_states;
