-- name: all_kinds() -> KindRow
select kind_id, kind, version::int as version, priority::int as priority, size_arg, size, timeout_s, max_attempts::int as max_attempts, retry::text as retry, tags::text as tags
from jobyard.kinds;

-- name: some_kinds(names, numbers) -> KindRow
select kind_id, kind, version::int as version, priority::int as priority, size_arg, size, timeout_s, max_attempts::int as max_attempts, retry::text as retry, tags::text as tags
from jobyard.kinds where kind = any ($names::text[]) or kind_id = any ($numbers::int[]);

-- name: meet_kinds(names)
-- A kind that a job names and no code has declared gets the general defaults.
insert into jobyard.kinds (kind, declared) select n, false from unnest($names::text[]) n on conflict do nothing;
