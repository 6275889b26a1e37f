"""How each fault is done to a world."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from jobyard.coordinator.simulation.plan import Fault
from jobyard.coordinator.simulation.violation import Killed
from jobyard.process.points import Point

if TYPE_CHECKING:
    from jobyard.coordinator.simulation.candidate import Candidate
    from jobyard.coordinator.simulation.world import World


@dataclass(slots=True)
class _Armed:
    point: Point
    fault: Fault


class Faults:
    """`done`: how often each kind was. A fault that finds nobody to be done to is not counted."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._armed: list[_Armed] = []
        self.done: Counter[str] = Counter()
        self.log: list[tuple[float, str]] = []
        self._ways: dict[str, Callable[[Fault], bool]] = {
            "leader dies at": self._arm,
            "leader pauses at": self._arm,
            "coordinator dies": self._coordinator_dies,
            "coordinator pauses": self._coordinator_pauses,
            "coordinator cut off": self._coordinator_cut,
            "commit fails": self._commit_fails,
            "database down": self._database_down,
            "database slow": self._database_slow,
            "database clock set": self._database_clock,
            "delivery fails": self._delivery_fails,
            "Kafka down": self._kafka_down,
            "messages repeated": self._repeated,
            "records gone": self._records_gone,
            "topic destroyed": self._topic_destroyed,
            "agent dies": self._agent_dies,
            "agent dies at": self._agent_dies_at,
            "agent pauses": self._agent_pauses,
            "agent freezes": self._agent_freezes,
            "agent pauses before a call": self._agent_pauses_before,
            "agent cut off": self._agent_cut,
            "agent slow": self._agent_slow,
            "agent's loop blocked": self._agent_blocked,
            "agent's clock set": self._agent_clock,
            "reports sent again": self._reports_again,
            "agent told to end": self._agent_told,
            "agent joins": self._agent_joins,
            "agent's name taken": self._name_taken,
            "cancel": self._command,
            "retry": self._command,
            "reschedule": self._command,
            "explain": self._command,
            "unknown job": self._unknown_job,
            "id held by a transaction": self._id_held,
            "lane paused": self._lane_paused,
            "kind paused": self._kind_paused,
            "agent drained": self._agent_drained,
        }

    def schedule(self, plan: list[Fault]) -> None:
        """Have them happen at their times."""
        for fault in plan:
            self._world.schedule.at(fault.at, partial(self._do, fault), f"fault {fault.kind}")

    def reached(self, point: Point, *facts: object) -> None:
        """The code that runs is at a point: whoever is to die or pause there does so."""
        actor = self._world.stage.actor
        if actor is None or not self._armed:
            return
        for armed in self._armed:
            if armed.point is point:
                break
        else:
            return
        self._armed.remove(armed)
        self._note(armed.fault)
        if armed.fault.kind == "leader dies at":
            actor.kill()
            self._world.schedule.after(armed.fault.seconds, actor.restart, "coordinator starts again")
            raise Killed
        actor.pause(armed.fault.seconds)
        actor.elapse(armed.fault.seconds)

    def end(self) -> None:
        """Nothing breaks any more."""
        self._armed.clear()

    def _do(self, fault: Fault) -> None:
        if self._ways[fault.kind](fault):
            self._note(fault)

    def _note(self, fault: Fault) -> None:
        self.done[fault.kind] += 1
        self.log.append((self._world.schedule.now, f"{fault.kind} {fault.detail} {fault.who} {fault.seconds:g} s"))

    # -- coordinators

    def _arm(self, fault: Fault) -> bool:
        self._armed.append(_Armed(Point[fault.detail], fault))
        return False

    def _coordinator_dies(self, fault: Fault) -> bool:
        world = self._world
        living = [one for one in world.candidates if one.alive]
        if not living:
            return False
        one = living[fault.who % len(living)]
        one.kill()
        world.schedule.after(fault.seconds, one.restart, "coordinator starts again")
        return True

    def _coordinator_pauses(self, fault: Fault) -> bool:
        self._candidate(fault).pause(fault.seconds)
        return True

    def _coordinator_cut(self, fault: Fault) -> bool:
        link = self._candidate(fault).link
        link.cut_until = max(link.cut_until, self._world.schedule.now + fault.seconds)
        return True

    def _delivery_fails(self, fault: Fault) -> bool:
        leading = [one.leading for one in self._world.candidates if one.leading is not None]
        if not leading:
            return False
        producer = leading[fault.who % len(leading)].producer
        producer.failing, producer.though_sent = 1 + fault.who % 4, fault.detail == "arrives"
        return True

    # -- services

    def _commit_fails(self, fault: Fault) -> bool:
        self._world.database.failing.append("before" if fault.detail == "before" else "after")
        return True

    def _database_down(self, fault: Fault) -> bool:
        self._world.database.down_until = self._world.schedule.now + fault.seconds
        return True

    def _database_slow(self, fault: Fault) -> bool:
        database = self._world.database
        database.slow_until, database.slow_s = self._world.schedule.now + fault.seconds, 0.3
        return True

    def _database_clock(self, fault: Fault) -> bool:
        self._world.database.skew += fault.seconds if fault.detail == "forward" else -fault.seconds
        return True

    def _kafka_down(self, fault: Fault) -> bool:
        self._world.broker.down_until = self._world.schedule.now + fault.seconds
        return True

    def _repeated(self, fault: Fault) -> bool:
        """The last records of a partition once more. Of a bucket only the very last: its producer is idempotent, so none comes again behind a later one."""
        topic = self._world.broker.topics[self._name(fault.detail)]
        number = fault.who % len(topic.partitions) if fault.detail == "buckets" else 0
        if fault.detail == "buckets":
            used = [n for n, partition in enumerate(topic.partitions) if partition.end]
            if not used:
                return False
            number = used[fault.who % len(used)]
        partition = topic.partitions[number]
        first = max(partition.first, partition.end - 1 - (0 if fault.detail == "buckets" else fault.who % 7))
        for value in [partition.record(offset)[0] for offset in range(first, partition.end)]:
            self._world.broker.append(topic.name, number, value)
        return True

    def _records_gone(self, fault: Fault) -> bool:
        for partition in self._world.broker.topics[self._name(fault.detail)].partitions:
            partition.delete_before(partition.end)
        return True

    def _topic_destroyed(self, fault: Fault) -> bool:
        self._world.broker.destroy(self._name(fault.detail))
        return True

    # -- agents

    def _agent_dies(self, fault: Fault) -> bool:
        worker = self._world.worker(fault.who)
        if worker is None:
            return False
        worker.kill()
        self._world.worker_later(worker, fault.seconds)
        return True

    def _agent_dies_at(self, fault: Fault) -> bool:
        worker = self._world.worker(fault.who)
        if worker is None:
            return False
        worker.killed_at = fault.detail
        self._world.worker_later(worker, fault.seconds)
        return True

    def _agent_pauses(self, fault: Fault) -> bool:
        worker = self._world.worker(fault.who)
        if worker is not None:
            worker.pause(fault.seconds)
        return worker is not None

    def _agent_freezes(self, fault: Fault) -> bool:
        worker = self._world.worker(fault.who)
        if worker is None or worker.standing:
            return False
        worker.pause(fault.seconds, frozen=True)
        return True

    def _agent_pauses_before(self, fault: Fault) -> bool:
        worker = self._world.worker(fault.who)
        if worker is not None:
            worker.handlers.between = lambda: worker.pause(fault.seconds)
        return worker is not None

    def _agent_cut(self, fault: Fault) -> bool:
        worker = self._world.worker(fault.who)
        if worker is not None:
            worker.link.cut_until = max(worker.link.cut_until, self._world.schedule.now + fault.seconds)
        return worker is not None

    def _agent_slow(self, fault: Fault) -> bool:
        worker = self._world.worker(fault.who)
        if worker is not None:
            worker.link.slow_until, worker.link.slow_s = self._world.schedule.now + fault.seconds, 1.5
        return worker is not None

    def _agent_blocked(self, fault: Fault) -> bool:
        worker = self._world.worker(fault.who)
        if worker is None:
            return False
        handlers = worker.handlers
        handlers.slow_s = fault.seconds

        def unblocked() -> None:
            handlers.slow_s = 0.0

        self._world.schedule.after(fault.seconds, unblocked, "loop goes on")
        return True

    def _agent_clock(self, fault: Fault) -> bool:
        worker = self._world.worker(fault.who)
        if worker is not None:
            worker.machine.skew += fault.seconds * 3 if fault.detail == "forward" else -fault.seconds * 3
        return worker is not None

    def _reports_again(self, fault: Fault) -> bool:
        worker = self._world.worker(fault.who)
        if worker is not None and not worker.standing:
            worker.outbox.renew()
        return worker is not None

    def _agent_told(self, fault: Fault) -> bool:
        worker = self._world.worker(fault.who)
        if worker is None:
            return False
        worker.terminate(fault.seconds)
        self._world.worker_later(worker, fault.seconds + 4.0)
        return True

    def _agent_joins(self, fault: Fault) -> bool:
        self._world.new_worker()
        return True

    def _name_taken(self, fault: Fault) -> bool:
        worker = self._world.worker(fault.who)
        if worker is not None:
            self._world.start_worker(worker.name, worker.kinds, worker.core.slots.capacity, worker.core.slots.slots)
        return worker is not None

    # -- people

    def _command(self, fault: Fault) -> bool:
        world = self._world
        known = sorted(world.database.tables.jobs)
        if not known or world.schedule.now < world.database.down_until:
            return False
        args: dict[str, object] = {} if fault.kind == "explain" else {"reason": "why not"}
        if fault.kind == "reschedule":
            args = {"run_at": round(world.database.now() + fault.seconds - 1.0, 6)} if fault.who % 3 else {"priority": "critical"}
        world.clients.command(fault.kind, known[fault.who % len(known)], args)
        return True

    def _unknown_job(self, fault: Fault) -> bool:
        """A job that is not there (yet)."""
        world = self._world
        later = [order for order in world.orders if order.at > world.schedule.now]
        if later:
            world.clients.command("cancel", later[fault.who % len(later)].job.id, {"reason": "early"})
        return bool(later)

    def _id_held(self, fault: Fault) -> bool:
        """A client's transaction has inserted an id that comes by Kafka, too, and ends later: either way (L2)."""
        world = self._world
        later = [order for order in world.orders if order.at > world.schedule.now and "kafka" in order.ways]
        if not later:
            return False
        job = later[fault.who % len(later)].job
        tables = world.database.tables
        if job.id in tables.locked or job.id in tables.jobs:
            return False
        tables.locked.add(job.id)

        def ends() -> None:
            tables.locked.discard(job.id)
            if fault.who % 2 and tables.submit(job):
                world.placements.wrote(job.id)

        world.schedule.after(fault.seconds, ends, "transaction ends")
        return True

    def _lane_paused(self, fault: Fault) -> bool:
        self._world.clients.mode("pause_lane")
        self._world.schedule.after(fault.seconds, lambda: self._world.clients.mode("resume_lane"), "lane resumed")
        return True

    def _kind_paused(self, fault: Fault) -> bool:
        self._world.clients.mode("pause_kind", kind=fault.detail)
        self._world.schedule.after(fault.seconds, lambda: self._world.clients.mode("resume_kind", kind=fault.detail), "kind resumed")
        return True

    def _agent_drained(self, fault: Fault) -> bool:
        worker = self._world.worker(fault.who)
        if worker is None:
            return False
        name = worker.name
        self._world.clients.mode("stop_agent" if fault.detail else "drain_agent", agent=name)
        self._world.schedule.after(fault.seconds, lambda: self._world.clients.mode("resume_agent", agent=name), "agent resumed")
        if fault.detail:
            self._world.worker_later(worker, fault.seconds + 5.0)
        return True

    # -- inside

    def _candidate(self, fault: Fault) -> "Candidate":
        return self._world.candidates[fault.who % len(self._world.candidates)]

    def _name(self, which: str) -> str:
        topics = self._world.topics
        return {"intake": topics.intake, "reports": topics.reports, "control": topics.control, "buckets": topics.buckets}[which].name
