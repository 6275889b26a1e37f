"""How files of named queries are read."""

import pkgutil
from importlib import import_module

import pytest

import jobyard.master_db
from jobyard.master_db import queries
from jobyard.master_db.queries import texts


def test_a_query_has_its_parameters_numbered_in_the_order_of_its_heading() -> None:
    (text,) = texts("-- about it\n-- name: pick(lane, most) -> Row\nselect 5 % 2 from t limit $most -- $\n  offset $lane + $most;\n")
    assert text.name == "pick"
    assert text.parameters == ("lane", "most")
    assert text.row == "Row"
    assert text.sql == "select 5 % 2 from t limit $2 -- $\n  offset $1 + $2"


def test_a_heading_without_row_is_a_statement() -> None:
    first, second = texts("-- name: a()\ndelete from t;\n\n-- name: b(x)\n-- a comment between\ndelete from t where x = $x;\n")
    assert (first.row, first.parameters, second.parameters, second.sql) == (None, (), ("x",), "delete from t where x = $1")


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ("-- name: pick(lane) -> Row\nselect 1;", "pick"),
        ("-- name: pick() -> Row\nselect $lane;", "lane"),
        ("-- name: pick(a, a) -> Row\nselect $a;", "pick"),
        ("-- name: pick -> Row\nselect 1;", "not a heading"),
        ("-- name: pick() -> Row, Other\nselect 1;", "not a heading"),
    ],
)
def test_a_wrong_heading_is_refused_by_name(script: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        texts(script)


def test_every_query_of_the_files_is_taken_up_by_one_module() -> None:
    for module in pkgutil.iter_modules(jobyard.master_db.__path__, "jobyard.master_db."):
        import_module(module.name)
    assert set(queries.registered) == set(queries.loaded())


def test_a_query_is_not_taken_up_under_another_row_or_a_name_that_is_not_there() -> None:
    class Wrong:
        pass

    with pytest.raises(LookupError, match="no_such_query"):
        queries.Query("no_such_query", Wrong)
    with pytest.raises(TypeError, match="JobStatus"):
        queries.Query("job_by_id", Wrong)
