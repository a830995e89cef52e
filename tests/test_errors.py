"""The tree of errors, and what each looks like on the wire."""

import inspect
from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

import app.errors
from app.database.engine import database_errors, make_database_engine
from app.errors import ColdcastError, DatabaseUnavailable, FieldError, SettingsError
from app.schemas.problem import problem_of


def classes() -> Iterator[type[ColdcastError]]:
    for _, member in inspect.getmembers(app.errors, inspect.isclass):
        if issubclass(member, ColdcastError):
            yield member


def test_the_docstring_draws_the_whole_tree() -> None:
    drawn = app.errors.__doc__ or ""
    for error in classes():
        assert f"{error.__name__} " in drawn.replace("\n", " \n"), error
        assert error.__name__ in app.errors.__all__


def test_each_kind_has_a_type_of_its_own() -> None:
    kinds = [error.type for error in classes() if error.type != ColdcastError.type]
    assert len(kinds) == len(set(kinds))


def test_each_says_what_to_do() -> None:
    for error in classes():
        assert str(error()) == error.__doc__
        assert str(error("other words")) == "other words"


def test_a_problem_of_an_error() -> None:
    error = app.errors.AmbiguousHardware("a", [FieldError("/hardware/gpu", "b")], ["c"])
    assert problem_of(error).model_dump() == {
        "type": "urn:coldcast:problem:ambiguous-hardware",
        "title": "The hardware name fits several kinds",
        "status": 422,
        "detail": "a",
        "errors": [{"pointer": "/hardware/gpu", "detail": "b"}],
        "candidates": ["c"],
    }


def test_a_database_that_is_away_is_told_from_a_defect(server: str) -> None:
    with pytest.raises(DatabaseUnavailable), database_errors():
        make_database_engine("postgresql://nobody@127.0.0.1:1/nowhere").connect()
    with pytest.raises(DatabaseUnavailable), database_errors():
        psycopg.connect("postgresql://nobody@127.0.0.1:1/nowhere")
    engine = make_database_engine(server)
    with pytest.raises(DBAPIError), database_errors(), engine.connect() as connection:
        connection.execute(text("SELECT no_such_column"))


@pytest.mark.parametrize("url", ["not a url", "sqlite://", "mysql://a/b", ""])
def test_a_url_that_names_no_postgres(url: str) -> None:
    with pytest.raises(SettingsError, match="DATABASE_URL"):
        make_database_engine(url)


def test_statements_have_a_timeout(server: str) -> None:
    engine = make_database_engine(server, statement_timeout_ms=100)
    with pytest.raises(DatabaseUnavailable), database_errors(), engine.connect() as connection:
        connection.execute(text("SELECT pg_sleep(30)"))
