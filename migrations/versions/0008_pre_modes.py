"""Lanes and kinds that are paused, agents that are drained, and the coordinators that are alive, among whom lanes are shared out."""

from jobyard.migrations.statements import run

revision = "0008"
down_revision: str | None = "0007"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
