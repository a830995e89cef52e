"""Liveness, readiness and metrics."""

from fastapi.testclient import TestClient

from tests.factories import make_measurement, make_spec


def test_liveness_and_readiness(client: TestClient) -> None:
    assert client.get("/livez").json() == {"status": "alive"}
    ready = client.get("/readyz").json()
    fit_id = client.get("/fits/champion").json()["id"]
    assert ready == {"status": "ready", "fit_id": fit_id, "database": "reachable"}


def test_metrics(live: TestClient) -> None:
    live.post("/predict", json=make_spec())
    for number in range(3):
        live.post("/measurements", json=make_measurement(total_seconds=100.0 + number))
    response = live.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    values = dict(line.rsplit(" ", 1) for line in response.text.splitlines() if not line.startswith("#"))
    assert float(values["coldcast_fit_id"]) == live.get("/readyz").json()["fit_id"]
    assert 0 < float(values["coldcast_fit_age_seconds"]) < 3600
    assert float(values["coldcast_database_reachable"]) == 1.0
    for name in ("error_ratio", "bias_seconds", "coverage_ratio"):
        assert any(key.startswith(f"coldcast_live_{name}") and 'stage="total"' in key for key in values), name
    assert any(key.startswith("http_request") and 'handler="/predict"' in key for key in values)
