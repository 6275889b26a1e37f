"""A topic as it is, compared with what it must be: what is wrong, in words that name the mend. Pure."""

from dataclasses import dataclass

from jobyard.contracts.topics import Topic


@dataclass(frozen=True)
class Described:
    """A topic as the brokers describe it."""

    name: str
    topic_id: str
    partitions: int
    settings: dict[str, str]


def problems_of(wanted: Topic, found: Described | None, bootstrap: str) -> list[str]:
    """What is wrong with the topic found (None: there is none), a sentence each; empty: all is well."""
    if found is None:
        return [f"topic {wanted.name} does not exist: run `jobyard topics create{_lane(wanted.name)}`"]
    problems: list[str] = []
    if wanted.grows and found.partitions < wanted.partitions:
        problems.append(
            f"topic {wanted.name} has {found.partitions} partitions, and must have at least {wanted.partitions}: run "
            f"`kafka-topics --bootstrap-server {bootstrap} --alter --topic {wanted.name} --partitions {wanted.partitions}`"
        )
    if not wanted.grows and found.partitions != wanted.partitions:
        problems.append(
            f"topic {wanted.name} has {found.partitions} partitions, and must have exactly {wanted.partitions}: stop what uses the lane, "
            f"run `kafka-topics --bootstrap-server {bootstrap} --delete --topic {wanted.name}`, then `jobyard topics create{_lane(wanted.name)}`"
        )
    for setting, value in wanted.settings.items():
        has = found.settings.get(setting)
        if has != value:
            problems.append(
                f"topic {wanted.name} has {setting}={has}, and must have {value}: run `kafka-configs --bootstrap-server {bootstrap} --alter "
                f"--entity-type topics --entity-name {wanted.name} --add-config {setting}={value}`"
            )
    return problems


def _lane(topic: str) -> str:
    parts = topic.split(".")
    return f" --lane {parts[1]}" if len(parts) == 3 else ""
