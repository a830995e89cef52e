"""What is known: models, hardware, stages."""

from fastapi.testclient import TestClient

from app.reference import load_reference
from app.stages import PARTS_OF, STAGES
from tests.factories import make_measurement, make_model, make_spec


def test_models_with_their_counts(client: TestClient) -> None:
    spec = make_spec(model=make_model(name="Mine/Model"), hardware="NVIDIA L40S")
    for outcome in ("ready", "ready", "failed"):
        client.post("/measurements", json=make_measurement(spec=spec, outcome=outcome))
    client.post("/measurements", json=make_measurement(spec={"model": "mine/model", "hardware": "H100 NVL"}))
    models = {model["name"].lower(): model for model in client.get("/models").json()["models"]}
    mine = models["mine/model"]
    assert mine["measurements"] == 3
    assert mine["gpus"] == ["h100 nvl", "l40s"]
    assert not mine["reference"]
    assert models["deepseek-r1-distill-llama-8b"]["reference"]
    assert models.keys() - {"mine/model"} == {m.spec.model.name.lower() for m in load_reference()}


def test_hardware_with_its_counts(client: TestClient) -> None:
    hardware = {
        "gpu": "NVIDIA Mine 1",
        "gpu_count": 4,
        "cpu": "AMD EPYC 9354 32-Core Processor",
        "cpu_cores": 32,
        "storage": "nvme",
        "node": "rack-7",
    }
    client.post("/measurements", json=make_measurement(spec=make_spec(hardware=hardware)))
    client.post("/measurements", json=make_measurement(spec=make_spec(hardware={"gpu": "Mine 1"})))
    listed = client.get("/hardware").json()["hardware"]
    full, bare = [row for row in listed if not row["reference"]][::-1]
    assert full | {"gpu": "", "cpu": ""} == hardware | {
        "gpu": "",
        "cpu": "",
        "measurements": 1,
        "reference": False,
    }
    assert bare["gpu_count"] == 1
    assert bare["cpu"] is bare["cpu_cores"] is bare["storage"] is bare["node"] is None
    for row in listed:  # Every name listed is one that can be asked for.
        asked = {"gpu": row["gpu"], "cpu": row["cpu"], "gpu_count": row["gpu_count"]}
        response = client.post("/predict", json=make_spec(hardware=asked))
        assert response.status_code == 200, response.text


def test_stages_with_their_parts(client: TestClient) -> None:
    stages = client.get("/stages").json()["stages"]
    assert [s["stage"] for s in stages] == [stage.value for stage in STAGES]
    assert [s["parts"] for s in stages] == [[part.value for part in PARTS_OF[stage]] for stage in STAGES]
    assert all(s["description"] for s in stages)
