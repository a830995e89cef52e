"""Fixtures that every test may use: one real Postgres a worker, and an app on it whose changes are rolled back."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import hypothesis
import pytest
import structlog
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import Engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session, sessionmaker

from app.champion import Champion
from app.database.embedded import embedded_postgres
from app.database.engine import Sessions, make_database_engine, sessions_of
from app.database.migrate import upgrade
from app.importing import import_reference
from app.main import create_app
from app.refit import refit_once
from app.settings import Settings

ROOT = Path(__file__).resolve().parent.parent

# The same examples in every run: a red test is then the change's doing. Machines differ, so time is no criterion.
hypothesis.settings.register_profile(
    "coldcast",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("coldcast")
structlog.configure(processors=[structlog.processors.format_exc_info, structlog.processors.JSONRenderer()])


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of third parties' logs and tables beside a developer's checkout; it is no part of the project."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        reason = (
            f"needs {folder.name}/ beside the checkout: third parties' logs and tables that the project may not ship"
        )
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder of its own under /tmp: pytest's own are closed to the user whom root runs Postgres as."""
    with tempfile.TemporaryDirectory(prefix="coldcast-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """An empty data directory."""
    with temporary_folder() as folder:
        yield folder / "data"


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """URL of this worker's Postgres."""
    with temporary_folder() as folder, embedded_postgres(folder) as url:
        yield url


@pytest.fixture(scope="session")
def new_database(server: str) -> Iterator[Callable[[str | None], str]]:
    """Makes a database, empty or a copy of a template that nobody is connected to, and returns its URL."""
    engine = make_database_engine(server).execution_options(isolation_level="AUTOCOMMIT")
    numbers = count(1)

    def create(template: str | None) -> str:
        name = f"test_{next(numbers)}"
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template or 'template0'}"))
        return make_url(server).set(database=name).render_as_string(hide_password=False)

    yield create
    engine.dispose()


@pytest.fixture(scope="session")
def template(new_database: Callable[[str | None], str]) -> str:
    """Name of a database as `coldcast migrate` leaves a fresh one: tables, reference measurements, the first fit."""
    url = new_database(None)
    engine = make_database_engine(url)
    upgrade(engine)
    import_reference(sessions_of(engine))
    report = refit_once(sessions_of(engine))
    assert report is not None
    assert report.outcome == "promoted", report
    return make_url(url).database or ""


@pytest.fixture
def empty_database(new_database: Callable[[str | None], str]) -> str:
    """URL of a database without tables, for this test alone."""
    return new_database(None)


@pytest.fixture
def empty_sessions(empty_database: str) -> Iterator[Sessions]:
    """Sessions on a database with tables and nothing in them."""
    engine = make_database_engine(empty_database, pool_size=2)
    upgrade(engine)
    yield sessions_of(engine)
    engine.dispose()


@pytest.fixture
def own_database(new_database: Callable[[str | None], str], template: str) -> str:
    """URL of a prepared database for this test alone: for what needs several connections or processes."""
    return new_database(template)


@pytest.fixture
def own_sessions(own_database: str) -> Iterator[Sessions]:
    """Sessions on this test's own database."""
    engine = make_database_engine(own_database, pool_size=12)
    yield sessions_of(engine)
    engine.dispose()


@pytest.fixture(scope="session")
def engine(new_database: Callable[[str | None], str], template: str) -> Iterator[Engine]:
    """Engine on the prepared database that tests share and leave as they found it."""
    engine = make_database_engine(new_database(template), pool_size=1)
    yield engine
    engine.dispose()


@pytest.fixture
def sessions(engine: Engine) -> Iterator[Sessions]:
    """Sessions that commit as in production, into an outer transaction which is rolled back after the test."""
    with engine.connect() as connection:
        outer = connection.begin()
        yield sessionmaker(connection, expire_on_commit=False, join_transaction_mode="create_savepoint")
        outer.rollback()


@pytest.fixture
def session(sessions: Sessions) -> Iterator[Session]:
    """One session of ``sessions``, in a transaction."""
    with sessions.begin() as session:
        yield session


@pytest.fixture(scope="session")
def shared_app(engine: Engine) -> FastAPI:
    """The app that ``app`` lends to each test."""
    return create_app(Settings(database_url=engine.url.render_as_string(hide_password=False)))


@pytest.fixture
def app(shared_app: FastAPI, sessions: Sessions) -> FastAPI:
    """The app on ``sessions``, with the first fit loaded."""
    champion = Champion(sessions)
    champion.reload()
    shared_app.state.sessions, shared_app.state.champion = sessions, champion
    return shared_app


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    """A client of ``app``; a defect in a route is raised into the test, with its trace."""
    return TestClient(app)


@contextmanager
def running_app(settings: Settings) -> Iterator[TestClient]:
    """Run an app as a server does, with its own pool and its LISTEN connection."""
    with TestClient(create_app(settings)) as client:
        yield client


@pytest.fixture
def live(own_database: str) -> Iterator[TestClient]:
    """A client of a running app on this test's own database."""
    with running_app(Settings(database_url=own_database)) as client:
        yield client
