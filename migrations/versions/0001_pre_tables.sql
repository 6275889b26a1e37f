-- up
-- Order of columns: 16- and 8-byte ones first, then 4, 2, then variable: no padding.
create type job_state as enum ('pending', 'scheduled', 'blocked', 'retrying', 'placed', 'running', 'succeeded', 'failed', 'cancelled', 'expired', 'refused');
create type outcome as enum ('succeeded', 'failed', 'timed_out', 'crashed', 'cancelled', 'lost', 'interrupted', 'snoozed', 'released', 'superseded');

-- ---------------------------------------------------------------- dictionaries and settings: tens to thousands of rows
create table lanes (
  lane_id smallint primary key generated always as identity,
  lane text not null unique check (lane ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
  paused boolean not null default false,
  settings jsonb not null default '{}',
  created_at timestamptz not null default now()
);
-- The row that every tick updates. No index and no key: updated by ctid, so that row versions which a held snapshot keeps alive cost nothing (D5).
create table leases (
  lane_id smallint not null,
  epoch bigint not null default 0,
  fence bigint not null default 0,
  lease_until timestamptz not null default '-infinity',
  leader text,
  offsets jsonb not null default '{}'      -- {topic: {"id": topic id, "next": next offset to read}}
) with (vacuum_truncate = false, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);
create table kinds (
  kind_id int primary key generated always as identity,
  kind text not null unique check (kind ~ '^[!-~]{1,200}$'),
  declared boolean not null default true,  -- false: named by a job, or no longer declared by any code
  paused boolean not null default false,
  version smallint not null default 1 check (version > 0),
  lane_id smallint,
  priority smallint not null default 2 check (priority between 0 and 4),
  size_arg text,
  size float8 not null default 1 check (size > 0 and size <= 1e12),
  timeout_s float8 check (timeout_s > 0 and timeout_s <= 31622400),
  max_attempts smallint not null default 5 check (max_attempts between 1 and 1000),
  retry jsonb,
  tags jsonb,
  synced_at timestamptz not null default now()
);
create table submitters (role name not null, submitter text not null, primary key (role, submitter));   -- who may act for whom
create table settings (name text primary key, value text not null);

-- ---------------------------------------------------------------- history: append only, partitioned by the job's id
create table jobs (
  id uuid not null,
  created_at timestamptz not null default now(),
  run_at timestamptz not null,
  size float8 not null default 1,
  expires_at timestamptz,
  timeout_s float8,
  parent_id uuid,
  group_id uuid,
  kind_id int not null,
  lane_id smallint not null,
  priority smallint not null,
  max_attempts smallint not null,
  version smallint not null default 1,
  via "char" not null default 's',         -- s sql, k kafka, c schedule
  submitter text,
  unique_key text,
  schedule text,
  traceparent text,
  limits jsonb,
  tags jsonb,
  retry jsonb,
  args json not null,                      -- json, not jsonb: it is only passed on (D4)
  primary key (id)
) partition by range (id);
create table attempts (
  job_id uuid not null,
  fence bigint not null,
  placed_at timestamptz not null,
  started_at timestamptz,
  finished_at timestamptz not null,
  agent_id int not null,
  bucket int not null,
  kind_id int not null,
  outcome outcome not null,
  final job_state check (final in ('succeeded', 'failed', 'cancelled')),   -- the state that this row gave its job; null: it did not end it (D1)
  lane_id smallint not null,
  attempt smallint not null,
  used smallint not null default 1,
  error_type text,
  error_message text,
  error_traceback text,
  result json,
  reason jsonb,                            -- why the job was placed where it was
  primary key (job_id, attempt)
) partition by range (job_id);
create table job_events (
  job_id uuid not null,
  at timestamptz not null default now(),
  kind_id int not null,
  lane_id smallint not null,
  attempt smallint,
  used smallint not null default 0,
  event text not null,
  final job_state check (final in ('succeeded', 'failed', 'cancelled', 'expired', 'refused')),
  actor text,
  detail jsonb
) partition by range (job_id);
create table late_reports (
  job_id uuid not null,
  fence bigint not null,
  at timestamptz not null default now(),
  agent_id int not null,
  outcome outcome not null,
  closed_job boolean not null,
  error_type text,
  error_message text,
  result json,
  primary key (job_id, fence)
);
-- A final state older than this is void; max_attempts is the bound from then on.
create table reopened (job_id uuid not null, at timestamptz not null default now(), max_attempts smallint not null, actor text, primary key (job_id, at));
create table quarantine (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  lane_id smallint,
  topic text,
  part int,
  "offset" bigint,
  reason text not null,
  body bytea
);

-- ---------------------------------------------------------------- hot tables
create table pending (
  id uuid not null,
  run_at timestamptz not null,
  xid xid8 not null default pg_current_xact_id(),
  kind_id int not null,
  lane_id smallint not null,
  priority smallint not null,
  attempt smallint not null default 0,     -- number of the last attempt
  used smallint not null default 0,        -- attempts that counted against max_attempts
  interruptions smallint not null default 0,
  why "char" not null default 'n',         -- n new, r retry, s snoozed, l lost, b blocked (run_at = infinity), h retried by hand
  primary key (id)
) with (vacuum_truncate = false, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_threshold = 50000, autovacuum_analyze_scale_factor = 0);
create table bundles (
  fence bigint not null,
  placed_at timestamptz not null,
  lo uuid not null,                        -- smallest and largest id in it
  hi uuid not null,
  agent_id int not null,
  bucket int not null,
  kind_id int not null,
  lane_id smallint not null,
  priority smallint not null,
  job_ids uuid[] not null,                 -- the arrays have one element a job, in the same order
  attempts smallint[] not null,
  used smallint[] not null,
  interruptions smallint[] not null,
  careful boolean[] not null,              -- this attempt is the job's last allowed one
  reason jsonb,
  primary key (lane_id, fence)
) with (toast_tuple_target = 8160, vacuum_truncate = false, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);
alter table bundles alter job_ids set storage main, alter attempts set storage main, alter used set storage main, alter interruptions set storage main,
  alter careful set storage main;
create table running (
  job_id uuid primary key,
  fence bigint not null,
  started_at timestamptz not null,
  deadline timestamptz,
  progress_at timestamptz,
  done float8,
  total float8,
  agent_id int not null,
  kind_id int not null,
  lane_id smallint not null,
  attempt smallint not null,
  used smallint not null default 0,
  message text
) with (fillfactor = 60, vacuum_truncate = false, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);
create table agents (
  agent_id int primary key generated always as identity,   -- one for each incarnation
  incarnation uuid not null unique,
  started_at timestamptz not null default now(),
  heard_at timestamptz not null default now(),
  ended_at timestamptz,
  capacity float8 not null,
  lost_after_s float8 not null,            -- what this agent was told
  slots int not null,
  lane_id smallint not null,
  state text not null default 'active',
  name text not null,
  host text,
  kinds int[] not null,
  versions smallint[] not null             -- of the handlers, in the order of kinds
) with (fillfactor = 50, vacuum_truncate = false, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);
create table buckets (
  lane_id smallint not null,
  part int not null,
  agent_id int,
  priority smallint,
  topic_id text not null,
  start_offset bigint not null default 0,
  primary key (lane_id, part)
);
create table held_intake (id uuid primary key, lane_id smallint not null, tries int not null default 0, since timestamptz not null default now(), job json not null);
create table commands (
  command_id bigint primary key generated always as identity,
  at timestamptz not null default now(),
  xid xid8 not null default pg_current_xact_id(),
  job_id uuid,
  lane_id smallint,                        -- null: a job that no table knows yet; every leader looks
  verb text not null,
  actor text not null,
  args jsonb not null default '{}',
  answered_at timestamptz,
  code text,                               -- of an answer: null = done, else as the functions' errors (JY007 …)
  answer text
);

-- ---------------------------------------------------------------- indexes
create index pending_due on pending (lane_id, priority, kind_id, run_at, id);   -- read ahead by priority and kind; kind_id lies where padding was
create index pending_xid on pending (xid) where why in ('n', 'b');       -- what was committed since the last look (L23); what the leader itself puts back does not pay
create index pending_retry on pending (id) where why in ('r', 's', 'l');
create index pending_blocked on pending (id) where why = 'b';
create unique index agents_current on agents (lane_id, name) where ended_at is null;
create index commands_open on commands (lane_id, command_id) where answered_at is null;
create index attempts_bad on attempts (finished_at) where outcome <> 'succeeded';                  -- failures of a night by kind and error
create index attempts_failed on attempts (finished_at) where final <> 'succeeded';                 -- last failed jobs
create index attempts_failed_id on attempts (job_id) where final <> 'succeeded';                   -- pages of failed jobs
create index attempts_failed_kind on attempts (kind_id, job_id) where final <> 'succeeded';         -- … of a kind
create index attempts_finished on attempts using brin (finished_at) with (pages_per_range = 32, autosummarize = on);   -- a day, an hour, the last minute
create index jobs_kind on jobs using brin (kind_id int4_bloom_ops) with (pages_per_range = 16, autosummarize = on);     -- rare kinds
create index attempts_kind on attempts using brin (kind_id int4_bloom_ops) with (pages_per_range = 16, autosummarize = on);
create index jobs_submitter on jobs (submitter, id) where submitter is not null;
create index jobs_group on jobs (group_id, id) where group_id is not null;
create index jobs_unique_key on jobs (unique_key, id) where unique_key is not null;
create index jobs_tags on jobs using gin (tags jsonb_path_ops) where tags is not null;
create index events_job on job_events (job_id, at);
create index events_final on job_events (job_id) where final is not null;
create index events_cancel on job_events (job_id) where event = 'cancel_asked';                     -- take-over: cancels asked of open jobs

-- ---------------------------------------------------------------- first rows
insert into settings values ('partition_days', '3'), ('id_max_age_days', '7'), ('retention_days', '90'), ('max_args_bytes', '1048576');
with made as (insert into lanes (lane) values ('default') returning lane_id) insert into leases (lane_id) select lane_id from made;

-- down
drop table commands, held_intake, buckets, agents, running, bundles, pending, quarantine, reopened, late_reports, job_events, attempts, jobs, settings, submitters, kinds, leases, lanes;
drop type outcome, job_state;
