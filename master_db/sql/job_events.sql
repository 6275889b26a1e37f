-- name: finals_of(ids, low, high) -> FinalRow
select job_id, extract(epoch from at)::float8 as at, final::text as final, used::int as used from jobyard.job_events
where job_id = any ((select $ids::uuid[])::uuid[]) and job_id between $low::uuid and $high::uuid and final is not null;

-- name: cancels_of(ids, low, high) -> CancelRow
select job_id, coalesce((detail ->> 'fence')::bigint, 0) as fence, coalesce(detail ->> 'reason', '') as reason from jobyard.job_events
where job_id = any ((select $ids::uuid[])::uuid[]) and job_id between $low::uuid and $high::uuid and event = 'cancel_asked' order by at;

-- name: note_repairs(lane_id, job_ids, low, high, at, detail)
-- What an agent should not hold may be another lane's job, or none at all: then there is nothing to note.
insert into jobyard.job_events (job_id, at, kind_id, lane_id, event, detail)
select j.id, $at::timestamptz, j.kind_id, j.lane_id, 'repaired', $detail::jsonb from jobyard.jobs j
where j.id = any ((select $job_ids::uuid[])::uuid[]) and j.id between $low::uuid and $high::uuid and j.lane_id = $lane_id::smallint;
