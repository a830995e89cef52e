"""What bad input gets: a 4xx problem that names the field, whatever the route; never a 500, nothing half stored."""

import base64
import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.factories import make_measurement, make_spec
from tests.problems import assert_problem

SPEC_ROUTES = {"/predict": "", "/measurements": "/spec"}
JSON = {"content-type": "application/json"}
NUMBERS = ["NaN", "Infinity", "-Infinity", "1e999", "-1", "1e18", "9" * 5000, "true", '"7"', "[]", "{}", '"seven"']
SPEC_FIELDS = [
    "/model/weight_bytes",
    "/model/num_parameters",
    "/model/num_layers",
    "/model/num_attention_layers",
    "/model/num_experts",
    "/model/tokenizer_bytes",
    "/hardware/gpu_count",
    "/hardware/gpu_memory_bytes",
    "/hardware/cpu_cores",
    "/hardware/cpu_quota_cores",
    "/hardware/cpu_busy_fraction",
    "/engine/tensor_parallel_size",
    "/engine/optimization_level",
    "/engine/num_cudagraph_sizes",
    "/engine/max_num_batched_tokens",
    "/cache/weights_cached_fraction",
]


def body_of(route: str) -> dict[str, Any]:
    spec = make_spec(hardware={"gpu": "NVIDIA H100 NVL"})
    return spec if route == "/predict" else make_measurement(spec=spec)


def put(body: dict[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    """Return ``body`` with ``value`` where ``pointer`` says."""
    changed = copy.deepcopy(body)
    *path, last = pointer.strip("/").split("/")
    place = changed
    for step in path:
        place = place.setdefault(step, {})
    place[last] = value
    return changed


def with_raw(body: dict[str, Any], pointer: str, raw: str) -> bytes:
    """Return ``body`` as JSON text with the text ``raw`` where ``pointer`` says."""
    return json.dumps(put(body, pointer, "@RAW@")).replace('"@RAW@"', raw).encode()


@pytest.fixture
def refused(client: TestClient) -> Iterator[Callable[..., dict[str, Any]]]:
    """Posts what must be refused, and checks afterwards that nothing was stored."""

    def post(route: str, content: bytes, pointer: str | None = None, status: int = 422, kind: str = "invalid-input"):
        return assert_problem(client.post(route, content=content, headers=JSON), status, kind, pointer)

    before = count(client)
    yield post
    assert count(client) == before


def count(client: TestClient) -> int:
    return sum(model["measurements"] for model in client.get("/models").json()["models"])


@pytest.mark.parametrize("route", SPEC_ROUTES)
@pytest.mark.parametrize("field", SPEC_FIELDS)
def test_numbers_of_a_spec(refused: Callable[..., Any], route: str, field: str) -> None:
    for raw in NUMBERS:
        if raw == "9" * 5000:  # Python's parser refuses it as a whole.
            refused(route, with_raw(body_of(route), SPEC_ROUTES[route] + field, raw), status=400, kind="invalid-body")
        elif raw in ("NaN", "Infinity", "-Infinity", "1e999") and route == "/measurements":
            problem = refused(route, with_raw(body_of(route), SPEC_ROUTES[route] + field, raw))
            assert field in problem["detail"]
        else:
            refused(route, with_raw(body_of(route), SPEC_ROUTES[route] + field, raw), SPEC_ROUTES[route] + field)


@pytest.mark.parametrize("field", ["/total_seconds", "/stages/model_loading", "/parts/weight_loading"])
def test_seconds_of_a_measurement(refused: Callable[..., Any], field: str) -> None:
    for raw in ["NaN", "-Infinity", "1e999", "-0.001", "86401", "true", '"7"', "[]"]:
        refused("/measurements", with_raw(body_of("/measurements"), field, raw), field)


STRINGS = [
    '"a\\u0000b"',
    '"\\ud800"',
    '"\\udfff x"',
    "7",
    "true",
    "[]",
    '""',
    '"  "',
    '"line\\nbreak"',
    f'"{"x" * 300}"',
]
STRING_FIELDS = ["/model/name", "/model/revision", "/model/dtype", "/hardware/gpu", "/hardware/cpu", "/hardware/node"]


@pytest.mark.parametrize("route", SPEC_ROUTES)
@pytest.mark.parametrize("field", [*STRING_FIELDS, "/engine/load_format", "/engine/version", "/hardware/storage"])
def test_strings_of_a_spec(refused: Callable[..., Any], route: str, field: str) -> None:
    for raw in STRINGS:
        refused(route, with_raw(body_of(route), SPEC_ROUTES[route] + field, raw), SPEC_ROUTES[route] + field)


@pytest.mark.parametrize("field", ["/id", "/source", "/agent_version", "/outcome", "/started_at"])
def test_strings_of_a_measurement(refused: Callable[..., Any], field: str) -> None:
    for raw in STRINGS:
        refused("/measurements", with_raw(body_of("/measurements"), field, raw), field)


@pytest.mark.parametrize("identifier", ["", "-x", "a b", "a/b", "é", "x" * 129, "a\n", "a\x00"])
def test_ids(refused: Callable[..., Any], identifier: str) -> None:
    refused("/measurements", json.dumps(put(body_of("/measurements"), "/id", identifier)).encode(), "/id")


@pytest.mark.parametrize("route", SPEC_ROUTES)
@pytest.mark.parametrize("field", ["/model", "/hardware", "/model/config", "/engine", "/cache"])
def test_objects(refused: Callable[..., Any], route: str, field: str) -> None:
    for raw in ["7", "true", "[]", "[1]"]:
        refused(route, with_raw(body_of(route), SPEC_ROUTES[route] + field, raw), SPEC_ROUTES[route] + field)


@pytest.mark.parametrize("field", ["/hardware", "/model", "/spec", "/spec/model/name", "/spec/hardware/gpu"])
def test_required_fields_of_a_spec(refused: Callable[..., Any], field: str) -> None:
    route = "/measurements" if field.startswith("/spec") else "/predict"
    body = put(body_of(route), field, "@DROP@")
    text = json.dumps(body).replace('"@DROP@"', "null")
    refused(route, text.encode(), field)
    parent = body
    *path, last = field.strip("/").split("/")
    for step in path:
        parent = parent[step]
    del parent[last]
    assert "is required" in str(refused(route, json.dumps(body).encode(), field))


@pytest.mark.parametrize("field", ["id", "started_at", "outcome", "total_seconds", "spec"])
def test_required_fields_of_a_measurement(refused: Callable[..., Any], field: str) -> None:
    body = body_of("/measurements")
    del body[field]
    refused("/measurements", json.dumps(body).encode(), f"/{field}")


@pytest.mark.parametrize(
    "field", ["/modle", "/model/weights", "/hardware/gpus", "/engine/tp", "/cache/weight", "/total_seconds"]
)
def test_predict_refuses_unknown_fields(refused: Callable[..., Any], field: str) -> None:
    problem = refused("/predict", json.dumps(put(body_of("/predict"), field, 1)).encode(), field)
    assert "spelling" in problem["detail"]


def test_unknown_fields_with_bad_names(refused: Callable[..., Any]) -> None:
    for name in ["a\\u0000b", "\\ud800", "a/b~c", "x" * 100_000, ""]:
        content = b'{"model": "a", "hardware": "b", "%s": 1}' % name.encode()
        problem = refused("/predict", content)
        assert len(problem["errors"][0]["pointer"]) <= 300


@pytest.mark.parametrize(
    "raw",
    [
        '{"a": NaN}',
        '{"a": [1, {"b": "\\u0000"}]}',
        '{"\\u0000": 1}',
        '{"\\ud800": 1}',
        '{"a": 1' + "0" * 30 + "}",
        '{"a": ' + "[" * 17 + "]" * 17 + "}",
        '{"a": "' + "x" * 300_000 + '"}',
    ],
    ids=["nan", "nul", "nul-key", "surrogate-key", "integer", "deep", "long"],
)
def test_free_json(refused: Callable[..., Any], raw: str) -> None:
    refused("/measurements", with_raw(body_of("/measurements"), "/facts", raw))
    refused("/measurements", with_raw(body_of("/measurements"), "/spec/model/config", raw))
    refused("/predict", with_raw(body_of("/predict"), "/model/config", raw))


@pytest.mark.parametrize(
    "field", ["/new_field", "/stages/new_stage", "/spec/new", "/spec/model/new", "/spec/cache/new"]
)
def test_unknown_fields_of_a_measurement_must_be_storable(refused: Callable[..., Any], field: str) -> None:
    for raw in ["NaN", '"\\u0000"', '{"a": "\\ud800"}', "1" + "0" * 30, "1e999"]:
        refused("/measurements", with_raw(body_of("/measurements"), field, raw))


@pytest.mark.parametrize("route", [*SPEC_ROUTES, "/predict/batch", "/measurements/batch"])
def test_what_is_no_json(refused: Callable[..., Any], route: str) -> None:
    contents = [b"{", b"model", b"{'model': 1}", b'{"model": "\xff"}', b"\xff\xfe\x00", b"{}x"]
    contents += [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000]
    for content in contents:
        refused(route, content, status=400, kind="invalid-body")


@pytest.mark.parametrize("route", [*SPEC_ROUTES, "/predict/batch", "/measurements/batch"])
def test_what_is_no_object(refused: Callable[..., Any], client: TestClient, route: str) -> None:
    for content in [b"", b"null", b"[]", b"7", b'"text"', b"true", b"NaN", b"[{}]"]:
        refused(route, content)
    plain = client.post(route, content=b"{}", headers={"content-type": "text/plain"})
    assert "application/json" in assert_problem(plain, 422, "invalid-input")["detail"]
    assert_problem(client.post(route, data={"model": "a"}), 422, "invalid-input")
    assert_problem(client.post(route, files={"model": b"a"}), 422, "invalid-input")


@pytest.mark.parametrize(
    "time",
    [
        "2026-11-01T12:00:00",
        "2026-11-01",
        "12:00Z",
        "yesterday",
        "1700000000",
        "2026-13-01T00:00:00Z",
        "2026-11-01T25:00:00Z",
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:59-14:00",
        "0001-01-01T00:00:00+14:00",
        1_700_000_000,
        1.5,
        None,
    ],
)
def test_times(refused: Callable[..., Any], time: Any) -> None:
    refused("/measurements", json.dumps(make_measurement(started_at=time)).encode(), "/started_at")


def test_sums_above_the_total(refused: Callable[..., Any]) -> None:
    over = [
        ({"stages": {"model_loading": 20.0, "torch_compile": 10.6}}, "/stages"),
        ({"stages": {"model_loading": 3.0}, "parts": {"weight_loading": 3.0, "model_init": 0.6}}, "/parts"),
        ({"stages": {}, "parts": {"weight_loading": 30.6}}, "/stages"),
        ({"parts": {"kernel_warmup": 3.6}}, "/stages"),
    ]
    for fields, pointer in over:
        problem = refused("/measurements", json.dumps(make_measurement(**fields)).encode(), pointer)
        assert "more than" in problem["detail"]


@pytest.mark.parametrize("route", ["/predict/batch", "/measurements/batch"])
def test_empty_and_oversized_batches(refused: Callable[..., Any], route: str) -> None:
    name = "specs" if route == "/predict/batch" else "measurements"
    for items in [[], [{}] * 10_001, {}, None, "text"]:
        refused(route, json.dumps({name: items}).encode(), f"/{name}")
    refused(route, b"{}", f"/{name}")


@pytest.mark.parametrize("route", [*SPEC_ROUTES, "/refits", "/fits/1/activate", "/measurements/a/accept"])
def test_bodies_over_a_mebibyte(client: TestClient, route: str) -> None:
    body = b'{"model": "' + b"x" * 1024 * 1024 + b'"}'
    assert_problem(client.post(route, content=body, headers=JSON), 413, "body-too-large")
    assert_problem(client.post(route, content=iter([body[:500_000], body[500_000:]])), 413, "body-too-large")
    assert_problem(client.post(route, content=b"", headers={"content-length": "9" * 30}), 413, "body-too-large")


@pytest.mark.parametrize("route", ["/predict/batch", "/measurements/batch"])
def test_batches_over_64_mebibytes(client: TestClient, route: str) -> None:
    chunk = b" " * 1024 * 1024
    problem = assert_problem(client.post(route, content=iter([chunk] * 65)), 413, "body-too-large")
    assert "64 MiB" in problem["detail"]
    assert_problem(client.post(route, content=iter([chunk] * 63)), 422, "invalid-input")


def test_query_parameters(client: TestClient) -> None:
    bad = {
        "model": ["%00", "a%1fb", "", "%20", "x" * 300],
        "gpu": ["%00", "", "x" * 300],
        "engine_version": ["%00", "", "x" * 65],
        "outcome": ["ok", "READY", "%00"],
        "status": ["fine", ""],
        "since": ["now", "2026-11-01T00:00:00", "1700000000", "%00", "0001-01-01T00:00:00%2B14:00"],
        "limit": ["0", "-1", "1001", "1.5", "ten", "", "9" * 30, "NaN"],
        "cursor": [
            "%00",
            "!",
            "e30",
            "bnVsbA",
            "x" * 1025,
            cursor('["2026-11-01T00:00:00", "a", "b"]'),
            cursor('["2026-11-01T00:00:00Z", "\\u0000", "b"]'),
            cursor('["2026-11-01T00:00:00Z", "\\ud800", "b"]'),
            cursor('["2026-11-01T00:00:00Z", 1, "b"]'),
            cursor('["2026-11-01T00:00:00Z", "a"]'),
            cursor("[" * 700),
            cursor('{"a": 1, "b": 2, "c": 3}'),
        ],
    }
    for name, values in bad.items():
        for value in values:
            assert_problem(client.get(f"/measurements?{name}={value}"), 422, "invalid-input", f"/query/{name}")
    for query in ["explain=maybe", "explain="]:
        assert_problem(client.post(f"/predict?{query}", json=make_spec()), 422, "invalid-input", "/query/explain")
    for seconds in ["-1", "301", "NaN", "inf", "-inf", "soon", ""]:
        response = client.post(f"/refits?wait_seconds={seconds}")
        assert_problem(response, 422, "invalid-input", "/query/wait_seconds")
    assert_problem(client.get("/fits?limit=0"), 422, "invalid-input", "/query/limit")


def cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def test_paths(client: TestClient) -> None:
    for fit_id in ["0", "-1", "one", "1.5", "%00", "9" * 30, "NaN"]:
        assert_problem(client.get(f"/fits/{fit_id}"), 422, "invalid-input", "/path/fit_id")
        assert_problem(client.post(f"/fits/{fit_id}/activate"), 422, "invalid-input", "/path/fit_id")
    assert_problem(client.get("/fits/9223372036854775807"), 404, "not-found")
    assert_problem(client.post("/fits/9223372036854775807/activate"), 404, "not-found")
    for measurement_id in ["%00", "a%00", "%ff", "é", "a%20b", "x" * 129]:
        assert_problem(client.get(f"/measurements/{measurement_id}"), 422, "invalid-input", "/path/measurement_id")
        assert_problem(client.post(f"/measurements/{measurement_id}/accept"), 422, "invalid-input")
    assert_problem(client.get("/measurements/nobody"), 404, "not-found")
    assert_problem(client.post("/measurements/nobody/accept"), 404, "not-found")
    assert_problem(client.get("/measurements/a?source=%00"), 422, "invalid-input", "/query/source")
    assert_problem(client.get("/nowhere"), 404, "http-404")
    assert_problem(client.get("/predict"), 405, "http-405")
    assert_problem(client.delete("/measurements"), 405, "http-405")


def test_unknown_model_without_facts(refused: Callable[..., Any]) -> None:
    body = {"model": "nobody/knows-this", "hardware": "NVIDIA H100 NVL"}
    problem = refused("/predict", json.dumps(body).encode(), kind="unknown-model")
    assert "weight_bytes" in problem["detail"]


def test_a_batch_of_specs_keeps_each_problem_in_its_place(client: TestClient) -> None:
    good = make_spec()
    specs = [good, {"model": "x"}, 7, {"model": "nobody/knows-this", "hardware": "NVIDIA H100 NVL"}, good]
    content = json.dumps({"specs": specs}).replace("7,", "NaN,").encode()
    predictions = client.post("/predict/batch", content=content, headers=JSON).json()["predictions"]
    kinds = [p.get("type", "prediction").removeprefix("urn:coldcast:problem:") for p in predictions]
    assert kinds == ["prediction", "invalid-input", "invalid-input", "unknown-model", "prediction"]
    assert predictions[0] == predictions[4] == client.post("/predict", json=good).json()
    assert predictions[1]["errors"][0]["pointer"] == "/hardware"
