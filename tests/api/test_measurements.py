"""Measurements over the wire: what is stored, shown, repeated and refused."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.database.engine import Sessions
from app.schemas.records import MeasurementStatus
from tests.concurrency import at_once
from tests.factories import SIX, make_measurement, make_model, make_spec, store
from tests.problems import assert_problem


def post(client: TestClient, wire: dict[str, Any], status: int = 201) -> dict[str, Any]:
    response = client.post("/measurements", json=wire)
    assert response.status_code == status, response.text
    record: dict[str, Any] = response.json()
    return record


def batch(client: TestClient, *wires: Any) -> list[dict[str, Any]]:
    response = client.post("/measurements/batch", json={"measurements": wires})
    assert response.status_code == 200, response.text
    results: list[dict[str, Any]] = response.json()["results"]
    return results


def test_what_was_posted_is_shown(client: TestClient) -> None:
    spec = make_spec(hardware={"gpu": "NVIDIA H100 NVL", "gpu_count": 1})
    facts = {"host": "a", "n": [1, None]}
    wire = make_measurement(spec=spec, parts={"weight_loading": 5.5}, agent_version="0.1.0", facts=facts)
    record = post(client, wire)
    assert client.get(f"/measurements/{wire['id']}").json() == record
    for field in ("id", "source", "outcome", "total_seconds", "parts", "spec", "agent_version", "facts"):
        assert record[field] == wire[field], field
    assert record["started_at"] == "2026-11-01T12:00:00Z"
    assert record["stages"] == SIX | {"other": 3.0}
    assert record["unattributed_seconds"] is None
    assert (record["status"], record["status_reason"]) == ("accepted", None)
    received = datetime.fromisoformat(record["received_at"])
    assert timedelta(0) <= datetime.now(UTC) - received < timedelta(minutes=5)


def test_only_what_is_required(client: TestClient) -> None:
    spec = {"model": {"name": "a"}, "hardware": {"gpu": "b"}}
    wire = {
        "id": "least",
        "started_at": "2026-11-01T13:00:00+01:00",
        "outcome": "ready",
        "total_seconds": 1,
        "spec": spec,
    }
    record = post(client, wire)
    assert record["started_at"] == "2026-11-01T12:00:00Z"
    assert record["spec"] == spec
    assert record["source"] == "agent"
    assert record["stages"] == {}
    assert record["unattributed_seconds"] == 1.0


def test_short_forms_are_stored(client: TestClient) -> None:
    record = post(client, make_measurement(spec={"model": "short/name", "hardware": "NVIDIA L40S"}))
    assert record["spec"] == {"model": {"name": "short/name"}, "hardware": {"gpu": "NVIDIA L40S"}}


def test_a_stage_that_was_not_observed_leaves_the_rest_unattributed(client: TestClient) -> None:
    stages = {name: seconds for name, seconds in SIX.items() if name != "torch_compile"}
    record = post(client, make_measurement(stages=stages))
    assert record["stages"] == stages
    assert record["unattributed_seconds"] == pytest.approx(13.0)


def test_a_stage_of_zero_seconds_did_not_happen(client: TestClient) -> None:
    record = post(client, make_measurement(stages={**SIX, "cuda_graph_capture": 0.0}))
    assert record["stages"]["cuda_graph_capture"] == 0.0
    assert record["stages"]["other"] == pytest.approx(4.0)


def test_sums_may_exceed_the_total_by_the_slack(client: TestClient) -> None:
    post(client, make_measurement(total_seconds=26.5))  # 27.0 is half a second more.
    assert_problem(client.post("/measurements", json=make_measurement(total_seconds=26.4)), 422, "invalid-input")
    post(client, make_measurement(total_seconds=1000.0, stages={"model_loading": 1010.0}))  # One per cent.
    over = make_measurement(total_seconds=1000.0, stages={"model_loading": 1010.1})
    assert_problem(client.post("/measurements", json=over), 422, "invalid-input", "/stages")
    assert post(client, make_measurement(total_seconds=26.8))["stages"]["other"] == 0.0


def test_limits_are_inclusive(client: TestClient) -> None:
    post(client, make_measurement(total_seconds=86_400, stages={"model_loading": 86_400}))
    post(client, make_measurement(total_seconds=0, stages={}))
    ahead = (datetime.now(UTC) + timedelta(minutes=4)).isoformat()
    post(client, make_measurement(started_at=ahead))
    too_far = (datetime.now(UTC) + timedelta(minutes=6)).isoformat()
    assert_problem(
        client.post("/measurements", json=make_measurement(started_at=too_far)), 422, "invalid-input", "/started_at"
    )
    post(client, make_measurement(source="s" * 64))
    assert_problem(
        client.post("/measurements", json=make_measurement(source="s" * 65)), 422, "invalid-input", "/source"
    )


@pytest.mark.parametrize("outcome", ["failed", "timed_out"])
def test_startups_that_failed_are_kept_but_not_predicted(client: TestClient, outcome: str) -> None:
    facts = {"stage": "model_loading", "last_error": "CUDA out of memory"}
    record = post(client, make_measurement(outcome=outcome, facts=facts))
    assert record["outcome"] == outcome
    assert record["facts"] == facts
    assert record["prediction"] is None


def test_fields_of_a_newer_agent_are_kept_under_facts(client: TestClient) -> None:
    spec = make_spec(hardware={"gpu": "NVIDIA L40S", "numa_nodes": 2}, engine={"version": "0.12.0", "new": {"a": 1}})
    wire = make_measurement(spec={**spec, "tenant": "x"}, stages={**SIX, "warm_up": 1.5}, new_field=[1, "b"])
    kept = post(client, wire)["facts"]["unknown_fields"]
    assert kept == {
        "new_field": [1, "b"],
        "stages.warm_up": 1.5,
        "spec.tenant": "x",
        "spec.hardware.numa_nodes": 2,
        "spec.engine.new": {"a": 1},
    }


def test_the_champion_predicts_it_before_it_is_stored(client: TestClient) -> None:
    wire = make_measurement()
    expected = client.post("/predict", json=wire["spec"]).json()
    prediction = post(client, wire)["prediction"]
    assert prediction["fit_id"] == expected["basis"]["fit_id"]
    assert prediction["rung"] == expected["basis"]["rung"]
    for field in ("lower_seconds", "upper_seconds"):
        assert prediction[field] == expected["total"][field]
    assert prediction["total_seconds"] == expected["total"]["seconds"]
    assert prediction["stages"] == {
        s["stage"]: [s["seconds"], s["lower_seconds"], s["upper_seconds"]] for s in expected["stages"]
    }


def test_a_model_nobody_knows_is_stored_without_a_prediction(client: TestClient) -> None:
    assert post(client, make_measurement(spec=make_spec(model="nobody/knows")))["prediction"] is None


def test_the_same_id_again(client: TestClient) -> None:
    wire = make_measurement(total_seconds=30.0, facts={"a": 1, "b": 2.0})
    record = post(client, wire)
    assert post(client, wire, status=200) == record
    assert post(client, {**wire, "total_seconds": 30, "facts": {"b": 2, "a": 1.0}}, status=200) == record
    for change in ({"total_seconds": 30.1}, {"facts": {}}, {"new": 1}, {"agent_version": "2"}, {"outcome": "failed"}):
        response = client.post("/measurements", json={**wire, **change})
        assert_problem(response, 409, "conflict")
    assert client.get(f"/measurements/{wire['id']}").json() == record


def test_an_id_of_two_reporters(client: TestClient) -> None:
    wire = make_measurement(id="of-two")
    for source in ("a", "b"):
        post(client, {**wire, "source": source})
    problem = assert_problem(client.get("/measurements/of-two"), 422, "invalid-input", "/query/source")
    assert problem["candidates"] == ["a", "b"]
    assert client.get("/measurements/of-two?source=b").json()["source"] == "b"
    assert_problem(client.get("/measurements/of-two?source=c"), 404, "not-found")


def test_a_batch_keeps_places(client: TestClient) -> None:
    old, new, other = make_measurement(), make_measurement(), make_measurement()
    post(client, old)
    results = batch(
        client,
        new,
        {**old, "total_seconds": 99.0},
        {**new},
        {**new, "total_seconds": 99.0},
        {**other, "total_seconds": -1},
        other,
        old,
        "text",
        {"id": "a\x00b"},
    )
    assert [r["index"] for r in results] == list(range(9))
    assert [r["status"] for r in results] == [
        "created",
        "conflict",
        "unchanged",
        "conflict",
        "invalid",
        "created",
        "unchanged",
        "invalid",
        "invalid",
    ]
    ids = [new["id"], old["id"], new["id"], new["id"], other["id"], other["id"], old["id"], None, None]
    assert [r["id"] for r in results] == ids
    for result in results:
        assert (result["problem"] is not None) == (result["status"] in ("conflict", "invalid"))
    assert results[4]["problem"]["errors"][0]["pointer"] == "/total_seconds"
    assert results[1]["problem"]["status"] == 409
    assert client.get(f"/measurements/{old['id']}").json()["total_seconds"] == 30.0


def test_a_batch_that_repeats_an_invalid_id_stores_the_valid_one(client: TestClient) -> None:
    wire = make_measurement()
    results = batch(client, {**wire, "outcome": "fine"}, wire)
    assert [r["status"] for r in results] == ["invalid", "created"]
    assert client.get(f"/measurements/{wire['id']}").status_code == 200


def test_a_batch_stores_what_a_single_post_stores(client: TestClient) -> None:
    first, second = make_measurement(), make_measurement()
    batch(client, first)
    post(client, second)
    one, two = (client.get(f"/measurements/{wire['id']}").json() for wire in (first, second))
    own = {"id", "received_at"}
    assert {k: v for k, v in one.items() if k not in own} == {k: v for k, v in two.items() if k not in own}


def test_a_batch_holds_ten_thousand(client: TestClient) -> None:
    results = batch(client, *[{"id": f"bad-{i}"} for i in range(9_999)], make_measurement())
    assert [r["id"] for r in results[:-1]] == [f"bad-{i}" for i in range(9_999)]
    assert results[-1]["status"] == "created"


def test_pages_newest_first(client: TestClient) -> None:
    model = make_model(name="paged/model")
    wires = [make_measurement(spec=make_spec(model=model)) for _ in range(7)]
    for wire in wires:
        post(client, wire)
    seen: list[str] = []
    query: dict[str, Any] = {"model": "Paged/Model", "limit": 3}
    while True:
        page = client.get("/measurements", params=query).json()
        seen += [record["id"] for record in page["measurements"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert seen == [wire["id"] for wire in reversed(wires)]


def test_filters(client: TestClient) -> None:
    spec = make_spec(model=make_model(name="f/m"), hardware="NVIDIA F9", engine={"version": "7.7"})
    wire = make_measurement(spec=spec, outcome="failed")
    received_at = post(client, wire)["received_at"]
    for query in [
        {"model": "F/M"},
        {"gpu": "f9"},
        {"engine_version": "7.7"},
        {"outcome": "failed"},
        {"since": received_at},
        {"since": received_at.replace("Z", "+00:00"), "status": "accepted", "gpu": "F9"},
    ]:
        found = client.get("/measurements", params=query).json()["measurements"]
        assert [record["id"] for record in found] == [wire["id"]], query
    assert client.get("/measurements", params={"status": "quarantined"}).json()["measurements"] == []


def test_an_operator_takes_a_quarantined_one_back(client: TestClient, sessions: Sessions) -> None:
    (suspect,) = store(sessions, make_measurement(), status=MeasurementStatus.QUARANTINED)
    assert client.get("/measurements?status=quarantined").json()["measurements"][0]["id"] == suspect
    record = client.post(f"/measurements/{suspect}/accept").json()
    assert (record["status"], record["status_reason"]) == ("accepted", "accepted by an operator")
    assert client.get("/measurements?status=quarantined").json()["measurements"] == []
    assert client.post(f"/measurements/{suspect}/accept").json() == record


def test_accepting_what_was_never_quarantined_changes_nothing(client: TestClient) -> None:
    record = post(client, make_measurement())
    assert client.post(f"/measurements/{record['id']}/accept").json() == record


def test_ten_clients_at_once_make_one_row(live: TestClient) -> None:
    wire = make_measurement()
    codes = at_once([lambda: live.post("/measurements", json=wire).status_code] * 10)
    assert sorted(codes) == [200] * 9 + [201]
    page = live.get("/measurements", params={"model": wire["spec"]["model"]["name"]}).json()
    assert [record["id"] for record in page["measurements"]] == [wire["id"]]


def test_ten_clients_with_other_content_make_one_row_and_nine_conflicts(live: TestClient) -> None:
    wires = [make_measurement(id="contested", total_seconds=30.0 + i) for i in range(10)]
    responses = at_once([lambda wire=wire: live.post("/measurements", json=wire) for wire in wires])
    assert sorted(r.status_code for r in responses) == [201] + [409] * 9
    (winner,) = [r.json() for r in responses if r.status_code == 201]
    assert live.get("/measurements/contested").json() == winner


def test_batches_and_single_posts_at_once(live: TestClient) -> None:
    wires = [make_measurement() for _ in range(40)]

    def single() -> list[str]:
        codes = [live.post("/measurements", json=wire).status_code for wire in wires]
        return [{201: "created", 200: "unchanged"}[code] for code in codes]

    def together(order: list[dict[str, Any]]) -> list[str]:
        return [r["status"] for r in live.post("/measurements/batch", json={"measurements": order}).json()["results"]]

    outcomes = at_once([single, lambda: together(wires), lambda: together(wires[::-1])[::-1]])
    for statuses in zip(*outcomes, strict=True):
        assert sorted(statuses) == ["created", "unchanged", "unchanged"]
