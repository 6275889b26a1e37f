"""What is submitted while faults happen."""

import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import psycopg
from promises import mixed_jobs
from worlds.world import World

from jobyard import JobRequest, ServiceUnavailable

ENDS_WITHIN_S: Final = 300.0
"""A submission under way, once all faults are over."""

Ways: TypeAlias = dict[str, Callable[[list[JobRequest[Any]]], object]]


class Load:
    """Submits mixed jobs by all ways, in a thread, until it is stopped; what a service did not take for sure is submitted again, by the same id."""

    def __init__(self, world: World, seed: int, rate: float) -> None:
        self._world = world
        self._rng = random.Random(seed)
        self._rate = rate
        self._stop = threading.Event()
        self.error: BaseException | None = None
        self.again = 0
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(ENDS_WITHIN_S)
        if self._thread.is_alive():
            raise TimeoutError("a submission does not end")

    def _run(self) -> None:
        ways: Ways = {
            "kafka": mixed_jobs.app.submit_many,
            "bulk": mixed_jobs.app.submit_many,
            "transaction": self._in_a_transaction,
            "one by one": lambda requests: [request.submit() for request in requests],
        }
        try:
            while not self._stop.wait(0.5):
                way = self._rng.choice(tuple(ways))
                requests = self._world.mixed(max(1, round(self._rate * 0.5)), via="kafka" if way == "kafka" else "sql")
                while not self._accepted(ways[way], requests):
                    self.again += 1
                    time.sleep(0.3)
        except BaseException as error:
            self.error = error

    @staticmethod
    def _accepted(way: Callable[[list[JobRequest[Any]]], object], requests: list[JobRequest[Any]]) -> bool:
        try:
            way(requests)
        except (ServiceUnavailable, psycopg.OperationalError):
            return False
        return True

    @staticmethod
    def _in_a_transaction(requests: list[JobRequest[Any]]) -> None:
        with psycopg.connect(os.environ["JOBYARD_DATABASE_URL"]) as connection:
            mixed_jobs.app.submit_many(requests, connection=connection)
