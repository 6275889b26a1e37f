-- up
-- Least rights. Members inherit rights, but not a role's settings: jit, statement_timeout and idle_in_transaction_session_timeout are to be set on each login role that reads.
alter default privileges for role jobyard_owner revoke execute on functions from public;
revoke all on schema jobyard from public;
revoke execute on all functions in schema jobyard from public;
grant usage on schema jobyard to jobyard_coordinator, jobyard_client, jobyard_operator, jobyard_auditor;

-- the coordinator: INSERT and SELECT on history, all on the hot tables
grant select on all tables in schema jobyard to jobyard_coordinator;
grant insert on jobs, attempts, job_events, late_reports, reopened, quarantine to jobyard_coordinator;
grant insert, update, delete on pending, bundles, running, agents, buckets, held_intake, commands to jobyard_coordinator;
grant insert, update on kinds, leases to jobyard_coordinator;
grant update on lanes to jobyard_coordinator;
grant execute on function find_jobs, id_floor, id_time, setting, jobyard.uuidv7(timestamptz), make_partitions, drop_partition, analyze_history to jobyard_coordinator;

-- the client: functions alone
grant execute on function submit, submit_many, cancel, retry, reschedule, command_answer, jobyard.uuidv7(timestamptz), id_floor, id_time to jobyard_client;

-- the auditor: views and find_jobs, which shows every submitter's jobs
grant select on job_states, job_status, attempt_history, job_timeline, stuck_jobs, lane_summary, agent_load, late_outcomes, partitions, alembic_version to jobyard_auditor;
grant execute on function find_jobs, id_floor, id_time to jobyard_auditor;

-- the operator: both of these, and what is declared
grant execute on function operate to jobyard_operator;
grant select, insert, update on lanes, kinds to jobyard_operator;
grant select on agents, settings to jobyard_operator;
grant insert on leases to jobyard_operator;
grant select, insert, update, delete on submitters to jobyard_operator;

-- down
revoke all on all tables in schema jobyard from jobyard_coordinator, jobyard_client, jobyard_operator, jobyard_auditor;
revoke all on all functions in schema jobyard from jobyard_coordinator, jobyard_client, jobyard_operator, jobyard_auditor;
revoke usage on schema jobyard from jobyard_coordinator, jobyard_client, jobyard_operator, jobyard_auditor;
alter default privileges for role jobyard_owner grant execute on functions to public;
grant execute on all functions in schema jobyard to public;
