"""Numbers as people type them."""

import typer

from jobyard.contracts.job import shown


def number(text: str) -> float:
    """Any number."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{shown(text)} must be a number") from None


def whole(text: str) -> int:
    """A whole number, written without a point."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{shown(text)} must be a whole number") from None
