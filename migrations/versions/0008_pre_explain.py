"""Explaining, pausing and draining; how long jobs take outlives a leader."""

from jobyard.migrations.statements import run

revision = "0008"
down_revision: str | None = "0007"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
