-- The login roles of the coordinator and of the command line, with the passwords in /run/secrets. Runs at each `up`: a changed password is set then.
\set ON_ERROR_STOP on
\set coordinator `cat /run/secrets/coordinator`
\set operator `cat /run/secrets/operator`
-- no password in the server's log, not even if a statement fails
set log_statement = 'none';
set log_min_error_statement = 'panic';
select format('create role %I login in role %I', name, 'jobyard_' || name) from unnest(array['coordinator', 'operator']) as name
where not exists (select from pg_roles where rolname = name)
\gexec
alter role coordinator password :'coordinator';
alter role operator password :'operator';
-- whoever asks does not hold up the coordinator
alter role operator set jit = off;
alter role operator set idle_in_transaction_session_timeout = '30s';
