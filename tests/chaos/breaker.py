"""Carries a plan out: one fault after the other, and what mends them."""

import os
import signal
import time
from collections import Counter
from functools import partial
from typing import Final

from faults.at_point import AtPoint
from faults.network import Network
from worlds.world import World

from chaos.disturbances import Disturbances
from chaos.lives import LOOK_S, Lives, Process
from chaos.plan import LOST_AFTER_S, Step
from chaos.timetable import Timetable
from jobyard.embedded.services import Services
from jobyard.process.points import Point

DELAY_S: Final = 0.2
JITTER_S: Final = 0.1


class Breaker:
    """Breaks processes, services and networks. `done`: how often each fault."""

    def __init__(
        self, world: World, services: Services, network: Network, lives: Lives, timetable: Timetable, disturbances: Disturbances
    ) -> None:
        self._world = world
        self._services = services
        self._network = network
        self._lives = lives
        self._timetable = timetable
        self._disturbances = disturbances
        self._kafka = "up"
        self.done: Counter[str] = Counter()

    def run(self, steps: list[Step], length_s: float) -> None:
        self._lives.start_missing()
        for step in steps:
            self._timetable.later(step.at_s - self._timetable.now, partial(self._do, step))
        while self._timetable.now < length_s:
            self._lives.look()
            time.sleep(LOOK_S)

    def recover(self) -> None:
        """All faults are over: everything that was begun is mended, everything is started again."""
        self._timetable.say("the faults are over")
        self._timetable.clear()
        self._network.mend()
        self._mend_kafka()
        self._lives.calm()

    # ---- one fault

    def _do(self, step: Step) -> None:
        why_not = self._hindrance(step)
        if why_not:
            self._timetable.say(f"({step}: {why_not})")
            return
        self._timetable.say(str(step))
        self.done[step.fault] += 1
        process = self._lives.get(step.target)
        if process is not None and step.fault != "replace":
            self._disturbances.note(step.target, step.lasts_s)
        match step.fault:
            case "kill" | "break at" | "terminate" | "pause" | "replace":
                assert process is not None
                self._of_process(step, process)
            case "drop" | "stall" | "delay" | "reset":
                self._of_network(step)
            case "kill Kafka":
                self._disturbances.note("", step.lasts_s + LOST_AFTER_S)
                self._services.kill_kafka()
                self._kafka = "killed"
                self._timetable.later(step.lasts_s, self._mend_kafka)
            case "pause Kafka":
                self._disturbances.note("", step.lasts_s)
                self._signal_kafka(signal.SIGSTOP)
                self._kafka = "paused"
                self._timetable.later(step.lasts_s, self._mend_kafka)
            case "crash Postgres":
                self._services.restart_postgres("immediate")
            case "restart Postgres":
                self._services.restart_postgres("fast")
            case "cut connections":
                self._world.rows(
                    "select count(pg_terminate_backend(pid)) from pg_stat_activity "
                    "where datname = current_database() and pid <> pg_backend_pid()"
                )
            case "make topic again":
                self._disturbances.note("", LOST_AFTER_S)
                self._world.destroy_topic(getattr(self._world.topics, step.target).name, may_end=self._world.names())

    def _hindrance(self, step: Step) -> str:
        """Why it cannot be done now; empty: it can."""
        process = self._lives.get(step.target)
        if process is not None:
            if process.process is None or process.ending:
                return "it is away"
            if process.paused and step.fault not in ("drop", "stall", "delay", "reset"):
                return "it is paused"
        if "Kafka" in step.fault or step.fault == "make topic again":
            return "" if self._kafka == "up" else f"Kafka is {self._kafka}"
        return ""

    def _of_process(self, step: Step, process: Process) -> None:
        process.back_after_s = step.lasts_s
        match step.fault:
            case "kill":
                self._lives.kill(process)
                self._timetable.later(step.lasts_s, partial(self._lives.start_if_away, process))
            case "break at":
                self._lives.kill(process)
                self._lives.start(process, AtPoint(Point(step.detail), "pause" if step.pauses else "kill", nth=step.nth))
            case "terminate":
                self._lives.end(process)
            case "pause":
                self._lives.pause(process, step.lasts_s)
            case _:
                self._disturbances.note(process.name, LOST_AFTER_S)
                self._lives.replace(process)

    def _of_network(self, step: Step) -> None:
        proxy = (self._network.kafka if step.detail == "kafka" else self._network.postgres)[step.target]
        match step.fault:
            case "drop":
                proxy.drop()
            case "stall":
                proxy.stall()
            case "delay":
                proxy.delay(DELAY_S, JITTER_S)
            case _:
                proxy.reset()
        if step.lasts_s:
            self._timetable.later(step.lasts_s, proxy.mend)

    # ---- Kafka

    def _signal_kafka(self, what: signal.Signals) -> None:
        pid = self._services.kafka.server.pid()
        assert pid is not None
        os.kill(pid, what)

    def _mend_kafka(self) -> None:
        if self._kafka == "killed":
            self._services.start_kafka()
        elif self._kafka == "paused":
            self._signal_kafka(signal.SIGCONT)
        if self._kafka != "up":
            self._disturbances.note("", LOST_AFTER_S)
        self._kafka = "up"
