"""The agent around a real vLLM: scripts/test-engine."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from agent.health import HealthCheck
from app.schemas.measurement import Measurement
from app.stages import PARTS_OF, Stage
from tests.conftest import temporary_folder
from tests.engine.conftest import PATIENCE, ROOT, Engine, Launch, Service, environment
from tests.processes import serving
from tests.waiting import eventually

pytestmark = pytest.mark.engine


def whole(measurement: dict[str, Any]) -> Measurement:
    """Check that all seven stages were observed and sum to the wall clock, with little that no event bounds."""
    parsed = Measurement.model_validate(measurement)
    other = sum(measurement["parts"][part.value] for part in PARTS_OF[Stage.OTHER])
    assert parsed.outcome == "ready"
    assert sum(measurement["stages"].values()) + other == pytest.approx(parsed.total_seconds, abs=0.001)
    assert measurement["parts"]["unaccounted"] < 0.03 * parsed.total_seconds
    assert measurement["facts"]["hook_seconds"] <= 0.1
    assert measurement["facts"]["notes"] == []
    return parsed


def test_a_first_and_a_second_start(launch: Launch, model: Path, service: Service) -> None:
    first = launch(model, url=service.url)
    cold = whole(service.measurement())
    assert first.stop() == 0
    second = launch(model, url=service.url)
    warm = whole(service.measurement())
    assert second.stop() == 0

    assert cold.spec.cache.model_inspection == "cold"
    assert warm.spec.cache.model_inspection == "warm"
    assert warm.stage_seconds[Stage.FRAMEWORK_BOOTSTRAP] < cold.stage_seconds[Stage.FRAMEWORK_BOOTSTRAP]
    assert warm.stage_seconds[Stage.TORCH_COMPILE] < cold.stage_seconds[Stage.TORCH_COMPILE]
    assert cold.stage_seconds[Stage.CUDA_GRAPH_CAPTURE] == 0.0
    assert (cold.spec.engine.version, cold.spec.engine.max_num_seqs) == ("0.27.1", 8)
    assert cold.spec.model.name == "tiny"


def test_without_its_hook_the_same_folders_are_used(launch: Launch, model: Path, tmp_path: Path) -> None:
    hooked, bare = tmp_path / "hooked", tmp_path / "bare"
    for caches, with_hook in ((hooked, True), (bare, False)):
        engine = launch(model, hooked=with_hook, caches=caches)
        until_healthy(engine)
        assert engine.stop() in (0, -signal.SIGTERM)
    assert folders(hooked / "vllm") == folders(bare / "vllm")
    assert any("torch_aot_compile" in folder for folder in folders(bare / "vllm"))


def folders(root: Path) -> set[str]:
    """Return the folders that vLLM names by its compile keys."""
    return {
        str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir() and "inductor_cache" not in path.parts
    }


def until_healthy(engine: Engine) -> None:
    health = HealthCheck("127.0.0.1", engine.port)
    eventually(lambda: health.passes() or engine.died(), seconds=PATIENCE)
    assert not engine.died()


def test_sigterm_ends_everything_as_it_would_without_the_agent(launch: Launch, model: Path, tmp_path: Path) -> None:
    # While it imports, the engine has no handler and dies of the signal; later in its start, this vLLM drops it.
    early = launch(model)
    (engine,) = eventually(lambda: psutil.Process(early.process.pid).children())
    assert early.stop() == -signal.SIGTERM
    assert not engine.is_running()
    ready = launch(model)
    (kept,) = eventually(lambda: list((tmp_path / "spool").rglob("*.json")), seconds=PATIENCE)
    family = psutil.Process(ready.process.pid).children(recursive=True)
    assert ready.stop() == 0
    assert not psutil.wait_procs(family, timeout=60)[1]
    assert json.loads(kept.read_text())["outcome"] == "ready"


def worker_of(engine: Engine) -> list[psutil.Process]:
    """Wait until the engine has its worker; return all processes below it, the worker last."""

    def family() -> list[psutil.Process]:
        everyone = psutil.Process(engine.process.pid).children(recursive=True)
        workers = [process for process in everyone if "VLLM::Worker" in " ".join(_command(process))]
        return [*(process for process in everyone if process not in workers), *workers] if workers else []

    found = eventually(lambda: engine.died() or family(), seconds=PATIENCE)
    assert isinstance(found, list), "the engine ended before it had a worker"
    return found


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def test_a_model_that_does_not_exist(launch: Launch, service: Service, tmp_path: Path) -> None:
    token = "hf_" + "a1B2" * 8
    engine = launch(f"/nowhere/{token}/model", url=service.url)
    measurement = service.measurement()
    assert engine.wait() != 0
    assert measurement["outcome"] == "failed"
    assert measurement["facts"]["failed_stage"] == "framework_bootstrap"
    assert measurement["facts"]["last_error"]
    assert token not in json.dumps(measurement)
    Measurement.model_validate(measurement)


def test_a_killed_worker(launch: Launch, model: Path, service: Service) -> None:
    engine = launch(model, url=service.url)
    worker_of(engine)[-1].kill()
    measurement = service.measurement()
    assert engine.wait() != 0
    assert measurement["outcome"] == "failed"
    assert measurement["facts"]["failed_stage"] in [stage.value for stage in Stage]
    assert measurement["facts"]["last_error"]


def test_the_service_dies_while_the_engine_starts_and_comes_back(
    launch: Launch, model: Path, caches: Path, tmp_path: Path
) -> None:
    waiting = tmp_path / "spool"
    with temporary_folder() as folder:
        with serving(folder / "data") as service:
            url = service.url
            engine = launch(model, url=url)
            worker_of(engine)
            service.kill_everything()
            until_healthy(engine)
            (path,) = eventually(lambda: list(waiting.glob("*.json")))
            assert engine.stop() == 0
        kept = path.read_text()
        with serving(folder / "data", COLDCAST_PORT=str(httpx.URL(url).port)) as service:
            assert service.url == url
            flush = partial(flushed, environment(caches, tmp_path, url))
            assert flush() == "sent 1, refused 0, waiting 0, dropped so far 0"
            assert flush() == "sent 0, refused 0, waiting 0, dropped so far 0"
            path.write_text(kept)  # As if the agent had died between the service's answer and its own tidying up.
            assert flush() == "sent 1, refused 0, waiting 0, dropped so far 0"
            (found,) = httpx.get(f"{url}/measurements", params={"model": "tiny"}).json()["measurements"]
    sent = json.loads(kept)
    assert (found["id"], found["outcome"], found["total_seconds"]) == (sent["id"], "ready", sent["total_seconds"])
    assert found["stages"]["model_loading"] == sent["stages"]["model_loading"]
    assert not list(waiting.rglob("*.json"))


def flushed(environment: Mapping[str, str]) -> str:
    """Send what waits, as a person would; return what the agent says of it."""
    command = [sys.executable, "-m", "agent", "flush"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()
