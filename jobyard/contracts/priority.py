"""Priorities: five names for people and the wire, 0 (critical) to 4 (very_low) in the database and in the core."""

from typing import Literal

PriorityName = Literal["critical", "high", "medium", "low", "very_low"]

NAMES: tuple[PriorityName, ...] = ("critical", "high", "medium", "low", "very_low")
NUMBERS: dict[str, int] = {name: number for number, name in enumerate(NAMES)}
PRIORITIES = range(len(NAMES))
MEDIUM = NUMBERS["medium"]
