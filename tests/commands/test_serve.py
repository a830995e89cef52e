"""`coldcast serve` as a real process: one command from nothing to an answer, and nothing left behind."""

import json
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.conftest import temporary_folder
from tests.factories import SIX, make_measurement, make_model
from tests.processes import Service, run, serving
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("processes")

QUESTION = {"model": "deepseek-r1-distill-llama-8b", "hardware": "NVIDIA H100 NVL"}


@pytest.fixture(scope="module")
def first_start() -> Iterator[tuple[Service, Path, str]]:
    """A first start on an empty directory, stopped again; what it answered to the line it printed."""
    with temporary_folder() as folder:
        with serving(folder / "data") as service:
            _ = service.url
            line = next(line for line in service.output.splitlines() if line.startswith("curl "))
            answer = subprocess.run(shlex.split(line), capture_output=True, text=True, check=True).stdout
            family = service.family()
            assert service.stop() == 0
            _, alive = psutil.wait_procs(family, 30)
            assert not alive
        yield service, folder / "data", answer


@pytest.fixture
def prepared(first_start: tuple[Service, Path, str]) -> Iterator[Path]:
    """A copy of the data directory that a first start left."""
    with temporary_folder() as folder:
        subprocess.run(["cp", "-a", first_start[1], folder / "data"], check=True)
        yield folder / "data"


def get(service: Service, path: str) -> Any:
    return httpx.get(service.url + path, timeout=60).raise_for_status().json()


def post(service: Service, path: str, body: Any = None) -> Any:
    return httpx.post(service.url + path, json=body, timeout=120).raise_for_status().json()


def test_the_printed_line_answers_on_an_empty_directory(first_start: tuple[Service, Path, str]) -> None:
    service, _, answer = first_start
    prediction = json.loads(answer)
    assert prediction["basis"]["rung"] == "reference"
    assert len(prediction["stages"]) == 7
    assert "Stopped." in service.output
    assert "Traceback" not in service.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_stop_everything(prepared: Path, number: signal.Signals) -> None:
    started = time.monotonic()
    with serving(prepared) as service:
        _ = service.url
        assert time.monotonic() - started < 30  # A second start takes seconds; machines may be busy.
        family = service.family()
        names = [process.name() for process in family]
        assert names.count("postgres") > 3
        assert len(family) - names.count("postgres") == 2  # The API, and refits beside it.
        assert service.stop(number) == 0
        _, alive = psutil.wait_procs(family, 30)
        assert not alive
        assert not (prepared / "postgres" / "postmaster.pid").exists()
        assert "Traceback" not in service.output


def test_a_signal_during_the_start_stops_everything(prepared: Path) -> None:
    with serving(prepared) as service:
        service.line("Tables are up to date")
        family = service.family()
        assert service.stop() == 0
        _, alive = psutil.wait_procs(family, 30)
        assert not alive


def test_a_second_one_on_the_same_directory_says_so_and_leaves(prepared: Path) -> None:
    with serving(prepared) as service:
        _ = service.url
        for command in (["serve"], ["migrate"], ["refit"]):
            second = run(*command, COLDCAST_DATA_DIR=str(prepared))
            assert second.returncode == 1
            assert second.stderr.strip().startswith(f"coldcast: Process {service.process.pid} already runs on")
            assert "COLDCAST_DATA_DIR" in second.stderr
            assert "Traceback" not in second.stderr
        assert get(service, "/readyz")["status"] == "ready"


def test_a_taken_port_says_so(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = run("serve", COLDCAST_PORT=port, COLDCAST_DATA_DIR=str(data_dir))
    assert refused.returncode == 1
    assert f"Cannot listen on 127.0.0.1:{port}" in refused.stderr
    assert "COLDCAST_PORT" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (data_dir / "postgres").exists()


def test_the_api_alone_refits_nothing(own_database: str, data_dir: Path) -> None:
    with serving(data_dir, "--api-only", DATABASE_URL=own_database) as service:
        assert post(service, "/predict", QUESTION)["basis"]["rung"] == "reference"
        assert [process.pid for process in service.family()] == [service.process.pid]
        assert httpx.post(f"{service.url}/refits?wait_seconds=0").status_code == 202
        assert service.stop() == 0
    assert not data_dir.exists()


def test_a_killed_parent_blocks_no_start(prepared: Path) -> None:
    with serving(prepared) as service:
        expected = post(service, "/predict", QUESTION)
        others = service.family()[1:]
        service.process.kill()
        service.process.wait()
        refits = [p for p in others if p.is_running() and p.name() != "postgres"]
        _, alive = psutil.wait_procs(refits, 60)  # Its end of the pipe has closed.
        assert not alive
        with serving(prepared) as successor:
            assert post(successor, "/predict", QUESTION) == expected
            assert successor.stop() == 0
        _, alive = psutil.wait_procs(others, 30)
        assert not alive


def test_a_kill_during_the_very_first_start_blocks_no_start(data_dir: Path) -> None:
    with serving(data_dir) as service:
        eventually(lambda: (data_dir / "postgres" / "PG_VERSION").exists(), every=0.001)
        service.kill_everything()
        for process in psutil.process_iter(["cmdline"]):  # initdb and its children are nobody's by now.
            if any(str(data_dir) in part for part in process.info["cmdline"] or ()):
                process.kill()
    with serving(data_dir) as successor:
        assert post(successor, "/predict", QUESTION)["basis"]["rung"] == "reference"


def test_nothing_answered_201_is_lost_when_everything_is_killed(prepared: Path) -> None:
    created: list[str] = []
    twenty = threading.Event()

    def report(url: str) -> None:
        with httpx.Client(base_url=url, timeout=10) as client:
            for number in range(100_000):
                wire = make_measurement(id=f"{threading.get_ident()}-{number}")
                try:
                    if client.post("/measurements", json=wire).status_code == 201:
                        created.append(wire["id"])
                except httpx.HTTPError:
                    return
                if len(created) > 20:
                    twenty.set()

    with serving(prepared) as service:
        clients = [threading.Thread(target=report, args=[service.url]) for _ in range(4)]
        for client in clients:
            client.start()
        assert twenty.wait(60)
        service.kill_everything()
        for client in clients:
            client.join(60)
    with serving(prepared) as successor:
        stored: list[str] = []
        cursor = ""
        while cursor is not None:
            page = get(successor, f"/measurements?model=test/model&limit=1000&cursor={cursor}".removesuffix("&cursor="))
            stored += [record["id"] for record in page["measurements"]]
            cursor = page["next_cursor"]
    assert len(stored) == len(set(stored))
    assert set(created) <= set(stored)


def test_twenty_measurements_of_a_new_node_teach_it(prepared: Path) -> None:
    hardware = {"gpu": "NVIDIA B300", "gpu_count": 1, "cpu": "AMD EPYC 9755", "cpu_cores": 128, "node": "made-up-1"}
    spec = {
        "model": make_model(name="made/up"),
        "hardware": hardware,
        "engine": {"version": "0.10.1.1"},
        "cache": {"weights": "disk", "compile": "warm"},
    }
    stages = {name: 4 * seconds for name, seconds in SIX.items()}
    with serving(prepared) as service:
        before = post(service, "/predict", spec)["total"]["seconds"]
        totals = [120.0 + 0.1 * number for number in range(20)]
        for total in totals:
            record = post(service, "/measurements", make_measurement(total_seconds=total, stages=stages, spec=spec))
            assert record["status"] == "accepted"
        refit = post(service, "/refits?wait_seconds=120")
        assert refit["outcome"] == "promoted", refit
        eventually(lambda: get(service, "/readyz")["fit_id"] == refit["fit_id"])
        after = post(service, "/predict", spec)
        assert abs(before - 121) > 0.05 * 121
        assert after["total"]["seconds"] == pytest.approx(121, rel=0.05)
        assert after["basis"]["rung"] in ("history", "hardware")
        assert after["basis"]["fit_id"] == refit["fit_id"]
        assert get(service, "/measurements?status=quarantined")["measurements"] == []
        answers = [post(service, "/predict", question) for question in (spec, QUESTION)]
        url = service.url
        assert run("predict", *QUESTION.values(), "--json", "--url", url).stdout.startswith("{")
    with serving(prepared) as again:
        assert [post(again, "/predict", question) for question in (spec, QUESTION)] == answers
        check_the_predict_command(again.url)


def check_the_predict_command(url: str) -> None:
    """`coldcast predict` as a table, as JSON, from a whole spec, and with what it says about mistakes."""
    table = run("predict", *QUESTION.values(), "--weights", "disk", "--compile", "warm", "--url", url)
    assert table.returncode == 0, table.stderr
    for word in ("framework_bootstrap", "total", "basis: reference", "assumed: hardware.cpu"):
        assert word in table.stdout
    expected = httpx.post(f"{url}/predict", json=QUESTION).json()
    for answer in (
        run("predict", *QUESTION.values(), "--json", COLDCAST_URL=url),
        run("predict", "--spec", "-", "--json", "--url", url, input=json.dumps(QUESTION)),
    ):
        assert json.loads(answer.stdout) == expected
    for arguments, message in [
        (["nobody/knows-this", "NVIDIA H100 NVL"], "weight_bytes"),
        (["deepseek-r1-distill-llama-8b", "NVIDIA"], "NVIDIA H100 NVL"),
        (["--spec", "/nowhere.json"], "holds no spec"),
    ]:
        wrong = run("predict", *arguments, "--url", url)
        assert wrong.returncode == 1
        assert message in wrong.stderr
        assert "Traceback" not in wrong.stderr
