"""Bad input on the intake topic: refused by field, value and rule, or quarantined by offset and reason, while the good jobs between go on."""

import json
import time
from typing import Final

import pytest
from inputs.bad_input import BAD, MESSAGES, PIECES, Case
from inputs.place import Place
from promises import mixed_jobs

from jobyard import InvalidJob
from jobyard.contracts.ids import derived_job_id, new_job_id
from jobyard.kafka.failures import KafkaRefused

pytestmark = pytest.mark.timeout(300)  # a start of all services under load included

UNNAMED: Final = ("id", "kind")
"""Fields without which a job can't be named: by Kafka it is then no refused job, but a row of quarantine."""


def with_id(case: Case) -> tuple[str, bytes]:
    """The case as a job of its own, that can be told from all others unless its id is what is wrong."""
    job_id = new_job_id()
    return job_id, json.dumps({"id": job_id, **case.written}).encode()


def test_by_kafka_one_bad_job_among_good_ones_is_refused_alone(place: Place) -> None:
    named = [(case, *with_id(case)) for case in BAD if case.field not in UNNAMED]
    before = place.offset()
    jobs = [job for _, _, job in named for job in (job, place.good_job())]
    for first in range(0, len(jobs), 60):
        place.send_jobs(*jobs[first : first + 60])
    ids = [job_id for _, job_id, _ in named]
    place.world.until("all are refused", lambda: len(place.refusals(ids)) == len(ids))
    found = place.refusals(ids)
    wrong = [(case.name, found[job_id]) for case, job_id, _ in named if found[job_id][0] != case.code or case.unsaid(found[job_id][1])]
    assert wrong == []
    assert place.quarantined(before) == []
    assert len(named) > 130


def test_by_kafka_what_has_no_usable_id_or_kind_goes_to_quarantine(place: Place) -> None:
    cases = [case for case in BAD if case.field in UNNAMED]
    before = place.offset()
    for first in range(0, len(cases), 8):
        place.send_jobs(*(job for case in cases[first : first + 8] for job in (with_id(case)[1], place.good_job())))
    messages = -(-len(cases) // 8)
    place.read_up(before + messages)
    rows = place.quarantined(before)
    assert [row.offset - before for row in rows] == [n // 8 for n in range(len(cases))]
    untold = [
        case.name
        for n, case in enumerate(cases)
        if not any(row.offset - before == n // 8 and not case.unsaid(row.reason) for row in rows)  # those of one message in any order
    ]
    assert untold == []


def test_by_kafka_text_that_is_no_json_spoils_only_its_own_job(place: Place) -> None:
    before = place.offset()
    sent = [(new_job_id(), *piece) for piece in PIECES]
    for job_id, _, text, _, _ in sent:
        place.send_jobs(place.good_job(), b'{"kind":"tiny","id":"%s",%s}' % (job_id.encode(), text), place.good_job())
    place.read_up(before + len(sent))
    found = place.refusals([job_id for job_id, *_ in sent])
    rows = {row.offset - before: row.reason for row in place.quarantined(before)}
    for n, (job_id, name, _, field, said) in enumerate(sent):
        reason = found[job_id][1] if field else rows[n]
        assert said in reason, (name, reason)
        assert len(reason) < 900, name
        assert reason.isprintable(), name
    assert len(found) + len(rows) == len(sent)


def test_by_kafka_what_is_no_message_goes_to_quarantine_with_its_offset_and_reason(place: Place) -> None:
    before = place.offset()
    for message in MESSAGES:
        place.send(message.body)
    place.send_jobs(place.good_job())
    place.read_up(before + len(MESSAGES) + 1)
    rows = place.quarantined(before)
    assert [row.offset - before for row in rows] == list(range(len(MESSAGES)))
    assert [(message.name, row.reason) for message, row in zip(MESSAGES, rows, strict=True) if message.reason not in row.reason] == []
    assert all(row.reason.isprintable() and len(row.reason) < 900 for row in rows)


def test_by_kafka_a_hundred_thousand_jobs_in_one_message_are_taken_tick_by_tick(place: Place) -> None:
    """As many as one message may hold; of a kind that nobody runs, half of them wrong in one way or another, and each wrong one of a kind of its own."""
    before = place.offset()
    ids = [new_job_id() for _ in range(10_000)]
    refused = b",".join(b'{"kind":"w%d","id":"%s","size":0}' % (n, job_id.encode()) for n, job_id in enumerate(ids))
    tiny = b",".join([b'{"kind":"nobody","args":{}}'] * 89_000)
    begun = time.monotonic()
    place.send(b'{"v":1,"jobs":[' + place.good_job() + b"," + refused + b"," + tiny + b",7" * 998 + b"," + place.good_job() + b"]}")
    place.send_jobs(place.good_job())
    place.read_up(before + 2)
    took = time.monotonic() - begun
    assert (
        place.world.number("select count(*) from jobyard.pending p join jobyard.kinds k using (kind_id) where k.kind = 'nobody'") == 89_000
    )
    assert place.world.number("select count(*) from jobyard.job_events where event = 'refused' and job_id = any (%s::uuid[])", ids) == len(
        ids
    )
    (*parts, whole) = place.quarantined(before)
    assert [row.reason for row in parts] == ["job 7 must be a JSON object"] * 9
    assert "989 more jobs of this message are wrong and cannot be named, job 7 must be a JSON object" in whole.reason
    assert took < 100


def test_by_kafka_a_message_over_the_limit_is_refused_before_it_is_sent_and_by_the_broker(place: Place) -> None:
    large = b'{"v":1,"jobs":[{"kind":"tiny","args":{"a":"' + b"x" * 10_000_000 + b'"}}]}'
    with pytest.raises(KafkaRefused, match=r"(?i)message size too large|larger"):
        place.producer.produce(place.topic, large)
    with pytest.raises(InvalidJob, match=r"10000\d\d\d bytes of JSON are more than the 1048576"):
        mixed_jobs.echo.options(via="kafka").submit("x" * 10_000_000)


def test_L19_an_id_is_judged_by_the_brokers_time(place: Place) -> None:
    """An id of one that sits at the bound: a moment younger than seven days is taken, a moment older is refused."""
    now = time.time()
    taken, old = derived_job_id(now - 7 * 86_400 + 3600, "a"), derived_job_id(now - 7 * 86_400 - 60, "b")
    before = place.offset()
    place.send_jobs(*(b'{"kind":"tiny","args":{"n":1},"id":"%s"}' % one.encode() for one in (taken, old)))
    place.good.append(taken)
    place.read_up(before + 1)
    assert [row.reason for row in place.quarantined(before)] == [f"id {old} is 7.0 days old; at most 7 are allowed"]
