-- name: finals_of(ids, low, high) -> FinalRow
select job_id, extract(epoch from at)::float8 as at, final::text as final, used::int as used from jobyard.job_events
where job_id = any ((select $ids::uuid[])::uuid[]) and job_id between $low::uuid and $high::uuid and final is not null;

-- name: cancels_of(ids, low, high) -> CancelRow
select job_id, coalesce((detail ->> 'fence')::bigint, 0) as fence, coalesce(detail ->> 'reason', '') as reason from jobyard.job_events
where job_id = any ((select $ids::uuid[])::uuid[]) and job_id between $low::uuid and $high::uuid and event = 'cancel_asked' order by at;
