"""What alembic runs around the versions: one connection, one upgrade at a time, everything made as `jobyard_owner`."""

from pathlib import Path

from alembic import context
from sqlalchemy import Connection

BOOTSTRAP = Path(__file__).parent / "versions" / "bootstrap.sql"


def run(connection: Connection) -> None:
    # Held until the session ends: two deployments that start together upgrade one after the other.
    connection.exec_driver_sql("select pg_advisory_lock(1247, -1)")
    connection.exec_driver_sql(BOOTSTRAP.read_text(encoding="utf-8"), execution_options={"no_parameters": True})
    connection.exec_driver_sql("set role jobyard_owner")
    connection.exec_driver_sql("set search_path = jobyard, pg_catalog")
    connection.exec_driver_sql("set lock_timeout = '10s'")
    connection.commit()
    context.configure(connection=connection, version_table_schema="jobyard", transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()
    connection.exec_driver_sql("reset role")


run(context.config.attributes["connection"])
