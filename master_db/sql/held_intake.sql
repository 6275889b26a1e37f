-- name: hold_jobs(lane_id, ids, jobs)
insert into jobyard.held_intake (id, lane_id, job) select id, $lane_id::smallint, job::json from unnest($ids::uuid[], $jobs::text[]) as h(id, job)
on conflict (id) do update set tries = held_intake.tries + 1;

-- name: held_jobs(lane_id, most) -> HeldRow
-- Those tried least first, so that none hides behind others that stay locked.
select id, job::text as job from jobyard.held_intake where lane_id = $lane_id order by tries, since, id limit $most;

-- name: let_go(ids)
delete from jobyard.held_intake where id = any ($ids::uuid[]);

-- name: any_held(lane_id) -> AnyHeld
select exists (select from jobyard.held_intake where lane_id = $lane_id) as any;
