"""The hook in a worker of a real Ray cluster that was started without it."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from agent.assemble import read_events
from agent.spans import WORKER, processes_of
from agent.startup import HOOK
from tests.agent.toy_engine import write_toy_engine
from tests.conftest import temporary_folder
from tests.engine.conftest import PATIENCE, ROOT, free_port
from tests.waiting import eventually

pytestmark = pytest.mark.engine

RAY = Path(os.environ.get("COLDCAST_RAY", ROOT / ".venv-ray")) / "bin"
DRIVER = """
import vllm
import ray

@ray.remote
class RayWorker:
    def load(self):
        from vllm.v1.worker.gpu_worker import Worker
        return Worker().load_model()

ray.init()
print(ray.get(RayWorker.remote().load.remote()))
"""


@pytest.fixture
def driver() -> Iterator[dict[str, str]]:
    """The environment of a driver of a cluster that is up."""
    if not (RAY / "ray").exists():
        pytest.skip(f"needs Ray: python -m venv {RAY.parent} && {RAY}/pip install ray")
    # Ray's sockets lie below this folder, and a socket's path may not be long.
    with temporary_folder() as folder:
        write_toy_engine(folder / "engine")
        port = free_port()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": str(folder / "engine"),
            "RAY_ADDRESS": f"127.0.0.1:{port}",
        }
        options = ["--head", "--block", f"--port={port}", "--num-cpus=1", "--node-ip-address=127.0.0.1"]
        options += ["--include-dashboard=false", "--disable-usage-stats", f"--temp-dir={folder / 'ray'}"]
        log = folder / "ray.log"
        with log.open("w") as output:
            head = psutil.Popen([RAY / "ray", "start", *options], env=environment, stdout=output, stderr=output)
        try:
            eventually(lambda: head.poll() is not None or "Ray runtime started" in log.read_text(), seconds=PATIENCE)
            assert head.is_running(), log.read_text()
            yield environment
        finally:
            family = [head, *head.children(recursive=True)]
            head.terminate()
            _, alive = psutil.wait_procs(family, 30)
            for process in alive:
                process.kill()


def test_a_worker_that_ray_starts_is_measured(driver: dict[str, str], tmp_path: Path) -> None:
    path = f"{HOOK}{os.pathsep}{driver['PYTHONPATH']}"
    environment = driver | {"PYTHONPATH": path, "COLDCAST_HOOK_DIR": str(tmp_path)}
    done = subprocess.run(
        [RAY / "python", "-c", DRIVER], env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.stdout.strip() == "loaded", done.stderr
    (worker,) = [process for process in processes_of(read_events(tmp_path)) if process.role == WORKER]
    assert worker.labels == ("ray",)
    assert [span.name for span in worker.spans] == ["model_loading"]
