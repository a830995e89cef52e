"""`coldcast-agent run` as a process, around engines that start in no time."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from agent.startup import clock
from app.schemas.measurement import Measurement
from tests.agent.test_client import Service, free_port, takes_all
from tests.agent.toy_engine import write_toy_engine
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]

Start = Callable[..., "Run"]


class Run:
    """One run of the agent around a command."""

    def __init__(self, process: "subprocess.Popen[str]", spool: Path) -> None:
        self.process = process
        self._spool = spool

    @property
    def output(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def spooled(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in self._spool.rglob("*.json")]

    def wait(self) -> int:
        return self.process.wait(timeout=60)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    runs: list[Run] = []

    def start(*command: str, options: tuple[str, ...] = (), wrap: tuple[str, ...] = (), **environment: str) -> Run:
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PYTHONPATH": f"{ROOT}:{tmp_path / 'engine'}",
            "COLDCAST_URL": f"http://127.0.0.1:{free_port()}",
            "COLDCAST_SPOOL_DIR": str(tmp_path / "spool"),
        }
        process = subprocess.Popen(
            [*wrap, sys.executable, "-m", "agent", "run", *options, "--", *command],
            env=variables | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        runs.append(Run(process, tmp_path / "spool"))
        return runs[-1]

    yield start
    for run in runs:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.process.pid, signal.SIGKILL)
        run.process.communicate()


@pytest.fixture
def engine(tmp_path: Path) -> tuple[str, ...]:
    return sys.executable, str(write_toy_engine(tmp_path / "engine")), "serve", "toy", "--port", str(free_port())


@pytest.fixture
def service() -> "Iterator[Sink]":
    sink = Sink()
    yield sink
    sink.server.stop()


class Sink:
    """A service that takes everything, and hands out what it was sent as it comes."""

    def __init__(self) -> None:
        self._came: queue.Queue[dict[str, Any]] = queue.Queue()
        self.server = Service(self._answer)
        self.url = self.server.url

    def _answer(self, path: str, body: Any) -> Any:
        self._came.put(body)
        return takes_all(path, body)

    def measurement(self) -> dict[str, Any]:
        return self._came.get(timeout=60)


@pytest.fixture
def as_first_process() -> tuple[str, ...]:
    """A command that runs another as the first process of its own PID namespace."""
    alone = ("unshare", "--fork", "--pid", "--mount-proc", "--kill-child")
    for command in (alone, (alone[0], "--user", "--map-root-user", *alone[1:])):
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
            return command
    pytest.skip("this kernel or container gives no PID namespaces, in which alone a process can be the first")


def python(program: str) -> tuple[str, ...]:
    return sys.executable, "-c", program


def test_a_startup_is_measured_and_reported(start: Start, engine: tuple[str, ...], service: Sink) -> None:
    before = clock()
    run = start(*engine, COLDCAST_URL=service.url)
    measurement = service.measurement()
    assert measurement["outcome"] == "ready"
    (note,) = measurement["facts"]["notes"]
    assert note.endswith(": device_init")
    assert 0 < measurement["total_seconds"] < clock() - before
    assert measurement["stages"].keys() >= {"framework_bootstrap", "tokenizer_init", "model_loading"}
    assert measurement["spec"]["engine"]["max_num_batched_tokens"] == 2048
    assert measurement["spec"]["engine"]["version"] == "0.27.1"
    assert Measurement.model_validate(measurement).spec.model.name == "toy"
    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 7


def test_streams_and_exit_code_pass_through(start: Start) -> None:
    run = start(*python("import sys; print(sys.stdin.read()[::-1]); sys.exit(41)"))
    output, _ = run.process.communicate("olleh")
    assert output == "hello\n"
    assert run.wait() == 41


def test_what_ends_well_of_itself_is_no_startup(start: Start) -> None:
    run = start(*python("print('usage: vllm serve')"))
    assert run.wait() == 0
    assert not run.spooled()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_an_engine_ended_by_a_signal_ends_the_agent_by_it(start: Start, number: signal.Signals) -> None:
    run = start(*python(f"import os; os.kill(os.getpid(), {int(number)})"))
    assert run.wait() == -number


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 7), (signal.SIGINT, 8)])
def test_signals_reach_the_engine_and_a_stopped_startup_is_not_reported(
    start: Start, number: signal.Signals, code: int
) -> None:
    program = (
        "import os, signal\n"
        "signal.signal(signal.SIGTERM, lambda *_: os._exit(7)); signal.signal(signal.SIGINT, lambda *_: os._exit(8))\n"
        "print('up', flush=True)\nwhile True: signal.pause()"
    )
    run = start(*python(program), "vllm", "serve", "toy", "--port", str(free_port()))
    assert run.output.readline() == "up\n"
    run.process.send_signal(number)
    assert run.wait() == code
    assert not run.spooled()


def test_the_engine_gets_the_signal_dispositions_that_it_would_have(start: Start) -> None:
    command = ("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")

    def masks(output: str) -> list[int]:
        # The C library keeps the signals from the 32nd on for itself.
        return [int(line.split()[1], 16) & 0x7FFFFFFF for line in output.splitlines()]

    bare = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert masks(start(*command).process.communicate()[0]) == masks(bare)


def test_a_command_that_is_not_there_says_so_as_a_shell_does(start: Start) -> None:
    assert start("no-such-engine").wait() == 127
    assert start("/dev/null").wait() == 126


def test_with_the_service_away_the_engine_starts_and_the_measurement_waits(
    start: Start, engine: tuple[str, ...]
) -> None:
    run = start(*engine)
    assert run.output.readline() == "said by the engine\n"
    eventually(run.spooled)
    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 7
    assert [measurement["outcome"] for measurement in run.spooled()] == ["ready"]


def test_with_settings_that_cannot_be_used_the_measurement_waits_until_they_are_corrected(
    start: Start, engine: tuple[str, ...]
) -> None:
    run = start(*engine, COLDCAST_API_KEY_FILE="/nowhere/key")
    (measurement,) = eventually(run.spooled)
    assert measurement["outcome"] == "ready"
    assert "COLDCAST_API_KEY_FILE cannot be read" in next(line for line in run.output if "coldcast-agent" in line)


@pytest.mark.parametrize(
    "broken",
    [{"TMPDIR": "/nowhere", "TMP": "/nowhere"}, {"COLDCAST_URL": "no url"}, {"COLDCAST_SPOOL_DIR": "/dev/null/spool"}],
    ids=["no room for events", "settings", "no room for the spool"],
)
def test_whatever_fails_in_the_agent_the_engine_starts(
    start: Start, engine: tuple[str, ...], broken: dict[str, str]
) -> None:
    run = start(*engine, **broken)
    while (line := run.output.readline()) != "said by the engine\n":
        assert line, "the engine never spoke"
    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 7


def test_what_cannot_be_watched_is_started_and_not_measured(start: Start, engine: tuple[str, ...]) -> None:
    first = start(*engine)
    assert first.output.readline() == "said by the engine\n"
    eventually(first.spooled)
    # The second engine's address answers already, which must not be taken for its health.
    for options in ((), ("--health-url", "no url")):
        second = start(*python("print('started')"), "vllm", "serve", *engine[3:], options=options)
        output, _ = second.process.communicate()
        assert "startup_not_measured" in output
        assert output.endswith("started\n")
    assert len(first.spooled()) == 1


def test_a_failed_startup_is_reported_with_its_stage_and_error(
    start: Start,
    engine: tuple[str, ...],
    service: Sink,
) -> None:
    run = start(*engine, COLDCAST_URL=service.url, TOY_TOKENIZER="")
    measurement = service.measurement()
    assert run.wait() == 1
    assert measurement["outcome"] == "failed"
    assert measurement["facts"]["failed_stage"] == "tokenizer_init"
    assert measurement["facts"]["last_error"].startswith("ValueError: no tokenizer in")
    assert "hf_abcdefghijklmnopqrstuvwxyz012345" not in json.dumps(measurement)


def test_a_startup_that_takes_too_long_is_reported_and_goes_on(
    start: Start,
    service: Sink,
) -> None:
    program = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(9)); signal.pause()"
    run = start(
        *python(program), "vllm", "serve", "toy", "--port", str(free_port()),
        options=("--timeout-seconds", "1"), COLDCAST_URL=service.url,
    )  # fmt: skip
    measurement = service.measurement()
    assert measurement["outcome"] == "timed_out"
    assert measurement["spec"]["model"]["name"] == "toy"
    assert run.process.poll() is None
    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 9


def test_as_the_first_process_of_a_container_it_reaps_and_stops(
    start: Start, as_first_process: tuple[str, ...]
) -> None:
    # An orphan of the engine's falls to PID 1; reaped, it leaves /proc.
    program = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: os._exit(7))\n"
        "reader, writer = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    pid = os.fork()\n"
        "    if pid == 0: os._exit(0)\n"
        "    os.write(writer, b'%d' % pid); os._exit(0)\n"
        "os.wait(); orphan = int(os.read(reader, 20))\n"
        "while os.path.exists(f'/proc/{orphan}'): time.sleep(0.01)\n"
        "print('reaped', os.getppid(), flush=True)\n"
        "while True: signal.pause()"
    )
    run = start(*python(program), wrap=as_first_process)
    assert run.output.readline() == "reaped 1\n"
    child = int(Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children").read_text().split()[0])
    os.kill(child, signal.SIGTERM)
    assert run.wait() == 7


def test_as_the_first_process_it_tells_of_a_fatal_signal_as_a_shell_does(
    start: Start, as_first_process: tuple[str, ...]
) -> None:
    run = start(*python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"), wrap=as_first_process)
    assert run.wait() == 128 + signal.SIGKILL
