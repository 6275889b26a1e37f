"""The chores: topic ids, committed records, partitions."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from shell_fakes import FakeAdmin

from jobyard.contracts.rules import RULES
from jobyard.contracts.topics import lane_topics
from jobyard.coordinator.core.events import BucketsWanted
from jobyard.coordinator.inbox import Inbox
from jobyard.coordinator.maintenance import Maintenance
from jobyard.coordinator.seams import KafkaSilent, TopicsChanged
from jobyard.process.clock import DatabaseClock, monotonic

TOPICS = lane_topics("ns", "default")
IDS = {topic.name: f"id of {topic.name}" for topic in TOPICS.all()}


class Chores:
    """Maintenance on a fake cluster, with rounds that follow each other fast."""

    def __init__(self) -> None:
        self.admin = FakeAdmin(IDS)
        self.inbox = Inbox(10)
        clock = DatabaseClock()
        clock.heard(time.time(), monotonic(), monotonic())
        rules = replace(RULES, topics_every_s=0.02, lost_after_s=0.3, unreachable_after_s=0.1, lease_margin_s=0.05)
        self.maintenance = Maintenance(self.admin, self.inbox, clock, rules, TOPICS, IDS, "default")


@pytest.fixture
def chores() -> Iterator[Chores]:
    made = Chores()
    yield made
    made.maintenance.stop()


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_L20_what_lies_below_the_committed_offsets_is_deleted(chores: Chores) -> None:
    chores.maintenance.start()
    name = TOPICS.intake.name
    chores.maintenance.committed({name: (IDS[name], 42)})
    _until(lambda: chores.admin.deleted == {name: 42})


def test_L17_a_topic_made_again_ends_the_leadership(chores: Chores) -> None:
    chores.admin.ids[TOPICS.buckets.name] = "another"
    chores.maintenance.start()
    with pytest.raises(TopicsChanged, match="made again"):
        chores.inbox.take(1, 5)


def test_L17_a_topic_deleted_ends_the_leadership(chores: Chores) -> None:
    chores.admin.ids[TOPICS.control.name] = None
    chores.maintenance.start()
    with pytest.raises(TopicsChanged, match="deleted"):
        chores.inbox.take(1, 5)


def test_L24_a_leader_to_which_kafka_does_not_answer_gives_up(chores: Chores) -> None:
    chores.admin.silent = True
    chores.maintenance.start()
    with pytest.raises(KafkaSilent):
        chores.inbox.take(1, 5)


def test_L22_end_offsets_of_free_buckets_are_asked_before_they_are_given_away(chores: Chores) -> None:
    chores.admin.ends[TOPICS.buckets.name, 3] = 17
    chores.maintenance.start()
    chores.maintenance.want(BucketsWanted([3, 4], add=False))
    batch, _ = chores.inbox.take(1, 5)
    assert batch.buckets_ready == [(3, 17), (4, 0)]
    assert batch.partitions == 50


def test_L22_partitions_are_added_when_none_is_free(chores: Chores) -> None:
    chores.maintenance.start()
    chores.maintenance.want(BucketsWanted([], add=True))
    batch, _ = chores.inbox.take(1, 5)
    assert [partition for partition, _ in batch.buckets_ready] == list(range(50, 100))
    assert batch.partitions == 100


def test_how_many_partitions_there_are_is_told_though_none_is_asked_for(chores: Chores) -> None:
    chores.maintenance.start()
    chores.maintenance.want(BucketsWanted([], add=False))
    batch, _ = chores.inbox.take(1, 5)
    assert batch.buckets_ready == []
    assert batch.partitions == 50
