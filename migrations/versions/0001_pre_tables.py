"""Tables: dictionaries, partitioned history, hot tables; the lane "default"."""

from jobyard.migrations.statements import run

revision = "0001"
down_revision: str | None = None


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
