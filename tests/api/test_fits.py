"""Fits and refits over the wire: listed, shown, rolled back and forward, asked for."""

import threading
import time
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.database.engine import Sessions
from app.database.fits import finish_refits, open_refits, publish_fit
from app.database.tables import FitRow
from app.schemas.fits import RefitOutcome
from tests.factories import make_measurement, make_spec
from tests.problems import assert_problem
from tests.waiting import eventually


def add_fit(sessions: Sessions, *, status: str = "promoted", expected: int | None = None) -> int:
    with sessions.begin() as session:
        row = FitRow(
            status=status,
            reason="for a test",
            fingerprint="x",
            measurements=3,
            content={"format_version": 999},
            scores={"candidate": {"mape": 0.1}},
            left_out=[{"key": "a/b", "part": None, "reason": "why"}],
        )
        publish_fit(session, row, expected_champion=expected)
        return row.id


def champion(client: TestClient) -> dict[str, Any]:
    response = client.get("/fits/champion")
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def test_the_first_fit_is_listed_and_shown(client: TestClient) -> None:
    (summary,) = client.get("/fits").json()["fits"]
    assert summary["champion"]
    assert summary["status"] == "promoted"
    assert summary["measurements"] > 500
    detail = client.get(f"/fits/{summary['id']}").json()
    assert detail | summary == detail
    assert detail["content"]["format_version"] >= 1
    assert detail["scores"]
    now = champion(client)
    assert {key: now[key] for key in detail} == detail
    assert not now["pinned"]
    assert (now["live"], now["drifting"]) == ([], False)


def test_fits_newest_first(client: TestClient, sessions: Sessions) -> None:
    first = champion(client)["id"]
    added = [add_fit(sessions, status="rejected") for _ in range(3)]
    listed = client.get("/fits?limit=3").json()["fits"]
    assert [fit["id"] for fit in listed] == added[::-1]
    assert not any(fit["champion"] for fit in listed)
    assert client.get(f"/fits/{added[0]}").json()["left_out"] == [{"key": "a/b", "part": None, "reason": "why"}]
    assert champion(client)["id"] == first


def test_rolling_back_and_forward(client: TestClient, sessions: Sessions) -> None:
    first = champion(client)["id"]
    second = add_fit(sessions, expected=first)
    assert champion(client)["id"] == second
    assert client.post(f"/fits/{first}/activate").json()["champion"]
    assert (champion(client)["id"], champion(client)["pinned"]) == (first, True)
    third = add_fit(sessions, expected=first)  # A refit does not undo it,
    assert champion(client)["id"] == first
    client.post(f"/fits/{third}/activate")  # and activating the newest ends it.
    assert (champion(client)["id"], champion(client)["pinned"]) == (third, False)
    newest = add_fit(sessions, expected=third)
    assert champion(client)["id"] == newest


def test_a_refit_that_nobody_does_in_time(client: TestClient, sessions: Sessions) -> None:
    started = time.monotonic()
    response = client.post("/refits?wait_seconds=0.2")
    assert response.status_code == 202
    assert 0.2 <= time.monotonic() - started < 10
    refit = response.json()
    assert refit["outcome"] is refit["finished_at"] is refit["reason"] is refit["fit_id"] is None
    with sessions() as session:
        assert open_refits(session) == [refit["id"]]


@pytest.mark.parametrize("outcome", RefitOutcome)
def test_a_refit_that_is_done(live: TestClient, outcome: RefitOutcome) -> None:
    sessions, done = live.app.state.sessions, threading.Event()

    def finish() -> None:
        def asked() -> list[int]:
            with sessions() as session:
                return open_refits(session)

        refit_ids = eventually(asked)
        with sessions.begin() as session:
            finish_refits(session, refit_ids, outcome, "because", None)
        done.set()

    thread = threading.Thread(target=finish)
    thread.start()
    response = live.post("/refits?wait_seconds=60")
    thread.join(60)
    assert done.is_set()
    assert response.status_code == 200
    assert (response.json()["outcome"], response.json()["reason"]) == (outcome.value, "because")
    assert response.json()["finished_at"] >= response.json()["requested_at"]


@pytest.fixture
def measured(client: TestClient) -> list[dict[str, Any]]:
    """Ten measurements far from what the champion says."""
    spec = make_spec(hardware="NVIDIA L40S", engine={"version": "0.10.1.1"})
    wires = [make_measurement(total_seconds=900.0 + n, spec=spec) for n in range(10)]
    return [client.post("/measurements", json=wire).json() for wire in wires]


def test_live_error_of_the_stored_predictions(client: TestClient, measured: list[dict[str, Any]]) -> None:
    now = champion(client)
    (total,) = [row for row in now["live"] if row["stage"] is None]
    predicted = measured[0]["prediction"]["total_seconds"]
    assert (total["gpu"], total["engine_version"], total["measurements"]) == ("l40s", "0.10", 10)
    assert total["bias_seconds"] == pytest.approx(predicted - 904.5)  # The mean of 900 to 909 s.
    assert total["mean_absolute_percentage_error"] == pytest.approx(
        sum(abs(predicted - m["total_seconds"]) / m["total_seconds"] for m in measured) / 10
    )
    assert total["coverage"] == 0.0
    assert total["drifting"]
    assert now["drifting"]


def test_measurements_that_nobody_could_predict_are_no_part_of_live_error(client: TestClient) -> None:
    client.post("/measurements", json=make_measurement(spec=make_spec(model="nobody/knows")))
    client.post("/measurements", json=make_measurement(outcome="failed"))
    client.post("/measurements/batch", json={"measurements": [make_measurement(outcome="failed")]})
    assert champion(client)["live"] == []


def test_an_unknown_fit(client: TestClient) -> None:
    assert "GET /fits" in assert_problem(client.get("/fits/999999"), 404, "not-found")["detail"]
