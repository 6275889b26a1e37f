"""Functions for any language: submit, commands, their rules."""

from jobyard.migrations.statements import run

revision = "0003"
down_revision: str | None = "0002"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
