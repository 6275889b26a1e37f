"""The one workload of the acceptance tests: jobs of all sorts, by all ways, some cancelled, some ids sent twice, and one message that is no job."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg

from jobyard import JobRequest
from jobyard.api.options import Via
from jobyard.contracts.codec import encode_intake
from jobyard.contracts.ids import derived_job_id, new_job_id
from jobyard.contracts.job import NewJob
from jobyard.kafka.producer import open_producer
from promises import mixed_jobs
from promises.evidence import CANCELLED, EITHER, FAILED, Expected

HOUR_S: Final = 3600.0
OFTEN: Final = 1000
"""Attempts of a job that goes on until it is cancelled, however often its agent is killed."""
OLD_S: Final = 30 * 86_400.0


class Workload:
    """What was submitted, noted with what must become of each. `bad`: a part of each message that must go to quarantine."""

    def __init__(self, database_url: str, kafka: str, intake: str) -> None:
        self._database_url = database_url
        self._kafka = kafka
        self._intake = intake
        self.expected: dict[str, Expected] = {}
        self.bad: list[str] = []
        self._endless: list[str] = []
        self._numbers = 0

    def expect(self, request: JobRequest[Any], expected: Expected | None = None) -> JobRequest[Any]:
        """Note a job that is about to be submitted. None: it succeeds, and gives its argument n."""
        noted = expected or Expected(result=request.args.get("n"))
        self.expected[str(request.id)] = noted if noted.args is not None else replace(noted, args=dict(request.args))
        return request

    def number(self) -> int:
        """Another one for each call."""
        self._numbers += 1
        return self._numbers

    def mixed(self, count: int, via: Via = "sql") -> list[JobRequest[Any]]:
        """Requests of all sorts, in turn."""
        made: list[JobRequest[Any]] = []
        jobs = mixed_jobs
        for _ in range(count):
            n = self.number()
            match n % 10:
                case 0:
                    made.append(self.expect(jobs.broken.options(via=via).request(n), Expected(FAILED)))
                case 1:
                    made.append(self.expect(jobs.snoozing.options(via=via).request(n), Expected(result=n, snooze_s=jobs.SNOOZE_S)))
                case 2:
                    made.append(self.expect(jobs.unsteady.options(via=via).request(n)))
                case 3 | 4:
                    made.append(self.expect(jobs.single.options(via=via).request(n), Expected(EITHER, n)))
                case 5:
                    made.append(self.expect(jobs.thread.options(via=via).request(n)))
                case 6:
                    made.append(self.expect(jobs.task.options(via=via).request(n)))
                case _:
                    made.append(self.expect(jobs.tiny.options(via=via).request(n)))
        return made

    def submit(self, count: int) -> None:
        """Many by Kafka, many by SQL in a transaction, and one by one by SQL; and besides: ids sent twice, jobs that are cancelled, one that is too old."""
        third = count // 3
        mixed_jobs.app.submit_many(self.mixed(third, via="kafka"))
        with psycopg.connect(self._database_url) as connection:
            mixed_jobs.app.submit_many(self.mixed(third), connection=connection)
        for request in self.mixed(count - 2 * third):
            request.submit()
        self.submit_twice()
        self.submit_cancelled()
        self.submit_too_old()

    def submit_twice(self) -> None:
        """The same ids with other contents: by SQL and then by both ways, and twice by Kafka (promise 7)."""
        n = self.number()
        tiny, by_sql, by_kafka = mixed_jobs.tiny, new_job_id(), new_job_id()
        self.expect(tiny.options(id=by_sql).request(n)).submit()
        assert tiny.options(id=by_sql).submit(-n).duplicate
        tiny.options(id=by_sql, via="kafka").submit(-n)
        self.expect(tiny.options(id=by_kafka, via="kafka").request(n)).submit()
        tiny.options(id=by_kafka, via="kafka").submit(-n)

    def submit_cancelled(self) -> None:
        """One is cancelled long before its time, one wherever it is by now, and one at last, when it runs: see `cancel_rest` (promise 6)."""
        n = self.number()
        later = mixed_jobs.tiny.options(run_at=datetime.now(UTC) + timedelta(hours=1)).request(n)
        at_once, at_last = (mixed_jobs.patient.options(max_attempts=OFTEN).request(n, HOUR_S, HOUR_S) for _ in range(2))
        for request in (later, at_once, at_last):
            self.expect(request, Expected(CANCELLED)).submit()
        self._cancel(str(later.id), str(at_once.id))
        self._endless.append(str(at_last.id))

    def submit_too_old(self) -> None:
        """An id older than what is remembered of ids: SQL refuses it, and what comes by Kafka goes to quarantine (promise 7, L19)."""
        old = derived_job_id(datetime.now(UTC).timestamp() - OLD_S, new_job_id())
        self.bad.append(old)
        producer = open_producer(self._kafka, {})
        producer.produce(self._intake, encode_intake([NewJob(id=old, kind="mixed_jobs:tiny")]))
        assert producer.close(30.0) == 0

    def cancel_rest(self) -> None:
        """What goes on until it is cancelled."""
        jobs, self._endless = self._endless, []
        if jobs:
            self._cancel(*jobs)

    def _cancel(self, *jobs: str) -> None:
        """Recorded; a leader, now or later, takes it up."""
        with psycopg.connect(self._database_url) as connection:
            for job in jobs:
                connection.execute("select jobyard.cancel(%s, 'not needed')", [job])
