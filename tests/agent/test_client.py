"""Sending, against a real HTTP server that takes, refuses, hangs up or is away."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent.client import Flushed, Reporter
from agent.settings import AgentSettings
from app.errors import SettingsError

Answer = tuple[int, Any]
HANG_UP: Answer = (0, None)


class Service:
    """A server that answers each request with what ``answer`` returns, and remembers what it was sent."""

    def __init__(self, answer: Callable[[str, Any], Answer], port: int = 0) -> None:
        self.requests: list[tuple[str, Any, dict[str, str]]] = []
        self.headers: dict[str, str] = {"content-type": "application/problem+json"}
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                service.requests.append((self.path, body, dict(self.headers.items())))
                status, content = answer(self.path, body)
                if status == 0:
                    self.close_connection = True
                    return
                payload = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in {**service.headers, "content-length": str(len(payload))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, format: str, *args: Any) -> None:
                """Stay silent: pytest shows what matters."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Service]]:
    services: list[Service] = []

    def start(answer: Callable[[str, Any], Answer], port: int = 0) -> Service:
        services.append(Service(answer, port))
        return services[-1]

    yield start
    for service in services:
        service.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def takes_all(path: str, body: Any) -> Answer:
    if path == "/measurements":
        return 201, {"id": body["id"]}
    ids = [measurement["id"] for measurement in body["measurements"]]
    return 200, {"results": [{"index": i, "id": m, "status": "created", "problem": None} for i, m in enumerate(ids)]}


class Time:
    """A clock that only moves when somebody sleeps on it."""

    def __init__(self, on_sleep: Callable[[], None] = lambda: None) -> None:
        self.now = 0.0
        self.sleeps: list[float] = []
        self._on_sleep = on_sleep

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds
        self._on_sleep()


def reporter(folder: Path, url: str, *, time: Time | None = None, api_key: str | None = None) -> Reporter:
    time = time or Time()
    settings = AgentSettings(url=url, spool_dir=folder, send_seconds=60.0, api_key=api_key)
    return Reporter(settings, clock=lambda: time.now, sleep=time.sleep, jitter=lambda: 1.0)


def spool(reporter: Reporter, *ids: str) -> None:
    for identity in ids:
        reporter.spool.put({"id": identity})


def refused(folder: Path) -> dict[str, Any]:
    """The refused ids, and the problem beside each."""
    files = [path for path in (folder / "refused").glob("*.json") if not path.name.endswith(".problem.json")]
    return {
        json.loads(path.read_text())["id"]: json.loads(path.with_suffix(".problem.json").read_text()) for path in files
    }


def test_a_taken_measurement_leaves_the_spool(tmp_path: Path, serve: Callable[..., Service]) -> None:
    service = serve(takes_all)
    sender = reporter(tmp_path, service.url, api_key="k-1")
    sender.send({"id": "a", "total_seconds": 5.0})
    (path, body, headers) = service.requests[0]
    assert (path, body) == ("/measurements", {"id": "a", "total_seconds": 5.0})
    assert headers["Authorization"] == "Bearer k-1"
    assert sender.spool.waiting() == []


def test_without_a_key_no_header_is_sent(tmp_path: Path, serve: Callable[..., Service]) -> None:
    service = serve(takes_all)
    reporter(tmp_path, service.url).send({"id": "a"})
    assert "Authorization" not in service.requests[0][2]


@pytest.mark.parametrize("status", [400, 409, 413, 422])
def test_what_is_refused_for_good_is_kept_with_its_problem(
    tmp_path: Path, serve: Callable[..., Service], status: int
) -> None:
    service = serve(lambda path, body: (status, {"title": "No", "status": status, "detail": "why"}))
    time = Time()
    sender = reporter(tmp_path, service.url, time=time)
    sender.send({"id": "a"})
    assert refused(tmp_path) == {"a": {"title": "No", "status": status, "detail": "why"}}
    assert sender.spool.waiting() == []
    assert (len(service.requests), time.sleeps) == (1, [])


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_a_passing_trouble_is_tried_again_with_growing_delays(
    tmp_path: Path, serve: Callable[..., Service], status: int
) -> None:
    answers = iter([(status, {}), HANG_UP, (status, b"no json"), (201, {})])
    service = serve(lambda path, body: next(answers))
    time = Time()
    sender = reporter(tmp_path, service.url, time=time)
    assert sender.flush() == Flushed()
    sender.send({"id": "a"})
    assert time.sleeps == [0.5, 1.0, 2.0]
    assert [body for _, body, _ in service.requests] == [{"id": "a"}] * 4
    assert sender.spool.waiting() == []


def test_the_service_says_how_long_to_wait(tmp_path: Path, serve: Callable[..., Service]) -> None:
    answers = iter([(503, {}), (201, {})])
    service = serve(lambda path, body: next(answers))
    service.headers["Retry-After"] = "7"
    time = Time()
    reporter(tmp_path, service.url, time=time).send({"id": "a"})
    assert time.sleeps == [7.0]


def test_a_service_that_stays_away_costs_bounded_time_and_loses_nothing(tmp_path: Path) -> None:
    time = Time()
    sender = reporter(tmp_path, f"http://127.0.0.1:{free_port()}", time=time)
    sender.send({"id": "a"})
    assert 45 < time.now <= 60
    assert [sender.spool.read(path) for path in sender.spool.waiting()] == [{"id": "a"}]


def test_a_service_that_comes_back_gets_the_measurement(tmp_path: Path, serve: Callable[..., Service]) -> None:
    port, started = free_port(), []

    def come_back() -> None:
        if not started:
            started.append(serve(takes_all, port))

    sender = reporter(tmp_path, f"http://127.0.0.1:{port}", time=Time(come_back))
    sender.send({"id": "a"})
    assert [body["id"] for _, body, _ in started[0].requests] == ["a"]
    assert sender.spool.waiting() == []


def test_a_lost_answer_doubles_nothing(tmp_path: Path, serve: Callable[..., Service]) -> None:
    rows: dict[str, Any] = {}

    def stores_then_dies_once(path: str, body: Any) -> Answer:
        first = body["id"] not in rows
        rows[body["id"]] = body
        return HANG_UP if first else (200, {})

    service = serve(stores_then_dies_once)
    sender = reporter(tmp_path, service.url)
    sender.send({"id": "a", "total_seconds": 1.0})
    assert rows == {"a": {"id": "a", "total_seconds": 1.0}}
    assert sender.spool.waiting() == []


def test_many_go_in_one_batch_and_each_stands_alone(tmp_path: Path, serve: Callable[..., Service]) -> None:
    status = {"a": "created", "b": "unchanged", "c": "conflict", "d": "invalid"}

    def judges(path: str, body: Any) -> Answer:
        ids = [measurement["id"] for measurement in body["measurements"]]
        problems = {"d": {"title": "Invalid", "status": 422}}
        rows = [{"index": i, "id": m, "status": status[m], "problem": problems.get(m)} for i, m in enumerate(ids)]
        return 200, {"results": rows[::-1]}

    service = serve(judges)
    sender = reporter(tmp_path, service.url)
    spool(sender, "a", "b", "c", "d")
    assert sender.flush() == Flushed(sent=2, refused=2)
    assert [path for path, _, _ in service.requests] == ["/measurements/batch"]
    assert refused(tmp_path) == {"c": {"title": "conflict"}, "d": {"title": "Invalid", "status": 422}}


def test_more_than_a_batch_goes_in_several(tmp_path: Path, serve: Callable[..., Service]) -> None:
    service = serve(takes_all)
    sender = reporter(tmp_path, service.url)
    spool(sender, *(f"m{number}" for number in range(201)))
    assert sender.flush() == Flushed(sent=201)
    assert [path for path, _, _ in service.requests] == ["/measurements/batch", "/measurements"]


@pytest.mark.parametrize("status", [404, 405, 413, 422])
def test_a_batch_that_is_refused_as_a_whole_goes_one_by_one(
    tmp_path: Path, serve: Callable[..., Service], status: int
) -> None:
    service = serve(lambda path, body: (status, {}) if path.endswith("batch") else takes_all(path, body))
    sender = reporter(tmp_path, service.url)
    spool(sender, "a", "b")
    assert sender.flush() == Flushed(sent=2)


@pytest.mark.parametrize("status", [302, 401, 403, 404])
def test_a_wrong_address_or_key_does_not_cost_the_measurement(
    tmp_path: Path, serve: Callable[..., Service], status: int
) -> None:
    service = serve(lambda path, body: (status, {}))
    time = Time()
    sender = reporter(tmp_path, service.url, time=time)
    sender.send({"id": "a"})
    flushed = sender.flush()
    assert (flushed.sent, flushed.refused, flushed.waiting) == (0, 0, 1)
    assert "COLDCAST_URL" in str(flushed.problem)
    assert time.sleeps == []


def test_a_portal_s_page_is_not_taken_for_the_service(tmp_path: Path, serve: Callable[..., Service]) -> None:
    service = serve(lambda path, body: (200, b"<html>sign in</html>"))
    service.headers["content-type"] = "text/html"
    sender = reporter(tmp_path, service.url)
    sender.send({"id": "a"})
    assert len(sender.spool.waiting()) == 1


def test_a_batch_answer_that_makes_no_sense_keeps_all(tmp_path: Path, serve: Callable[..., Service]) -> None:
    service = serve(lambda path, body: (200, {"results": [{"index": 0, "status": "who knows"}]}))
    sender = reporter(tmp_path, service.url)
    spool(sender, "a", "b")
    assert sender.flush().waiting == 2
    other = serve(lambda path, body: (200, b"[]"))
    assert reporter(tmp_path, other.url).flush().waiting == 2


def test_where_no_spool_can_be_it_is_sent_all_the_same(tmp_path: Path, serve: Callable[..., Service]) -> None:
    (tmp_path / "file").write_text("not a folder")
    service = serve(takes_all)
    reporter(tmp_path / "file", service.url).send({"id": "a"})
    assert [body for _, body, _ in service.requests] == [{"id": "a"}]


def test_nothing_raises_into_the_launcher(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    reporter(tmp_path / "file", f"http://127.0.0.1:{free_port()}").send({"id": "a"})
    reporter(tmp_path, "http://[broken").send({"id": "a"})
    reporter(tmp_path, "http://127.0.0.1").send({"id": "b", "total_seconds": float("nan")})


def test_settings_come_from_the_environment(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret-1\n")
    settings = AgentSettings.of(
        {
            "COLDCAST_URL": "https://coldcast.example/",
            "COLDCAST_SPOOL_DIR": "/var/spool/coldcast",
            "COLDCAST_SPOOL_MAX_BYTES": "1000",
            "COLDCAST_API_KEY_FILE": str(key),
        }
    )
    assert settings == AgentSettings("https://coldcast.example", Path("/var/spool/coldcast"), 1000, api_key="secret-1")
    assert "secret-1" not in repr(settings)
    assert AgentSettings.of({"HOME": "/h"}).spool_dir == Path("/h/.local/state/coldcast/spool")
    assert AgentSettings.of({"COLDCAST_API_KEY": "k", "COLDCAST_API_KEY_FILE": str(key)}).api_key == "k"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COLDCAST_URL", "coldcast:8000"),
        ("COLDCAST_SPOOL_MAX_BYTES", "64 MB"),
        ("COLDCAST_API_KEY_FILE", "/nowhere/key"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        AgentSettings.of({name: value})
