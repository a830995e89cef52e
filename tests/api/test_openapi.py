"""The OpenAPI document: every field described, every route with an example that runs as it stands."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from app.api import examples

METHODS = ("get", "post", "put", "delete", "patch")


@pytest.fixture
def document(app: FastAPI) -> dict[str, Any]:
    return app.openapi()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item[method]


def test_the_pages_are_served(client: TestClient) -> None:
    assert "swagger" in client.get("/docs").text.lower()
    assert client.get("/openapi.json").json()["info"]["title"] == "Coldcast"


def test_every_route_of_the_design_is_documented(document: dict[str, Any]) -> None:
    routes = {(method, path) for path, method, _ in operations(document)}
    assert routes >= {
        ("post", "/predict"),
        ("post", "/predict/batch"),
        ("post", "/measurements"),
        ("post", "/measurements/batch"),
        ("get", "/measurements"),
        ("get", "/measurements/{measurement_id}"),
        ("post", "/refits"),
        ("get", "/fits"),
        ("get", "/fits/champion"),
        ("get", "/fits/{fit_id}"),
        ("post", "/fits/{fit_id}/activate"),
        ("get", "/models"),
        ("get", "/hardware"),
        ("get", "/stages"),
        ("get", "/livez"),
        ("get", "/readyz"),
        ("get", "/metrics"),
    }


def test_every_field_is_described(document: dict[str, Any]) -> None:
    bare = [
        f"{name}.{field}"
        for name, schema in document["components"]["schemas"].items()
        for field, content in schema.get("properties", {}).items()
        if not content.get("description")
    ]
    bare += [name for name, schema in document["components"]["schemas"].items() if not schema.get("description")]
    assert not bare


def test_every_route_and_parameter_is_described(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        assert operation["description"], (path, method)
        for parameter in operation.get("parameters", []):
            assert parameter["description"], (path, parameter["name"])
        for status, response in operation["responses"].items():
            assert response["description"], (path, status)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            if isinstance(reference := value.get("$ref"), str):
                yield reference
            for item in value.values():
                yield from references(item)
        elif isinstance(value, list):
            for item in value:
                yield from references(item)

    for reference in set(references(document)):
        place: Any = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]
        assert place


def test_every_problem_is_documented_as_one(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        for status, response in operation["responses"].items():
            if status == "default" or int(status) >= 400:
                assert list(response["content"]) == ["application/problem+json"], (path, method, status)


def test_every_body_has_an_example(document: dict[str, Any]) -> None:
    for path, _, operation in operations(document):
        if "requestBody" in operation:
            assert operation["requestBody"]["content"]["application/json"]["examples"], path


def test_every_example_runs_as_it_stands(client: TestClient, document: dict[str, Any]) -> None:
    ran = 0
    for path, method, operation in operations(document):
        bodies = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("examples", {})
        for name, example in bodies.items():
            response = client.request(method, path, json=example["value"])
            assert response.status_code in (200, 201), (path, name, response.text)
            assert "problem" not in json.dumps(response.json().get("predictions", [])), (path, name)
            ran += 1
    assert ran == sum(
        map(len, (examples.SPEC, examples.BATCH_SPECS, examples.MEASUREMENT, examples.BATCH_MEASUREMENTS))
    )


def test_batch_examples_are_all_accepted(client: TestClient) -> None:
    for example in examples.BATCH_MEASUREMENTS.values():
        results = client.post("/measurements/batch", json=example["value"]).json()["results"]
        assert {result["status"] for result in results} == {"created"}


def test_every_field_name_with_a_unit_is_a_number(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        for field, content in schema.get("properties", {}).items():
            kinds = {kind.get("type") for kind in content.get("anyOf", [content])} - {"null"}
            if field.endswith("_seconds"):
                assert kinds == {"number"}, f"{name}.{field}"
            if field.endswith("_bytes"):
                assert kinds == {"integer"}, f"{name}.{field}"
