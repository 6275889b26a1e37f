"""The housekeeper forgets: what was quarantined, and agents that nothing names any more."""

from jobyard.migrations.statements import run

revision = "0007"
down_revision: str | None = "0006"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
