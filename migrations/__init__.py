"""Alembic migrations of reviewed SQL: tables, functions, views and roles are made here only."""
