"""Bad messages from the leader's side, on a real agent: it lives, starts nothing that it should not, says little of it, and goes on with good ones."""

import logging
import time
from collections.abc import Generator, Iterable
from typing import Any

import agent_jobs
import msgspec
import pytest
from agent_leader import Leader
from confluent_kafka import Producer
from inputs import hostile
from inputs.hostile import Json

from jobyard.agent.main import AgentPlan, AgentProcess
from jobyard.contracts import codec
from jobyard.contracts.control import Bucket, Confirm, Welcome
from jobyard.contracts.ids import new_job_id
from jobyard.contracts.job import Job
from jobyard.contracts.states import Outcome
from jobyard.embedded.services import Addresses

PATIENCE_S = 60.0
NAME = "besieged"


class Siege:
    """A real agent, its scripted leader, and somebody with the leader's right to write."""

    def __init__(self, servers: str, namespace: str) -> None:
        self.leader = Leader(servers, namespace, lost_after_s=60.0)
        self.agent = AgentProcess(
            AgentPlan(app=agent_jobs.app, bootstrap_servers=servers, namespace=namespace, slots=4, name=NAME, grace_s=5.0)
        )
        self._producer = Producer({"bootstrap.servers": servers, "message.max.bytes": 4_194_304, "linger.ms": 5})
        self.agent.start()
        self.life = self.leader.incarnation()

    def close(self) -> None:
        self.agent.terminate()
        self.agent.terminate()
        assert self.agent.ended(PATIENCE_S)
        self.leader.close()

    def control(self, values: Iterable[bytes | None]) -> None:
        self._send(self.leader.topics.control.name, 0, values)

    def bucket(self, values: Iterable[bytes | None], partition: int = 2) -> None:
        self._send(self.leader.topics.buckets.name, partition, values)

    def _send(self, topic: str, partition: int, values: Iterable[bytes | None]) -> None:
        failed: list[object] = []

        def told(error: object, message: object) -> None:
            if error is not None:
                failed.append(error)

        for value in values:
            self._producer.produce(topic, value, partition=partition, on_delivery=told)
            self._producer.poll(0)
        assert self._producer.flush(60) == 0
        assert failed == []

    def is_well(self) -> None:
        """A good job runs and ends, and nothing has started that was not meant to."""
        (job,) = self.leader.place(self.life, ["quick"])
        self.leader.until(lambda: job in self.leader.ends(), PATIENCE_S)
        assert self.leader.ends()[job].outcome is Outcome.SUCCEEDED
        assert not self.agent.ended(0)
        assert self.leader.incarnation() == self.life

    def bundle(self, **more: object) -> Json:
        return {
            "v": 1,
            "epoch": 1,
            "fence": 10_000,
            "agent": NAME,
            "incarnation": self.life,
            "bucket": 2,
            "jobs": [{"id": new_job_id(), "kind": "quick"}],
            "attempts": [1],
            "used": [0],
        } | more

    def message(self, kind: str, **more: object) -> Json:
        return {"type": kind, "v": 1, "epoch": 1, "agent": NAME, "incarnation": self.life} | more


@pytest.fixture
def siege(services: Addresses, namespace: str) -> Generator[Siege]:
    made = Siege(services.kafka_bootstrap_servers, namespace)
    yield made
    made.close()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING and record.name.startswith("jobyard.agent")
    ]


def jobs_with(**fields: object) -> list[Json]:
    return [{"id": new_job_id(), "kind": "quick"} | fields]


def test_bad_bundles_start_nothing(siege: Siege, caplog: pytest.LogCaptureFixture) -> None:
    good = siege.bundle()
    bad: list[bytes | None] = [None, *hostile.truncated(hostile.text(good)), *hostile.no_message(good)]
    wrongs: list[Json] = [
        {"epoch": 2**62},
        {"fence": 2**63 - 1},
        {"bucket": 3},  # in partition 2
        {"bucket": 10**9},
        {"attempts": []},
        {"attempts": [0]},
        {"attempts": [1, 2]},
        {"careful": [True, False]},
        {"jobs": jobs_with(id="no id")},
        {"jobs": jobs_with(id="x" * 10_000)},
        {"jobs": jobs_with(size=-5)},
        {"jobs": jobs_with(size=0)},
        {"jobs": jobs_with(size=1e300)},
        {"jobs": jobs_with(timeout_s=-1)},
        {"jobs": jobs_with(timeout_s=1e300)},
        {"jobs": jobs_with(priority=99)},
        {"jobs": jobs_with(max_attempts=0)},
        {"jobs": jobs_with(version=0)},
        {"jobs": jobs_with(kind="")},
        {"jobs": jobs_with(kind="k" * 10_000)},
        {"jobs": jobs_with(retry={"backoff": "no such"})},
        {"jobs": jobs_with(tags=[1])},
        {"jobs": jobs_with() * 2, "attempts": [1, 1], "used": [0, 0]},  # one twice: it would run twice
        {"open": [-1]},
        {"agent": "another"},
        {"incarnation": new_job_id()},
    ]
    bad += [hostile.text(siege.bundle(**wrong)) for wrong in wrongs]
    for path in (("epoch",), ("fence",), ("jobs", 0, "size"), ("attempts", 0)):
        bad += [hostile.with_raw(siege.bundle(jobs=jobs_with(size=1)), path, raw) for raw in ("NaN", "1e400", str(2**70), '"1"')]
    siege.bucket(bad)
    siege.is_well()
    siege.bucket([b"garbage %d" % n for n in range(5_000)])
    siege.is_well()
    assert len(siege.leader.ends()) == 2
    assert siege.leader.released() == []
    said = [line for line in lines(caplog) if "was dropped" in line]
    assert 5 <= len(said) <= 50  # of thousands: one for each kind of trouble


def test_what_can_be_decoded_and_is_nonsense_ends_in_its_report(siege: Siege) -> None:
    leader = siege.leader
    unknown, unfit, odd = (
        Job(id=new_job_id(), kind="nobody-knows"),
        Job(id=new_job_id(), kind="quick", args=msgspec.Raw(b'{"no": "such argument"}')),
        Job(id=new_job_id(), kind="quick", args=msgspec.Raw(b"[1]")),
    )
    newer = Job(id=new_job_id(), kind="quick", version=9)
    leader.place(siege.life, [], jobs=[unknown, unfit, odd, newer])
    leader.until(lambda: len(leader.ends()) == 4, PATIENCE_S)
    ends = {job.id: leader.ends()[job.id] for job in (unknown, unfit, odd, newer)}
    told = {job: (end.outcome, end.error.type if end.error else None, end.retryable) for job, end in ends.items()}
    assert told[unknown.id] == (Outcome.FAILED, "LookupError", True)
    assert told[unfit.id] == told[odd.id] == (Outcome.FAILED, "jobyard.InvalidArgs", False)
    assert told[newer.id] == (Outcome.FAILED, "LookupError", True)
    # ten thousand jobs in one bundle: run, or given back, each once
    many = [{"id": new_job_id(), "kind": "quick"} for _ in range(10_000)]
    more: Json = {"jobs": many, "attempts": [1] * 10_000, "used": [0] * 10_000, "fence": 20_000, "open": list(range(300_000))}
    siege.bucket([hostile.text(siege.bundle(**more))])
    leader.until(lambda: len(leader.ends()) + len(leader.released()) >= 10_004, PATIENCE_S)
    assert len(set(leader.ends()) | set(leader.released())) == 10_004
    # the same once more, with every job and 50,000 others to be cancelled: said again, at once
    ids = [str(job["id"]) for job in many]
    again = siege.bundle(**more | {"open": [20_000], "cancel": ids + [new_job_id() for _ in range(50_000)]})
    begun = time.monotonic()
    siege.bucket([hostile.text(again)])
    siege.is_well()
    assert time.monotonic() - begun < 30


def test_bad_control_messages_change_nothing(siege: Siege, caplog: pytest.LogCaptureFixture) -> None:
    leader = siege.leader
    buckets = [[p, p, "id", 0] for p in range(5)]
    good: dict[str, Json] = {
        "welcome": siege.message("welcome", stamp=1.0, buckets=buckets, lost_after_s=15.0),
        "confirm": siege.message("confirm", stamp=1.0),
        "cancel": siege.message("cancel", fence=1, bucket=2, job="j"),
        "fenced": siege.message("fenced", reason="lost"),
    }
    bad: list[bytes | None] = [None, b'{"type": "no such"}']
    for kind, message in good.items():
        bad += list(
            hostile.no_message(
                {name: value for name, value in message.items() if name != "reason"} | ({"reason": "lost"} if kind == "fenced" else {})
            )
        )
        bad += list(hostile.truncated(hostile.text(message)))
    wrongs: list[Json] = [
        {"lost_after_s": 0},
        {"lost_after_s": -1},
        {"lost_after_s": "15"},
        {"buckets": [[0, -1, "id", 0]]},
        {"buckets": [[9, 0, "id", 0]]},
        {"buckets": [[0, 0, "id", -1]]},
        {"buckets": [[0, 0, "id", 0]] * 100_000},
        {"buckets": [[0, 0]]},
        {"epoch": 2**62},
        {"stamp": -1.0},
    ]
    bad += [hostile.text(good["welcome"] | wrong) for wrong in wrongs]
    bad += [hostile.with_raw(good["welcome"], ("lost_after_s",), raw) for raw in ("NaN", "1e400", "-0")]
    bad += [hostile.text(siege.message("fenced", reason="no such")), hostile.text(siege.message("explode"))]
    bad += [hostile.text(message | {"incarnation": new_job_id()}) for message in good.values()]
    bad += [hostile.text(message | {"agent": "another"}) for message in good.values()]
    siege.control(bad)
    siege.is_well()
    # cancels of what nobody knows, more than can be remembered: forgotten, oldest first
    siege.control([hostile.text(siege.message("cancel", fence=10**6 + n, bucket=n % 7, job=f"job {n}")) for n in range(20_000)])
    siege.is_well()
    # a lease from the future is none
    siege.control([codec.encode(Confirm(v=1, epoch=1, agent=NAME, incarnation=siege.life, stamp=1e12))])
    siege.is_well()
    assert len([line for line in lines(caplog) if "was dropped" in line]) <= 50
    assert len(leader.welcomed) == 1
    # what an epoch beyond all others means is that a lower one is not heard any more (A2): only the leader may write here
    siege.control([hostile.text(siege.message("confirm", stamp=0.0, epoch=1_000))])
    leader.until(lambda: leader.heartbeat().epoch == 1_000, PATIENCE_S)
    leader.epoch = 1_000
    siege.is_well()


def test_a_welcome_to_partitions_that_are_not_there_is_mended_by_the_next_one(siege: Siege) -> None:
    leader = siege.leader
    name = leader.topics.buckets.name
    topic_id = leader.admin.topic_ids([name])[name]
    assert topic_id is not None

    def welcome(buckets: list[Bucket], **more: Any) -> None:
        fields: dict[str, Any] = {"stamp": leader.heartbeat().stamp, "lost_after_s": 60.0} | more
        leader.control(Welcome(v=1, epoch=1, agent=NAME, incarnation=siege.life, buckets=buckets, **fields))

    ends = leader.admin.end_offsets(name, range(5))
    right = [Bucket(p, p, topic_id, ends[p]) for p in range(5)]
    welcome([Bucket(p, 10**9 + p, topic_id, 0) for p in range(5)])
    welcome(right)
    siege.is_well()
    welcome([Bucket(p, p, "of no topic", 2**60) for p in range(5)], lost_after_s=0.1)
    ends = leader.admin.end_offsets(name, range(5))
    welcome([Bucket(p, p, topic_id, ends[p]) for p in range(5)])
    siege.is_well()
