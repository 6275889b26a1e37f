"""Partitions of the history: made ahead, protected, dropped."""

from jobyard.migrations.statements import run

revision = "0002"
down_revision: str | None = "0001"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
