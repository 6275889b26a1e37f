"""The crash points C1 to C5 and C7 to C9 of the leader: how it gets there, what is seen there, and what must hold afterwards."""

import signal
from typing import Any, Final

from promises import mixed_jobs
from promises.guarantees import CANCELLED, Evidence, Expected
from worlds.world import World

from faults.at_point import AtPoint
from faults.leader_points import Told
from faults.leaderships import Fault, epoch
from jobyard.process.points import Point

LOST_AFTER_S: Final = 3.0


def load(world: World) -> None:
    """By both ways: many bundles at once."""
    mixed_jobs.app.submit_many(world.mixed(10, via="kafka"))
    mixed_jobs.app.submit_many(world.mixed(15))


def recorded(world: World, ends: list[list[Any]]) -> int:
    """Of how many of these (fence, job, …) the Master DB knows the end."""
    return world.number(
        "select count(*) from jobyard.attempts a join unnest(%s::bigint[], %s::uuid[]) u(fence, job) on a.fence = u.fence and a.job_id = u.job",
        [end[0] for end in ends],
        [end[1] for end in ends],
    )


def unread(world: World, told: Told) -> list[bool]:
    """Of each message that the tick took, whether the Master DB's offset lies before it."""
    (row,) = world.rows("select offsets from jobyard.leases")
    return [row["offsets"].get(topic, {"next": 0})["next"] <= offset for topic, offset in told["read"]]


def lying(world: World, fence: int) -> list[dict[str, Any]]:
    """The messages of this bundle, in their order."""
    return [one.body for one in world.lying_in(world.topics.buckets.name) if one.body["fence"] == fence]


def outcomes(evidence: Evidence, job: str) -> dict[int, str]:
    """By fence."""
    return {row["fence"]: row["outcome"] for row in evidence.attempts.get(job, [])}


# ---- C1: messages read, nothing committed


def nothing_is_recorded(world: World, told: Told) -> None:
    assert told["ends"]
    assert recorded(world, told["ends"]) == 0
    assert all(unread(world, told))


def nothing_is_inserted(world: World, told: Told) -> None:
    assert told["jobs"]
    assert world.number("select count(*) from jobyard.jobs where id = any (%s::uuid[]) and via = 'k'", told["jobs"]) == 0
    assert all(unread(world, told))


def nothing_is_written(world: World, told: Told) -> None:
    """A leader that is paused there holds locks: the next one must get on all the same."""
    assert told["ended"]
    assert recorded(world, told["ended"]) == 0
    assert all(unread(world, told))


def each_is_recorded_once(world: World, told: Told, evidence: Evidence) -> None:
    assert not any(unread(world, told))
    for fence, job, outcome in told["ends"]:
        assert outcomes(evidence, job)[fence] == outcome
        assert sum(one.fence == fence for one in evidence.executions[job]) == 1


# ---- C2: COMMIT sent, answer not received


def effect_and_offset_agree(world: World, told: Told) -> None:
    """The server does what it has got: soon it is known whether that was a COMMIT."""
    assert told["ended"]
    open_one = "select 1 from pg_stat_activity where starts_with(application_name, 'jobyard-coordinator') and xact_start is not null"
    world.until("the transaction has ended", lambda: recorded(world, told["ended"]) or not world.rows(open_one))
    effects = recorded(world, told["ended"])
    assert effects in (0, len(told["ended"]))
    assert unread(world, told) == [effects == 0] * len(told["read"])


# ---- C3: committed, nothing produced; C4: some produced


def placed_and_not_sent(world: World, told: Told) -> None:
    fences = [bundle["fence"] for bundle in told["placed"]]
    assert fences
    assert world.number("select count(*) from jobyard.bundles where fence = any (%s)", fences) == len(fences)
    assert not {one.body["fence"] for one in world.lying_in(world.topics.buckets.name)} & set(fences)


def first_arrives(world: World, told: Told) -> object:
    return lying(world, told["bundle"])


def first_is_sent(world: World, told: Told) -> None:
    first, *others = [bundle["fence"] for bundle in told["placed"]]
    assert told["bundle"] == first
    there = {one.body["fence"] for one in world.lying_in(world.topics.buckets.name)}
    assert first in there
    assert not there & set(others)


def each_ran_under_its_fence(world: World, told: Told, evidence: Evidence) -> None:
    """The very placements that were committed: nothing was placed anew, no attempt was used up."""
    sent = {one.body["fence"] for one in world.lying_in(world.topics.buckets.name)}
    for bundle in told["placed"]:
        fence = bundle["fence"]
        assert fence in sent
        starts = [one for job in bundle["jobs"] for one in evidence.executions.get(job, []) if one.fence == fence]
        assert starts
        assert len(starts) == len({one.job for one in starts})
        for job, attempt in zip(bundle["jobs"], bundle["attempts"], strict=True):
            (row,) = [row for row in evidence.attempts[job] if row["attempt"] == attempt]
            assert row["fence"] == fence
            assert row["outcome"] not in ("lost", "interrupted")


def first_arrives_again(world: World, told: Told) -> None:
    world.until("the next one sends it again", lambda: len({message["epoch"] for message in lying(world, told["bundle"])}) == 2)


# ---- C5: paused before producing; done and forgotten meanwhile


def forgotten(world: World, told: Told) -> None:
    """The next leader has sent the bundle, it is done, and a later message of its bucket says that it is not open."""
    (bundle,) = [bundle for bundle in told["placed"] if bundle["fence"] == told["bundle"]]
    fence, jobs = bundle["fence"], bundle["jobs"]
    world.until("it is done", lambda: recorded(world, [[fence, job] for job in jobs]) == len(jobs))
    bucket = lying(world, fence)[-1]["bucket"]

    def said() -> bool:
        for job in (mixed_jobs.thread, mixed_jobs.tiny, mixed_jobs.task):  # one for each priority, so for each bucket
            world.expect(job.request(5)).submit()
        messages = [one.body for one in world.lying_in(world.topics.buckets.name) if one.partition == bucket]
        last = max(number for number, body in enumerate(messages) if body["fence"] == fence)
        return any("open" in body and fence not in body["open"] for body in messages[last + 1 :])

    world.until("it is forgotten", said)


def the_old_one_has_produced(world: World, told: Told) -> None:
    """Its message lies behind newer ones; that nothing was started from it is seen from the journal, and its next tick has failed."""

    def arrived() -> bool:
        messages = [one.body for one in world.lying_in(world.topics.buckets.name) if one.body["fence"] == told["bundle"]]
        return bool(messages[-1]["epoch"] == told["epoch"] < messages[0]["epoch"])

    world.until("the old one's message is there", arrived)
    world.let_go(told["name"])


# ---- C7: lost committed, `fenced` not sent


def pause_carl(world: World) -> None:
    """With jobs placed on it, until it is given up."""
    world.agent("carl")
    world.until_active("carl")
    world.send("carl", signal.SIGSTOP)

    def placed() -> list[dict[str, Any]]:
        mixed_jobs.app.submit_many([world.expect(mixed_jobs.tiny.request(n)) for n in range(10)])
        return world.rows(
            "select 1 from jobyard.bundles b join jobyard.agents a using (agent_id) where a.name = 'carl' and a.ended_at is null"
        )

    world.until("jobs are placed on the agent that is paused", placed, within_s=LOST_AFTER_S - 1)


def carl_is_given_up(world: World, told: Told) -> None:
    assert told["agents"] == ["carl"]
    assert world.number("select count(*) from jobyard.agents where name = 'carl' and state = 'lost'") == 1
    assert not fenced_of_carl(world)


def fenced_of_carl(world: World) -> list[dict[str, Any]]:
    return [one.body for one in world.lying_in(world.topics.control.name) if one.body["type"] == "fenced" and one.body["agent"] == "carl"]


def carl_is_fenced(world: World, told: Told) -> None:
    """It started nothing of its old life, and lives on under a new one."""
    (old,) = world.rows("select agent_id, incarnation::text from jobyard.agents where name = 'carl'")
    before = {one.fence for one in world.executions() if one.pid == world.pid("carl")}
    world.send("carl", signal.SIGCONT)
    world.until_active("carl")
    messages = fenced_of_carl(world)
    assert messages
    assert {message["incarnation"] for message in messages} == {old["incarnation"]}
    old_fences = {row["fence"] for row in world.rows("select fence from jobyard.attempts where agent_id = %s", old["agent_id"])}
    assert old_fences
    after = {one.fence for one in world.executions() if one.pid == world.pid("carl")}
    assert not (after - before) & old_fences


# ---- C8: cancel committed, not sent


def cancel_what_runs(world: World) -> None:
    request = world.expect(mixed_jobs.patient.request(8, 3600.0, 3600.0), Expected(CANCELLED))
    request.submit()
    world.until("it runs", lambda: world.state(str(request.id)) == "running")
    world.rows("select jobyard.cancel(%s::uuid)", str(request.id))


def cancelled_of(world: World) -> dict[str, list[dict[str, Any]]]:
    """Messages that tell an agent of a cancel, by job."""
    found: dict[str, list[dict[str, Any]]] = {}
    for topic in (world.topics.control.name, world.topics.buckets.name):
        for one in world.lying_in(topic):
            for job in one.body.get("cancel", []) if "jobs" in one.body else [one.body["job"]] if one.body["type"] == "cancel" else []:
                found.setdefault(job, []).append(one.body)
    return found


def the_cancel_is_not_sent(world: World, told: Told) -> None:
    (asked,) = told["cancels"]
    assert world.rows("select 1 from jobyard.job_events where job_id = %s and event = 'cancel_asked'", asked)
    assert world.state(asked) == "running"
    assert asked not in cancelled_of(world)


def the_cancel_was_answered(world: World, told: Told, evidence: Evidence) -> None:
    (asked,) = told["cancels"]
    assert asked in cancelled_of(world)
    assert evidence.status[asked][0]["state"] == "cancelled"
    assert [row["outcome"] for row in evidence.attempts[asked]] == ["cancelled"]
    (one,) = evidence.executions[asked]
    assert one.ended is not None
    assert not one.returned


# ---- C9: during the take-over


def something_is_open(world: World, _: Told) -> None:
    assert world.number("select count(*) from jobyard.bundles") > 0


def nothing_is_sent_again(world: World, told: Told) -> None:
    assert told["resent"]
    assert epoch(world) not in {one.body["epoch"] for one in world.lying_in(world.topics.buckets.name)}


def all_is_sent_again(world: World, told: Told) -> bool:
    sent = {one.body["fence"] for one in world.lying_in(world.topics.buckets.name) if one.body["epoch"] == epoch(world)}
    return sent == set(told["resent"])


def each_started_once(world: World, told: Told, evidence: Evidence) -> None:
    starts = [(one.job, one.fence) for executions in evidence.executions.values() for one in executions if one.fence in told["resent"]]
    assert starts
    assert len(starts) == len(set(starts))


C1: Final = Fault("C1", AtPoint(Point.MESSAGES_TAKEN, when="reads ends"), load, nothing_is_recorded, after=each_is_recorded_once)
C1_INSERTED: Final = Fault(
    "C1, new jobs inserted", AtPoint(Point.QUESTIONS_ASKED, when="reads jobs"), load, nothing_is_inserted, after=each_is_recorded_once
)
C1_WRITTEN: Final = Fault(
    "C1, rows written", AtPoint(Point.ROWS_SENT, when="ends jobs"), load, nothing_is_written, after=each_is_recorded_once
)
C2: Final = Fault("C2", AtPoint(Point.COMMIT_SENT, when="ends jobs"), load, effect_and_offset_agree)
C3: Final = Fault("C3", AtPoint(Point.TICK_COMMITTED, when="places jobs"), load, placed_and_not_sent, after=each_ran_under_its_fence)
C4: Final = Fault(
    "C4",
    AtPoint(Point.MESSAGE_PRODUCED, when="first of several bundles", stands=True),
    load,
    first_is_sent,
    first_arrives_again,
    after=each_ran_under_its_fence,
    stands_for=first_arrives,
)
C5: Final = Fault(
    "C5",
    AtPoint(Point.MESSAGE_MADE, when="first of several bundles", stands_again=Point.MESSAGE_PRODUCED),
    load,
    placed_and_not_sent,
    forgotten,
    the_old_one_has_produced,
    each_ran_under_its_fence,
)
C7: Final = Fault("C7", AtPoint(Point.TICK_COMMITTED, when="gives an agent up"), pause_carl, carl_is_given_up, carl_is_fenced)
C8: Final = Fault(
    "C8",
    AtPoint(Point.TICK_COMMITTED, when="asks to cancel"),
    cancel_what_runs,
    the_cancel_is_not_sent,
    after=the_cancel_was_answered,
)
C9: Final = [
    Fault("C9, T1", AtPoint(Point.EPOCH_TAKEN), seen=something_is_open, beginning=True),
    Fault("C9, T2", AtPoint(Point.SNAPSHOT_READ), seen=something_is_open, beginning=True),
    Fault("C9, T3", AtPoint(Point.POSITIONS_FOUND), seen=something_is_open, beginning=True),
    Fault(
        "C9, T4",
        AtPoint(Point.OPENING_COMMITTED, when="sends again"),
        seen=nothing_is_sent_again,
        after=each_started_once,
        beginning=True,
    ),
    Fault(
        "C9, T6",
        AtPoint(Point.OPENING_SENT, when="sends again", stands=True),
        stands_for=all_is_sent_again,
        after=each_started_once,
        beginning=True,
    ),
]
