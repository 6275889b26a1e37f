"""What one lane's store needs: bounds of placed jobs, who has denied a command, the due index by kind."""

from jobyard.migrations.statements import run

revision = "0006"
down_revision: str | None = "0005"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
