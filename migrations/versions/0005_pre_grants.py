"""What each role may do."""

from jobyard.migrations.statements import run

revision = "0005"
down_revision: str | None = "0004"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
