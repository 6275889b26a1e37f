-- name: find_lane(lane) -> LaneNumber
select lane_id from jobyard.lanes where lane = $lane;

-- name: all_lanes() -> LaneName
select lane from jobyard.lanes order by lane;

-- name: leaders(longest_s, tick_s) -> LaneLed
-- Who leads each lane, by the database's clock; nobody also if that was set back since, so that the lease lies further ahead than any is taken for.
-- Nor anybody who has taken a lane for longer than a tick does, and has died since.
select lane, case when lease_until > clock_timestamp() and lease_until <= clock_timestamp() + make_interval(secs => $longest_s::float8)
  and not (lease_until > clock_timestamp() + make_interval(secs => $tick_s::float8)
    and exists (select from jobyard.coordinators c where c.coordinator::text = leader and c.seen_until <= clock_timestamp())) then leader end as leader
from jobyard.lanes join jobyard.leases using (lane_id) order by lane;

-- name: be_alive(coordinator, host, wanted, unable, alive_s)
-- Rows of those that died are swept by whoever is alive; one that was paused says anew since when it is there.
with swept as (delete from jobyard.coordinators where coordinator <> $coordinator::uuid and seen_until < clock_timestamp() - interval '1 minute')
insert into jobyard.coordinators as c (coordinator, seen_until, host, wanted, unable)
values ($coordinator::uuid, clock_timestamp() + make_interval(secs => $alive_s::float8), $host, $wanted::text[], $unable::text[])
on conflict (coordinator) do update set seen_until = excluded.seen_until, wanted = excluded.wanted, unable = excluded.unable,
  started_at = case when c.seen_until < clock_timestamp() then clock_timestamp() else c.started_at end;

-- name: peers(settled_s) -> PeerRow
select coordinator, wanted, unable, started_at <= clock_timestamp() - make_interval(secs => $settled_s::float8) as settled
from jobyard.coordinators where seen_until > clock_timestamp() order by started_at, coordinator;

-- name: be_gone(coordinator)
delete from jobyard.coordinators where coordinator = $coordinator::uuid;

-- name: modes_of_lane(lane_id) -> ModesRow
-- What operators have set: read at the take-over, and when a command tells that it has changed.
select l.paused, l.fair_share, array(select k.kind from jobyard.kinds k where k.paused) as paused_kinds,
  array(select d.name from jobyard.drains d where d.lane_id = l.lane_id order by d.name) as drained,
  array(select d.stop from jobyard.drains d where d.lane_id = l.lane_id order by d.name) as stops
from jobyard.lanes l where l.lane_id = $lane_id;

-- name: end_drain(lane_id, name)
delete from jobyard.drains where lane_id = $lane_id and name = $name;
