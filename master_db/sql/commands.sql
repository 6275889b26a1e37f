-- name: open_commands(lane_id) -> CommandRow
-- What nobody has answered and this lane has not denied. One about a held job waits until that job is in, or is not.
-- "denied": this lane has, and so has every other that is led by now, since a leader that was waited for is gone (L21).
select command_id, verb, actor, extract(epoch from at)::float8 as asked_at, job_id, args, $lane_id::smallint = any (denied) as denied
from jobyard.commands c
where answered_at is null and (lane_id = $lane_id::smallint or lane_id is null)
  and (not $lane_id::smallint = any (denied) or not exists (select from jobyard.leases l where l.lease_until > clock_timestamp()
    and not l.lane_id = any (c.denied) and (c.lane_id is null or c.lane_id = l.lane_id)))
  and not exists (select from jobyard.held_intake h where h.id = c.job_id)
order by command_id limit 1000;

-- name: answer_command(command_id, code, answer)
update jobyard.commands set answered_at = clock_timestamp(), code = $code, answer = $answer where command_id = $command_id and answered_at is null;

-- name: relabel_command(command_id, lane_id)
-- Its job is another lane's.
update jobyard.commands set lane_id = $lane_id::smallint where command_id = $command_id and lane_id is distinct from $lane_id::smallint and answered_at is null;

-- name: deny_command(command_id, lane_id, answer)
-- The last of the lanes that are led answers (L21).
update jobyard.commands c set denied = c.denied || $lane_id::smallint, (answered_at, code, answer) = (
  select case when last then clock_timestamp() end, case when last then 'JY007' end, case when last then $answer end
  from (select not exists (select from jobyard.leases l where l.lease_until > clock_timestamp() and l.lane_id <> $lane_id::smallint
    and not l.lane_id = any (c.denied) and (c.lane_id is null or c.lane_id = l.lane_id)) as last) d)
where c.command_id = $command_id and c.answered_at is null;

-- name: settle_denied(command_ids, answer)
-- Commands that a lane had denied when others had yet to look, and no lane that is led has yet to look now (L21).
update jobyard.commands c set answered_at = clock_timestamp(), code = 'JY007', answer = $answer
where command_id = any ($command_ids::bigint[]) and answered_at is null and cardinality(denied) > 0
  and not exists (select from jobyard.leases l where l.lease_until > clock_timestamp()
    and not l.lane_id = any (c.denied) and (c.lane_id is null or c.lane_id = l.lane_id));
