-- up
-- How many attempts may count, for each job of the bundle: a take-over needs no look into "reopened" for it.
alter table bundles add column bounds smallint[] not null default '{}';
alter table bundles alter bounds set storage main;
-- Lanes whose leader has found that a command's job is not theirs. When all that are led have, the answer is "no such job" (L21).
alter table commands add column denied smallint[] not null default '{}';
-- Read-ahead is per priority and kind, so that a backlog that nobody can run hides nothing behind it.
drop index pending_due;
create index pending_due on pending (lane_id, priority, kind_id, run_at, id);

-- down
drop index pending_due;
create index pending_due on pending (lane_id, priority, run_at, id);
alter table commands drop column denied;
alter table bundles drop column bounds;
