"""One lane's store on a real database, under the least rights; and what a tick is made of."""

import secrets
import uuid
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

import msgspec
import psycopg
from psycopg.rows import TupleRow

from jobyard.contracts.ids import new_job_id
from jobyard.contracts.job import Job, NewJob
from jobyard.contracts.reports import End, Error
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core.events import Closed, Ended, Event, Placed, Waits
from jobyard.coordinator.core.places import Bundle, Waiting
from jobyard.coordinator.core.questions import Answers, NewAgent, Questions, Unresolved
from jobyard.coordinator.seams import Term
from jobyard.master_db.lane_store import PostgresLaneStore

RULES = Rules()
NOW = 1_800_000_000.0


@dataclass
class Database:
    """A migrated database. `admin`: its owner's session, for looking and for playing the others. `url`: of a role that is a coordinator and nothing else."""

    admin_url: str
    url: str
    client_url: str
    admin: psycopg.Connection[TupleRow]
    stores: list[PostgresLaneStore] = field(default_factory=list[PostgresLaneStore])
    clients: list[psycopg.Connection[TupleRow]] = field(default_factory=list[psycopg.Connection[TupleRow]])

    @classmethod
    def open(cls, admin_url: str) -> "Database":
        admin = psycopg.connect(admin_url, autocommit=True)
        urls: list[str] = []
        for right in ("coordinator", "client"):
            role, password = f"test_{right}_{secrets.token_hex(4)}", secrets.token_hex(8)
            admin.execute(f"create role {role} login password '{password}' in role jobyard_{right}".encode())
            parts = urlsplit(admin_url)
            urls.append(urlunsplit(parts._replace(netloc=f"{role}:{password}@{parts.netloc.rpartition('@')[2]}")))
        return cls(admin_url, urls[0], urls[1], admin)

    def close(self) -> None:
        for store in self.stores:
            store.close()
        for client in self.clients:
            client.close()
        for url in (self.url, self.client_url):
            role = str(urlsplit(url).username)
            self.admin.execute(f"drop owned by {role}".encode())
            self.admin.execute(f"drop role {role}".encode())
        self.admin.close()

    def store(self, lane: str = "default", leader: str | None = None, rules: Rules = RULES) -> PostgresLaneStore:
        store = PostgresLaneStore(self.url, lane, leader or str(uuid.uuid4()), rules)
        self.stores.append(store)
        return store

    def client(self) -> psycopg.Connection[TupleRow]:
        """A session of somebody who submits; in a transaction until it commits."""
        self.clients.append(psycopg.connect(self.client_url))
        return self.clients[-1]

    def add_lane(self, lane: str) -> int:
        row = self.admin.execute("insert into jobyard.lanes (lane) values (%s) returning lane_id", [lane]).fetchone()
        assert row is not None
        self.admin.execute("insert into jobyard.leases (lane_id) values (%s)", [row[0]])
        return int(row[0])

    def expire(self) -> None:
        """All leases are over: their leaders were paused for long."""
        self.admin.execute("update jobyard.leases set lease_until = '-infinity'")

    def rows(self, query: str, *values: object) -> list[TupleRow]:
        return self.admin.execute(query.encode(), values).fetchall()

    def value(self, query: str, *values: object) -> object:
        (row,) = self.rows(query, *values)
        return row[0]

    def count(self, table: str) -> int:
        found = self.value(f"select count(*) from jobyard.{table}")
        assert isinstance(found, int)
        return found


class Led:
    """A lane that is led: a store after take-over, and its ticks."""

    def __init__(self, database: Database, lane: str = "default", rules: Rules = RULES) -> None:
        self.store = database.store(lane, rules=rules)
        term = self.store.seize()
        assert term is not None
        self.term: Term = term
        self.fence = self.store.snapshot().fence
        self.offsets: dict[str, tuple[str, int]] = {}

    def ask(self, questions: Questions | None = None) -> Answers:
        return self.store.ask(questions or Questions())

    def write(self, *events: Event) -> None:
        self.store.write(events, self.offsets, self.fence, self.term)

    def agent(self, name: str = "a", incarnation: str | None = None, kinds: dict[str, int] | None = None) -> int:
        """A new incarnation, written."""
        answers = self.store.ask(Questions(agents=[new_agent(name, incarnation, kinds)]))
        self.write()
        (number,) = answers.agents.values()
        return number

    def accept(self, count: int, kind: str = "k") -> list[Job]:
        """New jobs, of which nothing but their rows is written."""
        made = [job(kind=kind) for _ in range(count)]
        self.meet(kind)
        answers = self.store.ask(Questions(jobs=made))
        assert answers.jobs == made
        self.write()
        return made

    def meet(self, *kinds: str) -> None:
        """The store knows these kinds."""
        self.store.ask(Questions(unresolved=[Unresolved(NewJob(kind=kind, id=new_job_id()), NOW, "key") for kind in kinds]))
        self.write()

    def wait(self, jobs: list[Job]) -> list[Waiting]:
        """They get rows of `pending`."""
        waiting = [Waiting(one, bound=one.max_attempts) for one in jobs]
        self.write(Waits(waiting))
        return waiting

    def place(self, jobs: list[Job], agent_id: int, incarnation: str = "", careful: bool = False) -> Bundle:
        """One bundle with these, written."""
        self.fence += 1
        made = bundle(self.fence, jobs, agent_id, incarnation, careful)
        self.write(Placed(made))
        return made


def job(kind: str = "k", run_at: float | None = None, **more: object) -> Job:
    made = Job(id=new_job_id(), kind=kind, args=msgspec.Raw(b'{"n": 1}'), run_at=NOW if run_at is None else run_at)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def new_agent(name: str = "a", incarnation: str | None = None, kinds: dict[str, int] | None = None) -> NewAgent:
    return NewAgent(incarnation or str(uuid.uuid4()), name, "host", 8.0, 4, kinds or {"k": 1}, 15.0, NOW)


def bundle(fence: int, jobs: list[Job], agent_id: int, incarnation: str = "", careful: bool = False) -> Bundle:
    n = len(jobs)
    return Bundle(
        fence=fence,
        agent_id=agent_id,
        incarnation=incarnation,
        bucket=3,
        kind=jobs[0].kind,
        priority=2,
        placed_at=1_800_000_001.25,
        reason={"rule": "least loaded"},
        jobs=jobs,
        attempts=[1] * n,
        used=[0] * n,
        interruptions=[0] * n,
        bounds=[5] * n,
        careful=[careful] * n,
    )


def end(one: Job, outcome: Outcome = Outcome.SUCCEEDED, **more: object) -> End:
    made = End(one.id, 1, outcome, 1_800_000_002.0, 1_800_000_003.5)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def ended(
    of: Bundle, outcome: Outcome = Outcome.SUCCEEDED, final: State | None = State.SUCCEEDED, used: int = 0, error: Error | None = None
) -> Ended:
    ends = [end(one, outcome, error=error) for one in of.jobs]
    return Ended(of, ends, None, [used] * len(ends), [final] * len(ends), [])


def closed(*of: Bundle) -> Closed:
    return Closed([one.fence for one in of])
