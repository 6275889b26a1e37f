-- up
-- ---------------------------------------------------------------- ids
-- What lies before 1970, or beyond what 48 bits can hold, counts as the first or last moment that an id can tell.
create function uuidv7(at timestamptz default clock_timestamp()) returns uuid language sql volatile parallel safe as $$
  select encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) placing substring(int8send(case when at < '1970-01-01 00:00:00+00' then 0
    when at >= '10889-08-02 05:31:50.655+00' then 281474976710655 else (extract(epoch from at) * 1000)::bigint end) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid $$;
-- The smallest id of a moment: "job_id >= jobyard.id_floor(now() - interval '1 day')" reads only the partitions of that day.
create function id_floor(at timestamptz) returns uuid language sql immutable parallel safe as $$
  select (lpad(to_hex(case when at < '1970-01-01 00:00:00+00' then 0 when at >= '10889-08-02 05:31:50.655+00' then 281474976710655
    else (extract(epoch from at) * 1000)::bigint end), 12, '0') || '00000000000000000000')::uuid $$;
create function id_time(id uuid) returns timestamptz language sql immutable parallel safe as $$
  select to_timestamp((('x' || lpad(left(replace(id::text, '-', ''), 12), 16, '0'))::bit(64)::bigint) / 1000.0) $$;

-- ---------------------------------------------------------------- history is never changed (D7)
create function refuse_change() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$ begin
  raise exception using errcode = 'JY090', message = format('%s is history: it is never changed', tg_table_name),
    hint = 'Old partitions are removed as a whole by "jobyard db prune".';
end $$;
create trigger history before update or delete or truncate on jobs for each statement execute function refuse_change();
create trigger history before update or delete or truncate on attempts for each statement execute function refuse_change();
create trigger history before update or delete or truncate on job_events for each statement execute function refuse_change();
-- late_reports and reopened are not partitioned. Their rows go with their job's, and never before.
create function refuse_while_job_exists() returns trigger language plpgsql set search_path = jobyard, pg_catalog, pg_temp as $$ begin
  if exists (select from jobs where id = old.job_id) then
    raise exception using errcode = 'JY090', message = format('%s is history: it is never changed', tg_table_name),
      hint = 'The row goes when its job does, by "jobyard db prune".';
  end if;
  return old;
end $$;
create trigger history before update or truncate on late_reports for each statement execute function refuse_change();
create trigger history before update or truncate on reopened for each statement execute function refuse_change();
create trigger history_rows before delete on late_reports for each row execute function refuse_while_job_exists();
create trigger history_rows before delete on reopened for each row execute function refuse_while_job_exists();

-- ---------------------------------------------------------------- partitions
create function setting(name text) returns text language sql stable set search_path = jobyard, pg_catalog, pg_temp as $$
  select s.value from settings s where s.name = setting.name $$;

-- The partitions that exist, by the bounds of "jobs". The one of old unfinished jobs ("kept") begins at -infinity.
create view partitions as
select substr(c.relname, 6) as suffix,
  case when b.bound like 'FOR VALUES FROM (MINVALUE)%' then '-infinity'::timestamptz else jobyard.id_time(substring(b.bound from $x$FROM \('([0-9a-f-]{36})'\)$x$)::uuid) end as since,
  jobyard.id_time(substring(b.bound from $x$TO \('([0-9a-f-]{36})'\)$x$)::uuid) as until
from pg_catalog.pg_inherits i join pg_catalog.pg_class c on c.oid = i.inhrelid
  cross join lateral (select pg_catalog.pg_get_expr(c.relpartbound, c.oid) as bound) b
where i.inhparent = 'jobyard.jobs'::regclass;

-- One partition of each history table, for ids made in [since, until). Made as a table and attached: ATTACH takes SHARE UPDATE EXCLUSIVE on the parent,
-- so ticks and readers go on; CREATE … PARTITION OF would lock them out.
create function add_partition(since timestamptz, until timestamptz) returns text language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$
declare t text; p text; suffix text := to_char(since at time zone 'UTC', 'YYYYMMDD'); begin
  if since is distinct from date_trunc('day', since, 'UTC') or until is distinct from date_trunc('day', until, 'UTC') or since >= until then
    raise exception using errcode = 'JY002', message = format('since and until must be whole days of UTC, since before until: %s, %s', since, until),
      hint = 'Use jobyard.make_partitions(since, until).';
  end if;
  foreach t in array array['jobs', 'attempts', 'job_events'] loop
    p := t || '_' || suffix;
    execute format('create table jobyard.%I (like jobyard.%I including defaults including constraints including storage including compression)', p, t);
    execute format('alter table jobyard.%I set (autovacuum_freeze_min_age = 0, autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_vacuum_insert_threshold = 100000, autovacuum_analyze_scale_factor = 0.2)', p);
    execute format('create trigger history before update or delete or truncate on jobyard.%I for each statement execute function jobyard.refuse_change()', p);
    execute format('alter table jobyard.%I attach partition jobyard.%I for values from (%L) to (%L)', t, p, jobyard.id_floor(since), jobyard.id_floor(until));
  end loop;
  return suffix;
end $$;

-- Makes what is missing for ids made in [since, until]; days: length of a partition (null: setting partition_days). Returns how many were made.
-- Partitions begin at multiples of their length; where the length has changed, the gap beside older ones is filled with a shorter one.
create function make_partitions(since timestamptz, until timestamptz, days int default null) returns int language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$
declare step bigint; at timestamptz; next timestamptz; bound timestamptz; made int := 0; begin
  step := 86400 * coalesce(days, setting('partition_days')::int);
  if step not between 86400 and 86400 * 366::bigint then
    raise exception using errcode = 'JY002', message = format('partition_days must lie between 1 and 366, not %s', step / 86400), hint = 'About a thirtieth of retention_days.';
  end if;
  if until - since > interval '400 days' or until < since then
    raise exception using errcode = 'JY002', message = format('since and until must be at most 400 days apart: %s, %s', since, until), hint = 'The housekeeper needs a few weeks.';
  end if;
  perform pg_advisory_xact_lock(1247, -2);   -- two makers would both find the same gap
  at := to_timestamp(floor(extract(epoch from since) / step) * step);
  while at <= until loop
    select p.until into bound from partitions p where p.since <= at and at < p.until;
    if found then at := bound; continue; end if;
    next := to_timestamp(floor(extract(epoch from at) / step) * step + step);
    select least(next, min(p.since)) into next from partitions p where p.since > at;
    perform add_partition(at, next);
    made := made + 1;
    at := next;
  end loop;
  return made;
end $$;

-- ---------------------------------------------------------------- retention
create function unfinished(lo uuid, hi uuid) returns setof uuid language sql stable set search_path = jobyard, pg_catalog, pg_temp as $$
  select p.id from pending p where p.id >= lo and p.id < hi
  union select u from bundles b, unnest(b.job_ids) u where b.lo < unfinished.hi and b.hi >= unfinished.lo and u >= unfinished.lo and u < unfinished.hi
    and not exists (select from attempts a where a.job_id = u and a.fence = b.fence) $$;

-- The oldest partition of the three tables, in one transaction. Rows of unfinished jobs move to the *_kept partitions, whose range is everything older.
-- Returns how many jobs were kept. Gives up after 200 ms of waiting for a lock (55P03) rather than queueing in front of the ticks: the caller tries again later.
create function drop_partition(suffix text) returns bigint language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp set lock_timeout = '200ms' as $$
declare p partitions; t text; k text; hi uuid; keep uuid[]; first boolean; begin
  select * into p from partitions x where x.suffix = drop_partition.suffix;
  if not found or p.since = '-infinity' then
    raise exception using errcode = 'JY007', message = format('no partition "%s"', suffix), hint = 'See the view jobyard.partitions.';
  end if;
  if exists (select from partitions x where x.since < p.since and x.since > '-infinity') then
    raise exception using errcode = 'JY009', message = format('partition %s is not the oldest', suffix), hint = 'The oldest goes first.';
  end if;
  if p.until > clock_timestamp() - make_interval(days => setting('id_max_age_days')::int) then
    raise exception using errcode = 'JY009', message = format('partition %s is younger than id_max_age', suffix), hint = 'A duplicate could no longer be told.';
  end if;
  -- first the locks, then the look: what is retried by hand meanwhile has its jobs row read in its own transaction, and so waits, or is seen
  lock table only jobs, only attempts, only job_events in access exclusive mode;
  hi := id_floor(p.until);
  keep := array(select unfinished(id_floor(p.since), hi));
  foreach t in array array['jobs', 'attempts', 'job_events'] loop
    k := case t when 'jobs' then 'id' else 'job_id' end;
    first := to_regclass(t || '_kept') is null;
    execute format('alter table %I detach partition %I', t, t || '_' || suffix);
    if first then
      execute format('create table %I (like %I including defaults including constraints including storage including compression)', t || '_kept', t);
      execute format('create trigger history before update or delete or truncate on %I for each statement execute function refuse_change()', t || '_kept');
    else
      execute format('alter table %I detach partition %I', t, t || '_kept');
      execute format('alter table %I drop constraint if exists bound', t || '_kept');
    end if;
    if cardinality(keep) > 0 then
      execute format('insert into %I select * from %I where %I = any ($1)', t || '_kept', t || '_' || suffix, k) using keep;
    end if;
    execute format('alter table %I add constraint bound check (%I is not null and %I < %L)', t || '_kept', k, k, hi);
    execute format('alter table %I attach partition %I for values from (minvalue) to (%L)', t, t || '_kept', hi);
    execute format('drop table %I', t || '_' || suffix);
  end loop;
  delete from late_reports x where x.job_id >= id_floor(p.since) and x.job_id < hi and x.job_id <> all (keep);
  delete from reopened x where x.job_id >= id_floor(p.since) and x.job_id < hi and x.job_id <> all (keep);
  return cardinality(keep);
end $$;

-- Autovacuum never analyzes the parents of partitions; without it joins are estimated blindly.
create function analyze_history() returns void language plpgsql security definer set search_path = jobyard, pg_catalog, pg_temp as $$ begin analyze jobs, attempts, job_events; end $$;

select make_partitions(now() - make_interval(days => setting('id_max_age_days')::int), now() + interval '7 days');

-- down
drop function analyze_history, drop_partition, unfinished, make_partitions, add_partition;
drop view partitions;
drop trigger history_rows on late_reports;
drop trigger history_rows on reopened;
drop trigger history on late_reports;
drop trigger history on reopened;
drop trigger history on jobs;
drop trigger history on attempts;
drop trigger history on job_events;
do $$ declare p regclass; begin   -- the partitions go with their data
  for p in select inhrelid::regclass from pg_inherits where inhparent in ('jobyard.jobs'::regclass, 'jobyard.attempts'::regclass, 'jobyard.job_events'::regclass) loop
    execute format('drop table %s', p);
  end loop;
end $$;
drop function setting, refuse_while_job_exists, refuse_change, id_time, id_floor, jobyard.uuidv7(timestamptz);
