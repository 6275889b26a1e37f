"""How long tests wait."""

from typing import Final

PATIENCE_S: Final = 100.0
"""How long anything may take that should take a moment: machines under load are slow."""
LOOK_S: Final = 0.05
