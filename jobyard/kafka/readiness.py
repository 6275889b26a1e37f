"""Whether a Kafka cluster answers."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient


def brokers(bootstrap_servers: str, *, timeout_s: float, options: Mapping[str, str | int | float | bool] | None = None) -> int:
    """How many brokers the cluster has, by a metadata call; 0 if nobody answers within `timeout_s`.

    Never raises for an unreachable cluster, and logs nothing.
    """
    quiet: dict[str, Any] = {"log_level": 0, "error_cb": _ignore, "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200}
    client = AdminClient({"bootstrap.servers": bootstrap_servers, **quiet, **(options or {})})
    try:
        return len(client.list_topics(timeout=timeout_s).brokers)
    except KafkaException:
        return 0


def _ignore(error: object) -> None:
    """An unreachable broker is an answer here, not an error."""
