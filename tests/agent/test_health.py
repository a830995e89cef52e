"""Where an engine is healthy, and whether it is."""

import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import UnixStreamServer

import pytest

from agent.health import HealthCheck
from agent.startup import health_check
from tests.agent.test_client import free_port


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("vllm serve m", HealthCheck("127.0.0.1", 8000)),
        ("vllm serve m --host 0.0.0.0 --port=8123", HealthCheck("127.0.0.1", 8123)),
        ("vllm serve m --host :: --port 1", HealthCheck("::1", 1)),
        ("vllm serve m --host 10.0.0.7", HealthCheck("10.0.0.7", 8000)),
        ("python -m vllm.entrypoints.openai.api_server --model m --port 9", HealthCheck("127.0.0.1", 9)),
        ("vllm serve m --ssl-certfile c --ssl-keyfile k", HealthCheck("127.0.0.1", 8000, tls=True)),
        ("vllm serve m --uds /run/vllm.sock", HealthCheck("127.0.0.1", 8000, socket_path="/run/vllm.sock")),
        ("vllm serve m --headless", None),
    ],
)
def test_the_command_line_tells_where(words: str, expected: HealthCheck | None) -> None:
    assert health_check(words.split(), {}) == expected


def test_so_does_its_configuration_file(tmp_path: Path) -> None:
    config = tmp_path / "engine.yaml"
    config.write_text("port: 8200\nhost: 127.0.0.2\n")
    assert health_check(["vllm", "serve", "m", "--config", str(config)], {}) == HealthCheck("127.0.0.2", 8200)


def test_an_explicit_address_wins_and_has_to_be_one() -> None:
    assert HealthCheck.of_url("https://engine/ready") == HealthCheck("engine", 443, "/ready", tls=True)
    assert HealthCheck.of_url("http://[::1]:81") == HealthCheck("::1", 81)
    with pytest.raises(ValueError, match="is no http URL"):
        HealthCheck.of_url("engine:8000")


class Handler(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def address_string(self) -> str:
        return "client"  # A Unix socket's peer has no address.


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False), (404, False)])
def test_only_200_is_healthy(status: int, healthy: bool) -> None:
    server = HTTPServer(("127.0.0.1", 0), type("Other", (Handler,), {"status": status}))
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    assert HealthCheck("127.0.0.1", server.server_port).passes() is healthy
    thread.join()
    server.server_close()


def test_a_unix_socket_is_asked_too(tmp_path: Path) -> None:
    path = str(tmp_path / "engine.sock")
    server = UnixStreamServer(path, Handler)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    assert HealthCheck("", 0, socket_path=path).passes()
    thread.join()
    server.server_close()


def test_nobody_there_and_nobody_answering_are_not_healthy() -> None:
    assert not HealthCheck("127.0.0.1", free_port()).passes()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not HealthCheck("127.0.0.1", silent.getsockname()[1]).passes(timeout=0.05)
