"""Fair share on real rows: which flow they get on each way in, and that they are read by it."""

from collections.abc import Generator

import pytest
from lane_store_builders import NOW, Database, Led

from jobyard.contracts.flows import FLOWS, flow_of
from jobyard.contracts.ids import FIRST_ID
from jobyard.coordinator.core.events import Left, Waits
from jobyard.coordinator.core.places import Waiting
from jobyard.coordinator.core.questions import DueQuestion, Questions
from jobyard.coordinator.core.snapshot import BacklogRow

FIRST = (0.0, FIRST_ID)
FAR = NOW * 2


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    opened = Database.open(database_url)
    yield opened
    opened.close()


def test_python_and_sql_tell_the_same_flow(database: Database) -> None:
    names = ["", "acme", "Größe", "日本", "x" * 200, *(f"tenant-{n}" for n in range(300))]
    found = database.rows("select jobyard.flow_of(n) from unnest(%s::text[]) with ordinality u(n, at) order by at", names)
    assert [row[0] for row in found] == [flow_of(name) for name in names]
    assert database.value("select jobyard.flow_of(null)") == flow_of(None)
    assert {flow_of(name) for name in names} <= set(range(1, FLOWS + 1))
    assert len({flow_of(name) for name in names}) > FLOWS / 2


def test_a_row_gets_the_flow_of_its_submitter_where_the_lane_shares_fairly(database: Database) -> None:
    admin, client = database.admin, database.client()
    who = client.execute("select session_user::text").fetchone()
    assert who is not None
    flows = "select p.flow from jobyard.pending p join jobyard.jobs j using (id) order by j.submitter"
    for call in (
        "select jobyard.submit('k', submitter => 'acme')",
        'select jobyard.submit_many(\'[{"kind": "k", "submitter": "acme"}, {"kind": "k", "submitter": "zeta"}]\')',
    ):
        admin.execute("select jobyard.fair_share('default', true)")
        admin.execute(call.encode())
        expected = [flow_of("acme")] if "many" not in call else [flow_of("acme"), flow_of("zeta")]
        assert [row[0] for row in database.rows(flows)] == expected
        admin.execute("delete from jobyard.pending")
        admin.execute("select jobyard.fair_share('default', false)")
        admin.execute(call.encode())
        assert {row[0] for row in database.rows(flows)} == {0}
        admin.execute("delete from jobyard.pending")
    admin.execute("select jobyard.fair_share('default', true)")
    client.execute("select jobyard.submit('k')")
    client.commit()
    assert [row[0] for row in database.rows(flows)] == [flow_of(who[0])]


def test_each_flow_is_read_by_itself_and_tells_what_is_fresh_in_it(database: Database) -> None:
    database.admin.execute("select jobyard.fair_share('default', true)")
    led = Led(database)
    for n in range(3):
        database.admin.execute("select jobyard.submit('k', submitter => %s)", [f"tenant-{n}"])
    answers = led.ask(Questions(look=True))
    flows = sorted(flow_of(f"tenant-{n}") for n in range(3))
    assert sorted(fresh.flow for fresh in answers.fresh) == flows
    led.write()
    backlog = led.store.snapshot().backlog
    assert [(row.priority, row.kind, row.flow) for row in backlog] == [(2, "k", flow) for flow in flows]
    answers = led.ask(Questions(due=[DueQuestion(2, "k", flow, FIRST, FAR, 10) for flow in (0, *flows)]))
    assert [len(answer.rows) for answer in answers.due] == [0, 1, 1, 1]
    rows = [row for answer in answers.due for row in answer.rows]
    assert [row.flow for row in rows] == flows
    led.write(Left(rows))
    assert database.count("pending") == 0


def test_what_the_leader_puts_back_keeps_the_flow_that_it_says(database: Database) -> None:
    led = Led(database)
    one, two = led.accept(2)
    led.write(Waits([Waiting(one, why="r", flow=7), Waiting(two, why="r")]))
    assert led.store.snapshot().backlog == [BacklogRow(2, "k", 0, two.run_at), BacklogRow(2, "k", 7, one.run_at)]
    (found,) = led.ask(Questions(due=[DueQuestion(2, "k", 7, FIRST, FAR, 10)])).due
    assert [(row.job.id, row.flow) for row in found.rows] == [(one.id, 7)]
