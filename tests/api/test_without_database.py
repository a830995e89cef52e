"""Postgres goes away and comes back: predictions go on, measurements are asked to wait, nothing has to be restarted."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event

from app.database.embedded import embedded_postgres
from app.database.engine import Sessions, make_database_engine, sessions_of
from app.database.fits import find_fit, publish_fit
from app.database.migrate import upgrade
from app.database.tables import FitRow
from app.refit import refit_once
from app.settings import Settings
from tests.conftest import running_app
from tests.factories import make_measurement, make_spec, store
from tests.problems import assert_problem
from tests.waiting import eventually

SPEC = make_spec()


def test_predict_makes_no_database_call(live: TestClient) -> None:
    statements: list[str] = []

    def note(*arguments: object) -> None:
        if not threading.current_thread().name.startswith("listen-"):  # It looks for a new champion, as it should.
            statements.append(str(arguments[2]))

    engine = live.app.state.sessions.kw["bind"]
    event.listen(engine, "before_cursor_execute", note)
    assert live.post("/predict?explain=true", json=SPEC).status_code == 200
    assert live.post("/predict/batch", json={"specs": [SPEC, SPEC]}).status_code == 200
    assert live.get("/livez").status_code == 200
    assert live.get("/stages").status_code == 200
    assert live.post("/predict", json={"model": "nobody/knows", "hardware": "x"}).status_code == 422
    assert statements == []
    assert live.post("/measurements", json=make_measurement()).status_code == 201
    assert statements  # So the list would have told.


@pytest.fixture
def own_server(data_dir: Path) -> Iterator[tuple[ExitStack, str]]:
    """A Postgres of its own with a quick fit, as a stack that stops it when it is closed, and its URL."""
    with ExitStack() as stack:
        url = stack.enter_context(embedded_postgres(data_dir))
        engine = make_database_engine(url)
        upgrade(engine)
        store(sessions_of(engine), *(make_measurement() for _ in range(3)))
        refit_once(sessions_of(engine))
        yield stack, url


def test_an_outage(data_dir: Path, own_server: tuple[ExitStack, str]) -> None:
    running, url = own_server
    with running_app(Settings(database_url=url)) as client:
        expected = client.post("/predict", json=SPEC).json()
        wire = make_measurement()
        assert client.post("/measurements", json=wire).status_code == 201
        running.close()

        assert client.post("/predict", json=SPEC).json() == expected
        assert client.post("/predict/batch", json={"specs": [SPEC]}).json() == {"predictions": [expected]}
        assert client.get("/livez").status_code == 200
        ready = client.get("/readyz").json()
        assert (ready["status"], ready["database"]) == ("ready", "unreachable")
        assert "coldcast_database_reachable 0.0" in client.get("/metrics").text
        for method, path, body in [
            ("POST", "/measurements", make_measurement()),
            ("POST", "/measurements/batch", {"measurements": [make_measurement()]}),
            ("GET", "/measurements", None),
            ("GET", f"/measurements/{wire['id']}", None),
            ("POST", f"/measurements/{wire['id']}/accept", None),
            ("POST", "/refits", None),
            ("GET", "/fits", None),
            ("GET", "/fits/champion", None),
            ("GET", "/fits/1", None),
            ("POST", "/fits/1/activate", None),
            ("GET", "/models", None),
            ("GET", "/hardware", None),
        ]:
            response = client.request(method, path, json=body)
            problem = assert_problem(response, 503, "database-unavailable")
            assert int(response.headers["retry-after"]) > 0, path
            assert "again" in problem["detail"]
        assert_problem(client.post("/measurements", json={}), 422, "invalid-input")

        with embedded_postgres(data_dir):
            again = client.post("/measurements", json=wire)
            assert again.status_code == 200, again.text
            assert client.post("/measurements", json=make_measurement()).status_code == 201
            assert client.get("/readyz").json()["database"] == "reachable"
            assert client.post("/predict", json=SPEC).json() == expected


def test_without_a_fit_nothing_is_predicted_but_measurements_are_kept(
    empty_database: str, empty_sessions: Sessions
) -> None:
    with running_app(Settings(database_url=empty_database)) as client:
        response = client.post("/predict", json=SPEC)
        assert "coldcast migrate" in assert_problem(response, 503, "not-ready")["detail"]
        assert response.headers["retry-after"]
        assert_problem(client.get("/readyz"), 503, "not-ready")
        assert_problem(client.get("/fits/champion"), 503, "not-ready")
        assert client.get("/fits").json() == {"fits": []}
        assert client.get("/livez").json() == {"status": "alive"}
        assert client.post("/measurements", json=make_measurement()).json()["prediction"] is None
        refit_once(empty_sessions)
        eventually(lambda: client.get("/readyz").status_code == 200)
        assert client.post("/predict", json=SPEC).json()["basis"]["measurements"] == 1


def test_a_new_champion_answers_at_once(live: TestClient) -> None:
    first = live.get("/readyz").json()["fit_id"]
    sessions = live.app.state.sessions
    with sessions.begin() as session:
        old = find_fit(session, first)
        row = FitRow(
            status="promoted",
            reason="test",
            fingerprint="x",
            measurements=1,
            content=old.content,
            scores={},
            left_out=[],
        )
        assert publish_fit(session, row, expected_champion=first)
    eventually(lambda: live.post("/predict", json=SPEC).json()["basis"]["fit_id"] == row.id)
