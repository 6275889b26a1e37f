-- All that the migrations make, a line each: two schemas are the same if these lines are.
select 'column ' || table_name || '.' || column_name || ' ' || udt_name || ' ' || is_nullable || ' ' || coalesce(column_default, '') as what
  from information_schema.columns where table_schema = 'jobyard' and table_name <> 'alembic_version'
union all select 'index ' || indexdef from pg_indexes where schemaname = 'jobyard'
union all select 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) from pg_constraint where connamespace = 'jobyard'::regnamespace
union all select 'function ' || oid::regprocedure || ' ' || md5(prosrc) || ' ' || prosecdef || ' ' || coalesce(proconfig::text, '') || ' ' || coalesce((select string_agg(a::text, ' ' order by a::text) from unnest(proacl) a), '') || ' '
  || proowner::regrole from pg_proc where pronamespace = 'jobyard'::regnamespace
union all select 'trigger ' || tgrelid::regclass || ' ' || pg_get_triggerdef(oid) from pg_trigger where tgrelid in (select oid from pg_class where relnamespace = 'jobyard'::regnamespace)
union all select 'relation ' || oid::regclass || ' ' || relkind::text || ' ' || coalesce(reloptions::text, '') || ' ' || coalesce((select string_agg(a::text, ' ' order by a::text) from unnest(relacl) a), '') || ' ' || relowner::regrole
  || ' ' || case when relkind = 'v' then md5(pg_get_viewdef(oid)) else '' end from pg_class where relnamespace = 'jobyard'::regnamespace
union all select 'type ' || typname || ' ' || (select string_agg(enumlabel, ',' order by enumsortorder) from pg_enum e where e.enumtypid = t.oid) from pg_type t where typnamespace = 'jobyard'::regnamespace and typtype = 'e'
union all select 'row ' || to_jsonb(s)::text from jobyard.settings s
union all select 'row ' || lane_id || lane from jobyard.lanes
order by 1
