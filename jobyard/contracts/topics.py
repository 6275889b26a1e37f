"""The four topics of a lane: names and settings. A topic that is otherwise is an error that names the mend."""

import re
from dataclasses import dataclass

from jobyard.contracts.job_fields import shown

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")

MAX_MESSAGE_BYTES = 4_194_304
KEPT_MS = 3_600_000
"""Buckets and control are kept for an hour: nobody reads older messages (the leader sends again what is open)."""
BUCKETS_ADDED = 50
"""Partitions by which a full buckets topic grows: ten agents' worth."""


def problem_of_name(what: str, name: str) -> str | None:
    """What is wrong with the name of a lane or namespace; None: nothing."""
    if _NAME.fullmatch(name):
        return None
    return f"{what} {shown(name)} must be 1 to 63 lower-case letters, digits or hyphens, with no hyphen at either end"


@dataclass(frozen=True)
class Topic:
    """One topic with the settings that it must have. `partitions`: exactly, or at least if `grows`."""

    name: str
    partitions: int
    grows: bool
    settings: dict[str, str]


@dataclass(frozen=True)
class LaneTopics:
    """The topics of one lane."""

    intake: Topic
    reports: Topic
    control: Topic
    buckets: Topic

    def all(self) -> tuple[Topic, Topic, Topic, Topic]:
        """In the order in which they are created."""
        return self.intake, self.reports, self.control, self.buckets


def lane_topics(namespace: str, lane: str) -> LaneTopics:
    """The topics of a lane. Raises ValueError for a name that Kafka or people could misread."""
    for what, name in (("namespace", namespace), ("lane", lane)):
        problem = problem_of_name(what, name)
        if problem:
            raise ValueError(problem)
    common = {"max.message.bytes": str(MAX_MESSAGE_BYTES), "cleanup.policy": "delete", "retention.bytes": "-1"}
    # Intake and reports have no retention: the leader deletes what it has committed (L20). Their time is the broker's: a producer's may be wrong (L19).
    forever = common | {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}
    hour = common | {"retention.ms": str(KEPT_MS)}
    return LaneTopics(
        intake=Topic(f"{namespace}.{lane}.intake", 1, False, forever),
        reports=Topic(f"{namespace}.{lane}.reports", 1, False, forever),
        control=Topic(f"{namespace}.{lane}.control", 1, False, hour),
        buckets=Topic(f"{namespace}.{lane}.buckets", BUCKETS_ADDED, True, hour),
    )


def assigned_group(namespace: str) -> str:
    """The group's name that the client library insists on. Nobody ever joins it."""
    return f"{namespace}.assigned"
