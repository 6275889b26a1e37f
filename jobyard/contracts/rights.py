"""Who may what in Kafka: the least that each process can work with, as data. Nobody joins a group, and nobody needs a right on the cluster."""

import shlex
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from jobyard.contracts.topics import assigned_group, lane_topics

Process: TypeAlias = Literal["agent", "client", "coordinator"]
Operation: TypeAlias = Literal["Alter", "Create", "Delete", "Describe", "DescribeConfigs", "Read", "Write"]

_MADE: Final[tuple[Operation, ...]] = ("Create", "Describe", "DescribeConfigs")
"""The leader makes the lane's topics, and checks their settings."""


@dataclass(frozen=True)
class Right:
    """What may be done with one topic, or one group."""

    resource: Literal["topic", "group"]
    name: str
    operations: tuple[Operation, ...]


def rights_of(process: Process, namespace: str, lane: str) -> tuple[Right, ...]:
    """What a process of one lane may. Raises ValueError for a name that can't be.

    The client library asks about its group even when it never joins it: hence Describe on that name for who reads.
    """
    topics = lane_topics(namespace, lane)
    group = Right("group", assigned_group(namespace), ("Describe",))
    match process:
        case "client":
            return (Right("topic", topics.intake.name, ("Describe", "Write")),)
        case "agent":
            return (
                Right("topic", topics.reports.name, ("Describe", "Write")),
                Right("topic", topics.control.name, ("Describe", "Read")),
                Right("topic", topics.buckets.name, ("Describe", "Read")),
                group,
            )
        case "coordinator":
            return (
                Right("topic", topics.intake.name, (*_MADE, "Read", "Delete")),
                Right("topic", topics.reports.name, (*_MADE, "Read", "Delete")),
                Right("topic", topics.control.name, (*_MADE, "Write")),
                Right("topic", topics.buckets.name, (*_MADE, "Write", "Alter")),
                group,
            )


@dataclass(frozen=True)
class Grant:
    """A right, and who is to have it: "User:shop"."""

    principal: str
    right: Right

    def fields(self) -> dict[str, object]:
        """For programs."""
        return {
            "principal": self.principal,
            "resource": self.right.resource,
            "name": self.right.name,
            "operations": list(self.right.operations),
        }

    def as_call(self, servers: str) -> str:
        """The same as a call of Kafka's own tool. `admin.properties`: how the administrator logs in."""
        words = ["kafka-acls", "--bootstrap-server", servers, "--command-config", "admin.properties", "--add"]
        words += ["--allow-principal", self.principal]
        for operation in self.right.operations:
            words += ["--operation", operation]
        return shlex.join([*words, f"--{self.right.resource}", self.right.name])


def principal_of(given: str) -> str:
    """A principal as Kafka writes it; without a type it is a user. ValueError for what can be none, and for everybody ("*")."""
    kind, colon, name = given.partition(":")
    if not colon:
        kind, name = "User", given
    if not (kind.isalpha() and name and name == name.strip() and name.isprintable()) or name == "*":
        raise ValueError(f"principal {given!r} must be a user's name, or TYPE:NAME (User:shop), printable, and not everybody (*)")
    return f"{kind}:{name}"
