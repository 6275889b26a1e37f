-- Roles and schema. Runs before every upgrade, does only what is missing. Needs a role that may create roles, or roles that an administrator has made before.
do $$
declare r text;
begin
  foreach r in array array['jobyard_owner', 'jobyard_coordinator', 'jobyard_client', 'jobyard_operator', 'jobyard_auditor'] loop
    if not exists (select from pg_catalog.pg_roles where rolname = r) then
      execute format('create role %I nologin', r);
    end if;
  end loop;
  -- an operator is a client and an auditor, too
  foreach r in array array['jobyard_client', 'jobyard_auditor'] loop
    if not pg_catalog.pg_has_role('jobyard_operator', r, 'member') then
      execute format('grant %I to jobyard_operator', r);
    end if;
  end loop;
  -- the migrating role must be able to become the owner; from PostgreSQL 16 on, being a member is not enough
  if not (select rolsuper from pg_catalog.pg_roles where rolname = current_user)
     and not pg_catalog.pg_has_role(current_user, 'jobyard_owner', case when current_setting('server_version_num')::int >= 160000 then 'SET' else 'MEMBER' end) then
    execute format('grant jobyard_owner to %I', current_user);
  end if;
  if not exists (select from pg_catalog.pg_namespace where nspname = 'jobyard') then
    create schema jobyard authorization jobyard_owner;
  end if;
end $$;
