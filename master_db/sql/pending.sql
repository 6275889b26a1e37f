-- name: read_due(lane_id, priority, kind_id, flow, after_at, after_id, until, most) -> DueRow
-- Read ahead what is due of one priority, kind and flow. Plan, made for these values: Index Scan pending_due for flow 0, else pending_flow; nothing filtered.
-- "told": attempt, used, interruptions, why, if it is not simply new. date_part, since extract goes by numeric, which is dear.
select ctid, id, date_part('epoch', run_at) as run_at,
  case when why = 'n' and attempt = 0 and used = 0 and interruptions = 0 then null else concat_ws(' ', attempt, used, interruptions, why) end as told
from jobyard.pending
where lane_id = $lane_id and priority = $priority and kind_id = $kind_id and flow = $flow and run_at <= $until::timestamptz
  and (run_at, id) > ($after_at::timestamptz, $after_id::uuid)
order by pending.run_at, pending.id limit $most;   -- qualified: the bare name is the number in the answer, by which no index is ordered

-- name: next_future(lane_id, priority, kind_id, flow, until) -> NextAt
select extract(epoch from run_at)::float8 as run_at from jobyard.pending
where lane_id = $lane_id and priority = $priority and kind_id = $kind_id and flow = $flow and run_at > $until::timestamptz and run_at < 'infinity'
order by pending.run_at limit 1;

-- name: look_fresh(lane_id, since, also) -> FreshRow
-- What others have committed since the last look (L23): `since` is that one's pg_snapshot_xmax, `also` its pg_snapshot_xip. One row without a
-- priority if there is nothing. The rows of the leader itself have xid 0. Plan: BitmapOr of pending_xid.
select pg_current_snapshot()::text as snapshot, f.priority::int as priority, f.kind_id, f.flow::int as flow, extract(epoch from f.run_at)::float8 as run_at
from (values (1)) as one(n) left join (
  select priority, kind_id, flow, min(run_at) as run_at from jobyard.pending
  where (xid >= $since::text::xid8 or xid = any ($also::text[]::xid8[])) and why in ('n', 'b') and lane_id = $lane_id group by priority, kind_id, flow) as f on true;

-- name: take_pending_at(places, ids) -> Taken
-- What this tick placed or ended leaves, by ctid. Exactly these must be there; else 1 / 0 fails the tick with 22012 (VACUUM FULL moved rows).
with gone as (delete from jobyard.pending where ctid = any ($places::tid[]) returning id)
select 1 / (count(*) = cardinality($ids::uuid[]) and coalesce(bool_and(id = any ($ids::uuid[])), true))::int as one from gone;

-- name: take_pending(ids) -> Taken
-- The same for those whose place is not known.
with gone as (delete from jobyard.pending where id = any ($ids::uuid[]) returning id)
select 1 / (count(*) = cardinality($ids::uuid[]))::int as one from gone;

-- name: pending_of(ids) -> PendingRow
select ctid, id, extract(epoch from run_at)::float8 as run_at, priority::int as priority, attempt::int as attempt, used::int as used,
  interruptions::int as interruptions, why::text as why, lane_id::int as lane_id, flow::int as flow
from jobyard.pending where id = any ($ids::uuid[]);

-- name: backlog(lane_id) -> Backlog
-- Which priorities, kinds and flows have rows, by skipping from one to the next in each index: reads one row for each.
with recursive pair as (
  (select priority, kind_id, run_at from jobyard.pending where lane_id = $lane_id and flow = 0 order by priority, kind_id, run_at, id limit 1)
  union all
  select n.priority, n.kind_id, n.run_at from pair p cross join lateral (
    select priority, kind_id, run_at from jobyard.pending where lane_id = $lane_id and flow = 0 and (priority, kind_id) > (p.priority, p.kind_id)
    order by priority, kind_id, run_at, id limit 1) n),
triple as (
  (select priority, kind_id, flow, run_at from jobyard.pending where lane_id = $lane_id and flow <> 0 order by priority, kind_id, flow, run_at, id limit 1)
  union all
  select n.priority, n.kind_id, n.flow, n.run_at from triple t cross join lateral (
    select priority, kind_id, flow, run_at from jobyard.pending where lane_id = $lane_id and flow <> 0 and (priority, kind_id, flow) > (t.priority, t.kind_id, t.flow)
    order by priority, kind_id, flow, run_at, id limit 1) n)
select priority::int as priority, kind_id, 0 as flow, extract(epoch from run_at)::float8 as run_at from pair where run_at < 'infinity'
union all
select priority::int, kind_id, flow::int, extract(epoch from run_at)::float8 from triple where run_at < 'infinity';
