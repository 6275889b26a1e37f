"""Explaining; how long jobs take outlives a leader."""

from jobyard.migrations.statements import run

revision = "0009"
down_revision: str | None = "0008"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
