#!/bin/bash
# POSTGRES_USER (postgres), POSTGRES_DB (the user's name), POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE, POSTGRES_INITDB_ARGS count at the first start,
# as do *.sql and *.sh in /docker-entrypoint-initdb.d. Options go to the server.
set -euo pipefail
if [ "${1#-}" != "${1:-}" ]; then set -- postgres "$@"; fi
if [ "${1:-}" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
  user=${POSTGRES_USER:-postgres} database=${POSTGRES_DB:-${POSTGRES_USER:-postgres}}
  if [ -n "${POSTGRES_PASSWORD_FILE:-}" ]; then POSTGRES_PASSWORD=$(<"$POSTGRES_PASSWORD_FILE"); fi
  : "${POSTGRES_PASSWORD:?is needed at the first start: the password of $user}"
  install -d -m 700 "$PGDATA"
  # shellcheck disable=SC2086  several options
  initdb -D "$PGDATA" -U "$user" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") --auth-local=trust --auth-host=trust -E UTF8 ${POSTGRES_INITDB_ARGS:-}
  echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
  echo "listen_addresses = '*'" >> "$PGDATA/postgresql.conf"
  pg_ctl -D "$PGDATA" -o "-c listen_addresses=''" -w start
  if [ "$database" != postgres ]; then createdb -U "$user" "$database"; fi
  shopt -s nullglob
  for file in /docker-entrypoint-initdb.d/*; do
    case $file in
      *.sh) bash "$file" ;;
      *.sql) psql -v ON_ERROR_STOP=1 -U "$user" -d "$database" -f "$file" ;;
    esac
  done
  pg_ctl -D "$PGDATA" -m fast -w stop
fi
unset POSTGRES_PASSWORD
exec "$@"
