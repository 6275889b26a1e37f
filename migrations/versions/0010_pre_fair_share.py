"""Fair share: submitters take turns, where a lane's setting says so."""

from jobyard.migrations.statements import run

revision = "0010"
down_revision: str | None = "0009"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
