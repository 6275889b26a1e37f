"""The public views, and find_jobs for lists."""

from jobyard.migrations.statements import run

revision = "0004"
down_revision: str | None = "0003"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
