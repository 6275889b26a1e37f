-- name: revision_now() -> Revision
select version_num as revision from jobyard.alembic_version;

-- name: partitions_reach() -> Reach
select coalesce(max(until), '-infinity') >= now() + interval '1 day' as enough from jobyard.partitions;

-- name: server_settings() -> ServerSettings
select current_setting('server_version_num')::int as version, getdatabaseencoding()::text as encoding,
  extract(epoch from current_setting('autovacuum_naptime')::interval)::float8 as naptime_s, current_setting('autovacuum')::boolean as autovacuum;
