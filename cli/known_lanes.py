"""Is there such a lane? Asked before anything is begun, and answered in the same words everywhere."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from jobyard.contracts.errors import ConfigurationError, InvalidJob, NotFound, ServiceUnavailable
from jobyard.contracts.rights import Process, rights_of
from jobyard.contracts.topics import problem_of_name

NO_LANE: Final = "JY006"
ASKING_S = 5.0
"""How long Kafka may take to say which topics it has."""


def absent(lane: str) -> str:
    """What to say of a lane that is not there."""
    return f"there is no lane {lane!r}: add it with `jobyard lane add {lane}`, or see `jobyard lane list`"


def demand_name(lane: str) -> None:
    """Raises ConfigurationError for what can be no lane's name."""
    problem = problem_of_name("lane", lane)
    if problem:
        raise ConfigurationError(problem)


@contextmanager
def demanded(lane: str) -> Generator[None]:
    """Around a command about the lane that goes to the Master DB. ConfigurationError for what can be no lane's name, NotFound if there is none."""
    demand_name(lane)
    try:
        yield
    except InvalidJob as error:
        if error.code == NO_LANE:
            raise NotFound(absent(lane)) from None
        raise


class KafkaLanes:
    """The lanes whose topics Kafka has. Each is asked for once; the client is opened when first needed.

    `process`: for what process that is asked. Only a topic that it may see anyway is looked at, and what it may not do there is an error.
    """

    def __init__(self, servers: str, options: Mapping[str, str], namespace: str, process: Process) -> None:
        self._servers = servers
        self._options = options
        self._namespace = namespace
        self._process: Process = process
        self._known: dict[str, bool] = {}

    def problem(self, lane: str) -> str | None:
        """What is wrong with the lane; None: nothing. ServiceUnavailable if Kafka does not answer, and then nothing was sent."""
        wrong = problem_of_name("lane", lane)
        if wrong:
            return wrong
        if lane not in self._known:
            self._known[lane] = self._asked(lane)
        return None if self._known[lane] else absent(lane)

    def demand(self, lane: str) -> None:
        """Raises NotFound for a lane that is not there; else as above."""
        demand_name(lane)
        wrong = self.problem(lane)
        if wrong:
            raise NotFound(wrong)

    def _asked(self, lane: str) -> bool:
        from jobyard.kafka.admin import Admin

        admin = Admin(self._servers, self._options, timeout_s=ASKING_S)
        rights = rights_of(self._process, self._namespace, lane)
        try:
            admin.demand(rights)
            return admin.partitions(rights[0].name) > 0
        except ServiceUnavailable as error:
            raise ServiceUnavailable(
                f"Kafka does not answer at {self._servers} (asked for {ASKING_S:g} s), so nothing was begun. Does it run? `jobyard dev status`; "
                f"JOBYARD_KAFKA_BOOTSTRAP_SERVERS says where it is. {error}"
            ) from None
        finally:
            admin.close()
