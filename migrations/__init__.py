"""Alembic migrations of reviewed SQL: tables, functions, views and roles are made here only.

Each `versions/NNNN_pre_…` (runs before the new code) or `NNNN_post_…` (after the old code is gone) has an SQL file of the same name, with a
part `-- up` and a part `-- down`. All of it runs as `jobyard_owner`, with the schema `jobyard` as search path.
"""

from jobyard.migrations.running import current, downgrade, head, upgrade

__all__ = ["current", "downgrade", "head", "upgrade"]
