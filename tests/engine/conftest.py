"""The real engine of scripts/install-engine, and a model that it can start."""

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGINE = Path(os.environ.get("COLDCAST_ENGINE", ROOT / ".venv-engine"))
PATIENCE = 600.0  # Seconds: a first start takes 48 s on two idle cores, and several times that on busy ones.


@pytest.fixture(scope="session")
def vllm() -> str:
    """The engine's command; scripts/test-engine installs it."""
    command = ENGINE / "bin" / "vllm"
    assert command.exists(), "install the engine with scripts/install-engine, or run scripts/test-engine"
    return str(command)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory, vllm: str) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    writer = ROOT / "tests" / "engine" / "tiny_model.py"
    subprocess.run([Path(vllm).with_name("python"), writer, folder], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Caches that all tests share: what the first start fills, the next ones find."""
    return tmp_path_factory.mktemp("caches")


class Service:
    """A service that takes everything and hands it out as it comes."""

    def __init__(self) -> None:
        came: queue.Queue[dict[str, Any]] = queue.Queue()
        self._came = came

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                measurements = body["measurements"] if self.path.endswith("batch") else [body]
                for measurement in measurements:
                    came.put(measurement)
                created = [
                    {"index": index, "id": one["id"], "status": "created", "problem": None}
                    for index, one in enumerate(measurements)
                ]
                batch = self.path.endswith("batch")
                answer = json.dumps({"results": created} if batch else {"id": body["id"]}).encode()
                self.send_response(200 if batch else 201)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                """Stay silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def measurement(self) -> dict[str, Any]:
        """Wait for the next measurement."""
        return self._came.get(timeout=PATIENCE)

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.stop()


class Engine:
    """A real engine under the agent, or bare."""

    def __init__(self, process: "subprocess.Popen[str]", port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log

    def died(self) -> bool:
        return self.process.poll() is not None

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        return self.process.wait(PATIENCE)


Launch = Callable[..., Engine]


@pytest.fixture
def launch(vllm: str, caches: Path, tmp_path: Path) -> Iterator[Launch]:
    engines: list[Engine] = []

    def launch(
        model: Path | str,
        *arguments: str,
        url: str | None = None,
        hooked: bool = True,
        caches: Path = caches,
        options: tuple[str, ...] = (),
    ) -> Engine:
        port = free_port()
        command = [vllm, "serve", str(model), "--host", "127.0.0.1", "--port", str(port)]
        command += ["--max-model-len", "512", "--max-num-seqs", "8", *arguments]
        agent = [sys.executable, "-m", "agent", "run", *options, "--"]
        log = tmp_path / f"{len(engines)}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [*agent, *command] if hooked else command,
                env=environment(caches, tmp_path, url),
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        engines.append(Engine(process, port, log))
        return engines[-1]

    yield launch
    for engine in engines:
        if engine.process.poll() is None:
            os.killpg(engine.process.pid, signal.SIGKILL)
            engine.wait()


def environment(caches: Path, home: Path, url: str | None) -> dict[str, str]:
    """Return the variables of an agent and its engine; without a ``url``, nobody answers where it reports to."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CACHE_ROOT": str(caches / "vllm"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "COLDCAST_URL": url or f"http://127.0.0.1:{free_port()}",
        "COLDCAST_SPOOL_DIR": str(home / "spool"),
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
