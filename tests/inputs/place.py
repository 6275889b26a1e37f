"""One real coordinator and one agent that must not mind what is sent to them, and how the good jobs between go on."""

from collections.abc import Generator
from typing import NamedTuple

import pytest
from worlds.world import MakeWorld, World

from jobyard.contracts.ids import new_job_id
from jobyard.kafka.failures import KafkaFailure
from jobyard.kafka.producer import Producer, open_producer


class Row(NamedTuple):
    """What became of a message, or a part of one."""

    offset: int
    reason: str


class Place:
    """One leader and one agent for the whole module, and what is sent to them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.topic = world.topics.intake.name
        self.producer: Producer = open_producer(world.addresses.kafka_bootstrap_servers, {}, timeout_s=30.0)
        self.epoch = world.number("select epoch from jobyard.leases")
        self.good: list[str] = []

    def send(self, body: bytes | None) -> None:
        told: list[KafkaFailure | None] = []
        # None is a tombstone, which none of Jobyard's own producers sends
        self.producer.produce(self.topic, body, on_delivery=told.append)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - so it is
        assert self.producer.flush(30.0) == 0
        assert told == [None]

    def send_jobs(self, *jobs: bytes) -> None:
        self.send(b'{"v":1,"jobs":[' + b",".join(jobs) + b"]}")

    def good_job(self) -> bytes:
        """One that must succeed, whatever is beside it."""
        self.good.append(new_job_id())
        return b'{"kind":"tiny","args":{"n":1},"id":"%s"}' % self.good[-1].encode()

    def offset(self) -> int:
        """Of the next message."""
        return self.world.number("select (offsets -> %s ->> 'next')::bigint from jobyard.leases", self.topic)

    def read_up(self, offset: int) -> None:
        self.world.until(f"intake is read up to {offset}", lambda: self.offset() >= offset)

    def refusals(self, ids: list[str]) -> dict[str, tuple[str, str]]:
        """SQLSTATE and message of those that are refused."""
        rows = self.world.rows(
            "select job_id::text, error_type, error_message from jobyard.job_status where state = 'refused' and job_id = any (%s::uuid[])",
            ids,
        )
        return {row["job_id"]: (row["error_type"], row["error_message"]) for row in rows}

    def quarantined(self, since: int) -> list[Row]:
        rows = self.world.rows(
            'select "offset", reason from jobyard.quarantine where topic = %s and "offset" >= %s order by "offset", at', self.topic, since
        )
        return [Row(row["offset"], row["reason"]) for row in rows]

    def demand_that_it_led_on(self) -> None:
        """The good jobs have run, and nobody had to take over: no tick failed (L18), none outlasted its lease."""
        self.world.until(
            "the good jobs have succeeded",
            lambda: (
                self.world.number(
                    "select count(*) from jobyard.job_status where state = 'succeeded' and job_id = any (%s::uuid[])", self.good
                )
                == len(self.good)
            ),
        )
        assert self.world.number("select epoch from jobyard.leases") == self.epoch
        log = self.world.log_of("coordinator")
        assert not [line for line in log.splitlines() if "takes over again" in line or "Traceback" in line or "stumbled" in line]


@pytest.fixture(scope="module")
def module_place(module_world: MakeWorld) -> Generator[Place]:
    """One for all tests of a module."""
    with module_world() as world:
        world.coordinator("coordinator")
        world.agent("anna", slots=50)
        world.until_active("anna")
        made = Place(world)
        yield made
        made.producer.close(1.0)


@pytest.fixture
def place(module_place: Place) -> Generator[Place]:
    """The module's; after each test the same leader leads, and what was good has run."""
    yield module_place
    module_place.demand_that_it_led_on()
