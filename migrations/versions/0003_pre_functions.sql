-- up
-- Functions for any language. Errors have SQLSTATEs of class JY, each names field, value and rule, and has a hint:
-- JY001 bad kind · JY002 bad field · JY003 unknown field · JY004 not a UUIDv7 · JY005 id too old or in the future · JY006 unknown lane · JY007 no such job
-- JY008 not yours · JY009 wrong state · JY010 too large · JY090 history. No EXCEPTION block anywhere: each would be a subtransaction.

create function fail(code text, message text, hint text) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$ begin
  raise exception using errcode = code, message = message, hint = hint;
end $$;

-- A value as error messages show it: quoted, escaped, at most 60 characters of it, none of which a terminal would obey.
create function shown(value text) returns text language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
  select coalesce(to_json(regexp_replace(case when length(value) > 60 then left(value, 57) || '...' else value end,
    '[\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]', U&'\FFFD', 'g'))::text, 'null') $$;

create function priority_number(name text) returns smallint language sql immutable parallel safe as $$
  select (array_position(array['critical', 'high', 'medium', 'low', 'very_low'], name) - 1)::smallint $$;

-- ---------------------------------------------------------------- the rules of a job's fields. Really immutable and without a setting: so they are inlined into the statements that use them
create function is_job_id(id text) returns boolean language sql immutable parallel safe as $$
  select id ~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$' $$;

-- An RFC 3339 moment with its offset, of a date that exists: what passes can be cast.
create function is_moment(value text) returns boolean language sql immutable parallel safe as $$
  select case when value ~ '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?([Zz]|[+-](0[0-9]|1[0-5]):?[0-5][0-9])$'
    then left(value, 4) <> '0000' and substr(value, 9, 2)::int <= case when substr(value, 6, 2) in ('04', '06', '09', '11') then 30 when substr(value, 6, 2) <> '02' then 31
      when left(value, 4)::int % 4 = 0 and (left(value, 4)::int % 100 <> 0 or left(value, 4)::int % 400 = 0) then 29 else 28 end
    else false end $$;

-- As a double, since it is read as one: what lies nearer to a bound than doubles do is the bound.
create function is_between_0_and(value numeric, most float8) returns boolean language sql immutable parallel safe as $$
  select case when round(value, 320) between 0 and 1e12 then round(value, 320)::float8 <= most else false end $$;

create function is_retry(retry jsonb) returns boolean language sql immutable parallel safe as $$
  select case when jsonb_typeof(retry) = 'object' then not exists (select from jsonb_each(retry) f where not case
    when f.key = 'backoff' then f.value in ('"exponential"', '"linear"', '"constant"')
    when f.key in ('base_s', 'cap_s') then case when jsonb_typeof(f.value) = 'number' then jobyard.is_between_0_and(f.value::numeric, 31622400) else false end
    when f.key = 'jitter' then case when jsonb_typeof(f.value) = 'number' then jobyard.is_between_0_and(f.value::numeric, 1) else false end
    else false end) else false end $$;

create function is_tags(tags jsonb) returns boolean language sql immutable parallel safe as $$
  select case when jsonb_typeof(tags) = 'object' then (select count(*) <= 50 and coalesce(bool_and(jsonb_typeof(f.value) = 'string'
    and f.key ~ '^[^\u0001-\u001f\u007f]{1,100}$' and length(f.value #>> '{}') <= 500), true) from jsonb_each(tags) f) else false end $$;

-- Deeper than 200 levels of arrays and objects? Each level takes two characters at least.
create function is_too_deep(args jsonb, length int) returns boolean language sql immutable parallel safe as $$
  select case when length > 400 then jsonb_path_exists(args, 'strict $.**{200} ? (@.type() == "object" || @.type() == "array")') else false end $$;

-- A number of more than 308 digits before the point, or 1000 behind it? Not every reader of JSON would read it as it was meant. Strings are taken out first.
create function is_far(args jsonb, length int) returns boolean language sql immutable parallel safe as $$
  select case when length > 308 then case when args::text ~ '[0-9]{255}' then
    regexp_replace(args::text, '"([^"\\]|\\.)*"', '""', 'g') ~ '[^0-9.][0-9]{255}[0-9]{54}|[.][0-9]{250}[0-9]{250}[0-9]{250}[0-9]{251}' else false end else false end $$;

-- What is wrong with a field of a job in JSON, as SQLSTATE:field; null: it can be cast to its column's type.
create function field_problem(field text, value jsonb) returns text language sql immutable parallel safe as $$
  select case
    when field = 'kind' then case when jsonb_typeof(value) = 'string' then null else 'JY001:kind' end
    when field = 'args' then case when jsonb_typeof(value) = 'object' then null else 'JY002:args' end
    when field not in ('id', 'lane', 'priority', 'size', 'run_at', 'timeout_s', 'max_attempts', 'retry', 'version', 'submitter', 'tags', 'parent', 'traceparent') then 'JY003:' || field
    when jsonb_typeof(value) = 'null' then null
    when field in ('size', 'timeout_s') then
      case when jsonb_typeof(value) = 'number' then case when value::numeric between 1e-300 and 1e300 then null else 'JY002:' || field end else 'JY002:' || field end
    when field in ('max_attempts', 'version') then
      case when jsonb_typeof(value) = 'number' then case when value::numeric between 1 and 32767 and scale(value::numeric) = 0 then null else 'JY002:' || field end else 'JY002:' || field end
    when field in ('retry', 'tags') then case when jsonb_typeof(value) = 'object' then null else 'JY002:' || field end
    when jsonb_typeof(value) <> 'string' then case when field = 'id' then 'JY004:id' when field = 'lane' then 'JY006:lane' else 'JY002:' || field end
    when field = 'id' then case when is_job_id(value #>> '{}') then null else 'JY004:id' end
    when field = 'parent' then case when is_job_id(value #>> '{}') then null else 'JY002:parent' end
    when field = 'run_at' then case when is_moment(value #>> '{}') then null else 'JY002:run_at' end
  end $$;

-- What is wrong with a job, as SQLSTATE:field; null: nothing. A field that is null is left out, and right.
create function job_problem(kind text, args jsonb, id uuid, priority text, size float8, run_at timestamptz, timeout_s float8, max_attempts int, retry jsonb, version int,
  submitter text, tags jsonb, parent uuid, traceparent text, oldest uuid, newest uuid, max_args_bytes int)
returns text language sql immutable parallel safe as $$
  select case
    when kind is null or kind !~ '^[!-~]{1,200}$' then 'JY001:kind'
    when jsonb_typeof(args) is distinct from 'object' then 'JY002:args'
    when octet_length(args::text) > max_args_bytes then 'JY010:args'
    when is_too_deep(args, octet_length(args::text)) then 'JY002:depth'
    when is_far(args, octet_length(args::text)) then 'JY002:number'
    when priority is not null and priority not in ('critical', 'high', 'medium', 'low', 'very_low') then 'JY002:priority'
    when size is not null and not (size >= 1e-300 and size <= 1e12) then 'JY002:size'
    when max_attempts not between 1 and 1000 then 'JY002:max_attempts'
    when timeout_s is not null and not (timeout_s >= 1e-300 and timeout_s <= 31622400) then 'JY002:timeout_s'
    when version not between 1 and 32767 then 'JY002:version'
    when run_at is not null and not (run_at >= '1970-01-01 00:00:00+00' and run_at < '2200-01-01 00:00:00+00') then 'JY002:run_at'
    when retry is not null and not is_retry(retry) then 'JY002:retry'
    when submitter is not null and submitter !~ '^[^\u0001-\u001f\u007f]{1,200}$' then 'JY002:submitter'
    when parent is not null and not is_job_id(parent::text) then 'JY002:parent'
    when traceparent is not null and traceparent !~ '^[!-~]{1,128}$' then 'JY002:traceparent'
    when tags is not null and not is_tags(tags) then 'JY002:tags'
    when id is not null and not is_job_id(id::text) then 'JY004:id'
    when id is not null and (id < oldest or id > newest) then 'JY005:id'
  end $$;

-- The size that stands in the arguments at a dotted path; null: there is no number above 0, at most 1e12.
create function size_in(args jsonb, path text) returns float8 language sql immutable parallel safe as $$
  select case when jsonb_typeof(case when strpos(path, '.') = 0 then args else args #> trim_array(string_to_array(path, '.'), 1) end) = 'object'
      and jsonb_typeof(args #> string_to_array(path, '.')) = 'number'
    then case when (args #> string_to_array(path, '.'))::numeric between 1e-300 and 1e12 then (args #> string_to_array(path, '.'))::float8 end end $$;

-- Raises the error of a problem. place: what stands in front of the message ("job 3: ").
create function refuse(problem text, value text, place text default '') returns void language plpgsql set search_path = jobyard, pg_catalog, pg_temp as $$
declare field text := substr(problem, 7); text text; hint text; begin
  case problem
    when 'JY001:kind' then text := 'must be 1 to 200 printable ASCII characters without spaces'; hint := 'It is the name of a handler.';
    when 'JY002:args' then text := 'must be a JSON object'; hint := 'They are the keyword arguments of the handler.';
    when 'JY002:depth' then field := 'args'; text := 'must be nested at most 200 levels deep'; hint := 'Put such data elsewhere and pass its address.';
    when 'JY002:number' then field := 'args'; text := 'holds a number that has more than 308 digits before the point or 1000 behind it'; hint := 'Pass such a number as a text.';
    when 'JY010:args' then text := format('must be at most %s bytes of JSON', setting('max_args_bytes')); hint := 'Put large data elsewhere and pass its address.';
    when 'JY002:priority' then text := 'is unknown: it must be one of critical, high, medium, low, very_low'; hint := 'Leave it out for that of the kind.';
    when 'JY002:size' then text := 'must be a number above 0, at most 1e+12'; hint := 'A cheap estimate of what the job costs, in any unit; leave it out for that of the kind.';
    when 'JY002:max_attempts' then text := 'must be a whole number between 1 and 1000'; hint := '1: the job is never started twice.';
    when 'JY002:timeout_s' then text := 'must be a number of seconds above 0, at most 31622400'; hint := 'Leave it out for the time-out of the kind, or none.';
    when 'JY002:version' then text := 'must be a whole number between 1 and 32767'; hint := 'The job goes only to agents whose handler has at least this version.';
    when 'JY002:run_at' then text := 'must be a moment with its offset, between the years 1970 and 2200'; hint := 'For example 2030-01-31T08:00:00Z. Leave it out for now.';
    when 'JY002:retry' then text := 'must be {"backoff": exponential|linear|constant, "base_s": 0 to 31622400, "cap_s": 0 to 31622400, "jitter": 0 to 1}'; hint := 'Each of them can be left out.';
    when 'JY002:submitter' then text := 'must be 1 to 200 characters, none of them a control character'; hint := 'Leave it out for your role.';
    when 'JY002:parent' then text := 'must be the id of a job, a UUIDv7 in lower case with hyphens'; hint := 'The job that submits this one.';
    when 'JY002:traceparent' then text := 'must be 1 to 128 printable ASCII characters'; hint := 'As W3C Trace Context says.';
    when 'JY002:tags' then text := 'must be an object of at most 50 strings: names of 1 to 100 characters without control characters, values of at most 500 without NUL'; hint := 'For example {"customer": "7"}.';
    when 'JY004:id' then text := 'must be a UUIDv7 in lower case with hyphens'; hint := 'Leave it out to have one made.';
    when 'JY005:id' then text := format('holds a time that must be at most %s days back and 1 hour ahead', setting('id_max_age_days')); hint := 'Make a new id. Is a clock wrong?';
    when 'JY006:lane' then text := 'is no lane'; hint := 'Add it with "jobyard lane add".';
    when 'JY008:submitter' then text := format('may not be submitted for by role %s', session_user); hint := 'An operator may grant it: insert into jobyard.submitters.';
    when 'JY002:size_arg' then   -- the value is the kind
      perform fail('JY002', format('%sargument %s must be a number above 0, at most 1e+12: it is the size of a %s job', place, (select shown(k.size_arg) from kinds k where k.kind = value), value),
        'Or give a size with the job.');
    else
      if problem like 'JY003:%' then
        perform fail('JY003', format('%sunknown field %s', place, shown(field)), 'See "A job as JSON" in the documentation.');
      end if;
      text := 'is wrong'; hint := 'See "A job as JSON" in the documentation.';
  end case;
  perform fail(left(problem, 5), format('%s%s %s %s', place, field, shown(value), text), hint);
end $$;

-- ---------------------------------------------------------------- submitting
-- Wakes the lane's leader, only if it sleeps: a leader that is awake holds the advisory lock (1247, lane) exclusively. NOTIFY makes commits queue up, so never under load (D8).
create function wake(lane smallint) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$ begin
  if pg_try_advisory_lock_shared(1247, lane) then
    perform pg_advisory_unlock_shared(1247, lane), pg_notify('jobyard', lane::text);
  end if;
end $$;

create function may_act_for(submitter text) returns boolean language sql stable set search_path = jobyard, pg_catalog, pg_temp as $$
  select coalesce(may_act_for.submitter = session_user, false) or pg_has_role(session_user, 'jobyard_operator', 'member')
    or exists (select from submitters s where s.role = session_user and s.submitter = may_act_for.submitter) $$;

create function submit(kind text, args jsonb default '{}', id uuid default null, lane text default null, priority text default null, size float8 default null,
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

-- Many jobs, all or none, ids in order: one pass of checks, one INSERT … SELECT each.
create function submit_many(jobs jsonb) returns setof uuid language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp set jit = off as $$
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

-- ---------------------------------------------------------------- commands: recorded here, decided by the lane's leader
create function command(job uuid, verb text, args jsonb) returns bigint language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$
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

create function cancel(job uuid, reason text default null) returns bigint language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$ begin
  if length(reason) > 1000 then perform fail('JY002', format('reason %s must be at most 1000 characters', shown(reason)), 'Shorten it.'); end if;
  return command(job, 'cancel', jsonb_build_object('reason', reason));
end $$;
create function retry(job uuid, reason text default null) returns bigint language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$ begin
  if length(reason) > 1000 then perform fail('JY002', format('reason %s must be at most 1000 characters', shown(reason)), 'Shorten it.'); end if;
  return command(job, 'retry', jsonb_build_object('reason', reason));
end $$;
create function reschedule(job uuid, run_at timestamptz default null, priority text default null) returns bigint language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$ begin
  if run_at is null and priority is null then perform fail('JY002', 'run_at or priority must be given', 'Both may be.'); end if;
  if run_at is not null and not (run_at >= '1970-01-01 00:00:00+00' and run_at < '2200-01-01 00:00:00+00') then perform refuse('JY002:run_at', run_at::text); end if;
  if priority is not null and priority_number(priority) is null then perform refuse('JY002:priority', priority); end if;
  return command(job, 'reschedule', jsonb_build_object('run_at', extract(epoch from run_at), 'priority', priority));
end $$;

-- The leader's answer: no row while it has none; code null = done.
create function command_answer(command bigint) returns table (answered_at timestamptz, code text, answer text)
language sql stable security definer set search_path = jobyard, pg_catalog, pg_temp as $$
  select c.answered_at, c.code, c.answer from commands c
  where c.command_id = command and c.answered_at is not null and (c.actor = session_user or pg_has_role(session_user, 'jobyard_operator', 'member')) $$;

-- Lanes, kinds and agents by hand.
create function operate(lane text, verb text, args jsonb default '{}') returns bigint language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$
declare l smallint; c bigint; begin
  if verb is null or verb !~ '^[a-z_]{1,30}$' then perform fail('JY002', format('verb %s must be a word of lower-case letters', shown(verb)), 'For example sync.'); end if;
  if jsonb_typeof(args) is distinct from 'object' then perform fail('JY002', format('args %s must be a JSON object', shown(args::text)), 'Use {} for none.'); end if;
  if octet_length(args::text) > 65536 then perform fail('JY010', format('args %s must be at most 65536 bytes of JSON', shown(args::text)), 'They are words for a leader.'); end if;
  select x.lane_id into l from lanes x where x.lane = operate.lane;
  if not found then perform refuse('JY006:lane', lane); end if;
  insert into commands (lane_id, verb, actor, args) values (l, operate.verb, session_user, operate.args) returning command_id into c;
  perform wake(l);
  return c;
end $$;

-- down
drop function operate, command_answer, reschedule, retry, cancel, command, submit_many, submit, may_act_for, wake, refuse, size_in, job_problem, field_problem, is_far, is_too_deep, is_tags, is_retry, is_between_0_and,
  is_moment, is_job_id, priority_number, shown, fail;
