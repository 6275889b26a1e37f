-- up
-- Fair share: submitters take turns inside a priority. Rows of "pending" are read ahead by flow then, which is a group of submitters: so no flood hides the rest.
-- Where a lane does not share fairly all rows have flow 0, and the index of the others is empty.
alter table lanes add column fair_share boolean not null default false;
alter table pending add column flow smallint not null default 0;
drop index pending_due;
create index pending_due on pending (lane_id, priority, kind_id, run_at, id) where flow = 0;
create index pending_flow on pending (lane_id, priority, kind_id, flow, run_at, id) where flow <> 0;
create function flow_of(submitter text) returns smallint language sql immutable parallel safe
return (1 + get_byte(sha256(convert_to(coalesce(submitter, ''), 'UTF8')), 0) % 255)::smallint;

create or replace function submit(kind text, args jsonb default '{}', id uuid default null, lane text default null, priority text default null, size float8 default null,
  run_at timestamptz default null, timeout_s float8 default null, max_attempts int default null, retry jsonb default null, version int default null,
  submitter text default null, tags jsonb default null, parent uuid default null, traceparent text default null)
returns uuid language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$
declare k kinds; l smallint; now_ timestamptz := clock_timestamp(); due timestamptz; prio smallint; problem text; oldest uuid; largest int; fair boolean; begin
  -- JSON's null is a field left out, as in submit_many
  if retry = 'null' then retry := null; end if;
  if tags = 'null' then tags := null; end if;
  select id_floor(now_ - make_interval(days => a.value::int)), b.value::int into oldest, largest from settings a, settings b where a.name = 'id_max_age_days' and b.name = 'max_args_bytes';
  -- An expression without a query: it is planned once. As part of a query it would be planned in each call, at ten times the cost.
  problem := job_problem(kind, args, id, priority, size, run_at, timeout_s, max_attempts, retry, version, submitter, tags, parent, traceparent, oldest, id_floor(now_ + interval '1 hour'), largest);
  if problem is not null then
    perform refuse(problem, case substr(problem, 7) when 'kind' then kind when 'args' then args::text when 'depth' then args::text when 'number' then args::text when 'priority' then priority when 'size' then size::text
      when 'max_attempts' then max_attempts::text when 'timeout_s' then timeout_s::text when 'version' then version::text when 'run_at' then run_at::text when 'retry' then retry::text
      when 'submitter' then submitter when 'parent' then parent::text when 'traceparent' then traceparent when 'tags' then tags::text when 'id' then id::text end);
  end if;
  select * into k from kinds x where x.kind = submit.kind;
  if not found then   -- never synced: the general defaults
    insert into kinds (kind, declared) values (submit.kind, false) on conflict do nothing;
    select * into k from kinds x where x.kind = submit.kind;
  end if;
  if lane is null then select x.lane_id, x.fair_share into l, fair from lanes x where x.lane_id = coalesce(k.lane_id, 1); else select x.lane_id, x.fair_share into l, fair from lanes x where x.lane = submit.lane; end if;
  if not found then perform refuse('JY006:lane', lane); end if;
  if size is null then size := case when k.size_arg is null then k.size else size_in(args, k.size_arg) end; end if;
  if size is null then perform refuse('JY002:size_arg', kind); end if;
  if submitter is not null and not may_act_for(submitter) then perform refuse('JY008:submitter', submitter); end if;
  if id is null then id := jobyard.uuidv7(now_); end if;
  prio := coalesce(priority_number(priority), k.priority);
  due := greatest(run_at, now_);
  insert into jobs (id, created_at, run_at, size, timeout_s, parent_id, kind_id, lane_id, priority, max_attempts, version, via, submitter, traceparent, tags, retry, args)
    values (submit.id, now_, due, submit.size, coalesce(submit.timeout_s, k.timeout_s), parent, k.kind_id, l, prio, coalesce(submit.max_attempts, k.max_attempts),
      coalesce(submit.version, k.version), 's', coalesce(submit.submitter, session_user), submit.traceparent, coalesce(nullif(submit.tags, '{}'), k.tags), coalesce(submit.retry, k.retry), submit.args::json)
    on conflict do nothing;
  if not found then   -- the same id again is the same job: the first content counts
    perform set_config('jobyard.duplicates', id::text, true);   -- for the caller, in the same statement: which ids were jobs already
    return id;
  end if;
  perform set_config('jobyard.duplicates', '', true);
  insert into pending (id, run_at, kind_id, lane_id, priority, flow) values (submit.id, due, k.kind_id, l, prio, case when fair then flow_of(coalesce(submit.submitter, session_user)) else 0 end);
  if due <= now_ + interval '1 s' then perform wake(l); end if;
  return id;
end $$;

create or replace function submit_many(jobs jsonb) returns setof uuid language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp set jit = off as $$
declare bad record; now_ timestamptz := clock_timestamp(); ids uuid[]; known_ text; lanes_ smallint[]; wrong_ text; at bigint; value_ text;
  oldest uuid := id_floor(now_ - make_interval(days => setting('id_max_age_days')::int)); newest uuid := id_floor(now_ + interval '1 hour'); max_args_bytes int := setting('max_args_bytes')::int; begin
  if jsonb_typeof(jobs) is distinct from 'array' then
    perform fail('JY002', format('jobs %s must be a JSON array', shown(jobs::text)), 'Each element is a job as for "submit".');
  end if;
  select e.n, jsonb_typeof(e.job) as type, e.job, f.key, f.value #>> '{}' as value, field_problem(f.key, f.value) as problem into bad
    from jsonb_array_elements(jobs) with ordinality e(job, n)
    cross join lateral jsonb_each(case when jsonb_typeof(e.job) = 'object' then e.job else '{"": 0}' end) f
    where field_problem(f.key, f.value) is not null order by e.n limit 1;
  if found then
    if bad.type <> 'object' then
      perform fail('JY002', format('job %s: %s must be a JSON object', bad.n, shown(bad.job::text)), 'For example {"kind": "transcribe", "args": {"path": "a.wav"}}.');
    end if;
    perform refuse(bad.problem, bad.value, format('job %s: ', bad.n));
  end if;
  -- kinds never synced get the general defaults
  insert into kinds (kind, declared) select n.kind, false from (select distinct e ->> 'kind' as kind from jsonb_array_elements(jobs) e) n
    where n.kind ~ '^[!-~]{1,200}$' and not exists (select from kinds k where k.kind = n.kind) on conflict do nothing;
  with src as materialized (
    select r.n, coalesce(r.id, jobyard.uuidv7(now_)) as id, k.kind_id, l.lane_id, coalesce(priority_number(r.priority), k.priority) as priority,
      coalesce(r.size, case when k.size_arg is null then k.size else size_in(r.args, k.size_arg) end) as size, greatest(r.run_at, now_) as due, coalesce(r.max_attempts, k.max_attempts)::smallint as max_attempts, coalesce(r.timeout_s, k.timeout_s) as timeout_s,
      coalesce(r.version, k.version)::smallint as version, coalesce(r.submitter, session_user) as submitter, coalesce(case when r.tags not in ('null', '{}') then r.tags end, k.tags) as tags,
      coalesce(nullif(r.retry, 'null'), k.retry) as retry, coalesce(r.args, '{}') as args, r.traceparent, r.parent,
      job_problem(r.kind, coalesce(r.args, '{}'), r.id, r.priority, r.size, r.run_at, r.timeout_s, r.max_attempts, nullif(r.retry, 'null'), r.version, r.submitter, nullif(r.tags, 'null'), r.parent, r.traceparent,
        oldest, newest, max_args_bytes) as problem
    from rows from (jsonb_to_recordset(jobs) as (id uuid, kind text, args jsonb, lane text, priority text, size float8, run_at timestamptz, timeout_s float8, max_attempts int, retry jsonb,
        version int, submitter text, tags jsonb, parent uuid, traceparent text)) with ordinality
        r(id, kind, args, lane, priority, size, run_at, timeout_s, max_attempts, retry, version, submitter, tags, parent, traceparent, n)
      left join kinds k on k.kind = r.kind left join lanes l on case when r.lane is null then l.lane_id = coalesce(k.lane_id, 1) else l.lane = r.lane end),
  mine as materialized (select s.submitter, may_act_for(s.submitter) as yes from (select distinct src.submitter from src) s),
  wrong as (select n, coalesce(problem, case when lane_id is null then 'JY006:lane' when size is null then 'JY002:size_arg' else 'JY008:submitter' end) as problem
    from src where src.problem is not null or lane_id is null or size is null or submitter in (select m.submitter from mine m where not m.yes) order by n limit 1),
  ok as (select not exists (select from wrong) as yes),
  new as (insert into jobs (id, created_at, run_at, size, timeout_s, parent_id, kind_id, lane_id, priority, max_attempts, version, via, submitter, traceparent, tags, retry, args)
    select id, now_, due, size, timeout_s, parent, kind_id, lane_id, priority, max_attempts, version, 's', submitter, traceparent, tags, retry, args::json
    from src where (select yes from ok) on conflict do nothing returning id, run_at, kind_id, lane_id, priority, submitter),
  put as (insert into pending (id, run_at, kind_id, lane_id, priority, flow)
    select new.id, new.run_at, new.kind_id, new.lane_id, new.priority, case when x.fair_share then flow_of(new.submitter) else 0 end from new join lanes x using (lane_id) returning run_at, lane_id)
  select (select array_agg(src.id order by src.n) from src), (select string_agg(src.id::text, ',') from src where not exists (select from new where new.id = src.id)),
    (select array_agg(distinct lane_id) from put where run_at <= now_ + interval '1 s'), (select problem from wrong), (select n from wrong) into ids, known_, lanes_, wrong_, at;
  if wrong_ is not null then
    value_ := (jobs -> (at - 1)::int) ->> case substr(wrong_, 7) when 'depth' then 'args' when 'number' then 'args' when 'size_arg' then 'kind' else substr(wrong_, 7) end;
    perform refuse(wrong_, value_, format('job %s: ', at));
  end if;
  perform set_config('jobyard.duplicates', coalesce(known_, ''), true);   -- as in submit
  perform wake(u) from unnest(lanes_) u;
  return query select unnest(ids);
end $$;

-- The lane's setting; what waits already stays in the flow that it has.
create function fair_share(lane text, fair boolean) returns bigint language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$
declare l smallint; begin
  if fair is null then perform fail('JY002', 'fair null must be true or false', 'true: submitters take turns.'); end if;
  update lanes x set fair_share = fair where x.lane = fair_share.lane returning x.lane_id into l;
  if l is null then perform refuse('JY006:lane', lane); end if;
  return (select t from tell_leaders(l, 'fair_share', jsonb_build_object('fair', fair)) t);
end $$;
revoke execute on function fair_share from public;
grant execute on function fair_share to jobyard_operator;

create or replace view lane_summary as
select l.lane, case when s.lease_until > now() then s.leader end as leader, s.epoch, l.paused, coalesce(p.pending, 0) as pending, coalesce(p.scheduled, 0) as scheduled, coalesce(p.retrying, 0) as retrying, coalesce(p.blocked, 0) as blocked,
  coalesce(b.n, 0) as placed, coalesce(r.n, 0) as running, extract(epoch from now() - p.oldest)::float8 as oldest_pending_s,
  coalesce(m.finished, 0) as finished_last_minute, coalesce(m.failed, 0) as failed_last_minute, s.lease_until, s.leader is not null and s.lease_until > now() as led,
  l.paused_at, l.paused_by, l.paused_reason, l.fair_share
from lanes l join leases s using (lane_id)
left join (select lane_id, count(*) filter (where run_at <= now()) as pending, count(*) filter (where run_at > now() and why in ('n', 'h')) as scheduled,
   count(*) filter (where run_at > now() and why in ('r', 's', 'l')) as retrying, count(*) filter (where why = 'b') as blocked, min(run_at) filter (where run_at <= now()) as oldest
   from pending group by 1) p using (lane_id)
left join (select lane_id, count(*) as n from job_states where state = 'placed' group by 1) b using (lane_id)
left join (select lane_id, count(*) as n from running group by 1) r using (lane_id)
left join (select lane_id, count(*) as finished, count(*) filter (where outcome <> 'succeeded') as failed from attempts
   where final is not null and finished_at >= now() - interval '1 minute' group by 1) m using (lane_id);

-- down
drop view lane_summary;
create view lane_summary as
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
grant select on lane_summary to jobyard_auditor, jobyard_coordinator;
drop function fair_share;
create or replace function submit(kind text, args jsonb default '{}', id uuid default null, lane text default null, priority text default null, size float8 default null,
  run_at timestamptz default null, timeout_s float8 default null, max_attempts int default null, retry jsonb default null, version int default null,
  submitter text default null, tags jsonb default null, parent uuid default null, traceparent text default null)
returns uuid language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$
declare k kinds; l smallint; now_ timestamptz := clock_timestamp(); due timestamptz; prio smallint; problem text; oldest uuid; largest int; begin
  -- JSON's null is a field left out, as in submit_many
  if retry = 'null' then retry := null; end if;
  if tags = 'null' then tags := null; end if;
  select id_floor(now_ - make_interval(days => a.value::int)), b.value::int into oldest, largest from settings a, settings b where a.name = 'id_max_age_days' and b.name = 'max_args_bytes';
  -- An expression without a query: it is planned once. As part of a query it would be planned in each call, at ten times the cost.
  problem := job_problem(kind, args, id, priority, size, run_at, timeout_s, max_attempts, retry, version, submitter, tags, parent, traceparent, oldest, id_floor(now_ + interval '1 hour'), largest);
  if problem is not null then
    perform refuse(problem, case substr(problem, 7) when 'kind' then kind when 'args' then args::text when 'depth' then args::text when 'number' then args::text when 'priority' then priority when 'size' then size::text
      when 'max_attempts' then max_attempts::text when 'timeout_s' then timeout_s::text when 'version' then version::text when 'run_at' then run_at::text when 'retry' then retry::text
      when 'submitter' then submitter when 'parent' then parent::text when 'traceparent' then traceparent when 'tags' then tags::text when 'id' then id::text end);
  end if;
  select * into k from kinds x where x.kind = submit.kind;
  if not found then   -- never synced: the general defaults
    insert into kinds (kind, declared) values (submit.kind, false) on conflict do nothing;
    select * into k from kinds x where x.kind = submit.kind;
  end if;
  if lane is null then select x.lane_id into l from lanes x where x.lane_id = coalesce(k.lane_id, 1); else select x.lane_id into l from lanes x where x.lane = submit.lane; end if;
  if not found then perform refuse('JY006:lane', lane); end if;
  if size is null then size := case when k.size_arg is null then k.size else size_in(args, k.size_arg) end; end if;
  if size is null then perform refuse('JY002:size_arg', kind); end if;
  if submitter is not null and not may_act_for(submitter) then perform refuse('JY008:submitter', submitter); end if;
  if id is null then id := jobyard.uuidv7(now_); end if;
  prio := coalesce(priority_number(priority), k.priority);
  due := greatest(run_at, now_);
  insert into jobs (id, created_at, run_at, size, timeout_s, parent_id, kind_id, lane_id, priority, max_attempts, version, via, submitter, traceparent, tags, retry, args)
    values (submit.id, now_, due, submit.size, coalesce(submit.timeout_s, k.timeout_s), parent, k.kind_id, l, prio, coalesce(submit.max_attempts, k.max_attempts),
      coalesce(submit.version, k.version), 's', coalesce(submit.submitter, session_user), submit.traceparent, coalesce(nullif(submit.tags, '{}'), k.tags), coalesce(submit.retry, k.retry), submit.args::json)
    on conflict do nothing;
  if not found then   -- the same id again is the same job: the first content counts
    perform set_config('jobyard.duplicates', id::text, true);   -- for the caller, in the same statement: which ids were jobs already
    return id;
  end if;
  perform set_config('jobyard.duplicates', '', true);
  insert into pending (id, run_at, kind_id, lane_id, priority) values (submit.id, due, k.kind_id, l, prio);
  if due <= now_ + interval '1 s' then perform wake(l); end if;
  return id;
end $$;

create or replace function submit_many(jobs jsonb) returns setof uuid language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp set jit = off as $$
declare bad record; now_ timestamptz := clock_timestamp(); ids uuid[]; known_ text; lanes_ smallint[]; wrong_ text; at bigint; value_ text;
  oldest uuid := id_floor(now_ - make_interval(days => setting('id_max_age_days')::int)); newest uuid := id_floor(now_ + interval '1 hour'); max_args_bytes int := setting('max_args_bytes')::int; begin
  if jsonb_typeof(jobs) is distinct from 'array' then
    perform fail('JY002', format('jobs %s must be a JSON array', shown(jobs::text)), 'Each element is a job as for "submit".');
  end if;
  select e.n, jsonb_typeof(e.job) as type, e.job, f.key, f.value #>> '{}' as value, field_problem(f.key, f.value) as problem into bad
    from jsonb_array_elements(jobs) with ordinality e(job, n)
    cross join lateral jsonb_each(case when jsonb_typeof(e.job) = 'object' then e.job else '{"": 0}' end) f
    where field_problem(f.key, f.value) is not null order by e.n limit 1;
  if found then
    if bad.type <> 'object' then
      perform fail('JY002', format('job %s: %s must be a JSON object', bad.n, shown(bad.job::text)), 'For example {"kind": "transcribe", "args": {"path": "a.wav"}}.');
    end if;
    perform refuse(bad.problem, bad.value, format('job %s: ', bad.n));
  end if;
  -- kinds never synced get the general defaults
  insert into kinds (kind, declared) select n.kind, false from (select distinct e ->> 'kind' as kind from jsonb_array_elements(jobs) e) n
    where n.kind ~ '^[!-~]{1,200}$' and not exists (select from kinds k where k.kind = n.kind) on conflict do nothing;
  with src as materialized (
    select r.n, coalesce(r.id, jobyard.uuidv7(now_)) as id, k.kind_id, l.lane_id, coalesce(priority_number(r.priority), k.priority) as priority,
      coalesce(r.size, case when k.size_arg is null then k.size else size_in(r.args, k.size_arg) end) as size, greatest(r.run_at, now_) as due, coalesce(r.max_attempts, k.max_attempts)::smallint as max_attempts, coalesce(r.timeout_s, k.timeout_s) as timeout_s,
      coalesce(r.version, k.version)::smallint as version, coalesce(r.submitter, session_user) as submitter, coalesce(case when r.tags not in ('null', '{}') then r.tags end, k.tags) as tags,
      coalesce(nullif(r.retry, 'null'), k.retry) as retry, coalesce(r.args, '{}') as args, r.traceparent, r.parent,
      job_problem(r.kind, coalesce(r.args, '{}'), r.id, r.priority, r.size, r.run_at, r.timeout_s, r.max_attempts, nullif(r.retry, 'null'), r.version, r.submitter, nullif(r.tags, 'null'), r.parent, r.traceparent,
        oldest, newest, max_args_bytes) as problem
    from rows from (jsonb_to_recordset(jobs) as (id uuid, kind text, args jsonb, lane text, priority text, size float8, run_at timestamptz, timeout_s float8, max_attempts int, retry jsonb,
        version int, submitter text, tags jsonb, parent uuid, traceparent text)) with ordinality
        r(id, kind, args, lane, priority, size, run_at, timeout_s, max_attempts, retry, version, submitter, tags, parent, traceparent, n)
      left join kinds k on k.kind = r.kind left join lanes l on case when r.lane is null then l.lane_id = coalesce(k.lane_id, 1) else l.lane = r.lane end),
  mine as materialized (select s.submitter, may_act_for(s.submitter) as yes from (select distinct src.submitter from src) s),
  wrong as (select n, coalesce(problem, case when lane_id is null then 'JY006:lane' when size is null then 'JY002:size_arg' else 'JY008:submitter' end) as problem
    from src where src.problem is not null or lane_id is null or size is null or submitter in (select m.submitter from mine m where not m.yes) order by n limit 1),
  ok as (select not exists (select from wrong) as yes),
  new as (insert into jobs (id, created_at, run_at, size, timeout_s, parent_id, kind_id, lane_id, priority, max_attempts, version, via, submitter, traceparent, tags, retry, args)
    select id, now_, due, size, timeout_s, parent, kind_id, lane_id, priority, max_attempts, version, 's', submitter, traceparent, tags, retry, args::json
    from src where (select yes from ok) on conflict do nothing returning id, run_at, kind_id, lane_id, priority),
  put as (insert into pending (id, run_at, kind_id, lane_id, priority) select id, run_at, kind_id, lane_id, priority from new returning run_at, lane_id)
  select (select array_agg(src.id order by src.n) from src), (select string_agg(src.id::text, ',') from src where not exists (select from new where new.id = src.id)),
    (select array_agg(distinct lane_id) from put where run_at <= now_ + interval '1 s'), (select problem from wrong), (select n from wrong) into ids, known_, lanes_, wrong_, at;
  if wrong_ is not null then
    value_ := (jobs -> (at - 1)::int) ->> case substr(wrong_, 7) when 'depth' then 'args' when 'number' then 'args' when 'size_arg' then 'kind' else substr(wrong_, 7) end;
    perform refuse(wrong_, value_, format('job %s: ', at));
  end if;
  perform set_config('jobyard.duplicates', coalesce(known_, ''), true);   -- as in submit
  perform wake(u) from unnest(lanes_) u;
  return query select unnest(ids);
end $$;

drop function flow_of;
drop index pending_flow;
drop index pending_due;
create index pending_due on pending (lane_id, priority, kind_id, run_at, id);
alter table pending drop column flow;
alter table lanes drop column fair_share;
