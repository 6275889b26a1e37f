-- name: reopened_of(ids) -> ReopenedRow
-- The last retry by hand voids every final state before it.
select job_id, extract(epoch from max(at))::float8 as at, max(max_attempts)::int as bound from jobyard.reopened where job_id = any ($ids::uuid[]) group by job_id;
