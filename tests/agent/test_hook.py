"""The hook as production runs it: in processes of its own, by PYTHONPATH alone."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agent.toy_engine import write_toy_engine

HOOK = Path(__file__).resolve().parents[2] / "agent" / "hook"

Events = dict[int, list[dict[str, Any]]]
Run = Callable[..., "Ran"]


class Ran:
    """What a program printed, and the events that its processes wrote."""

    def __init__(self, output: str, folder: Path) -> None:
        self.output = output.strip()
        self.files = sorted(folder.glob("*.jsonl")) if folder.is_dir() else []
        self.events = [json.loads(line) for path in self.files for line in path.read_text().splitlines()]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == kind]

    def spans(self, name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        ends = {event["key"]: event for event in self.of("end")}
        return [(event, ends[event["key"]]) for event in self.of("begin") if event["name"] == name]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    write_toy_engine(tmp_path / "engine")
    events = tmp_path / "events"
    events.mkdir()

    def run(
        program: str, *, armed: bool = True, before: tuple[Path, ...] = (), folder: Path = events, hooked: bool = True
    ) -> Ran:
        path = [*before, *([HOOK] if hooked else []), tmp_path / "engine"]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, path))}
        if armed:
            environment["COLDCAST_HOOK_DIR"] = str(folder)
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
        )
        return Ran(done.stdout + done.stderr, folder)

    return run


def test_unarmed_it_does_nothing(run: Run) -> None:
    ran = run("import sys, vllm; print('coldcast_hook' in sys.modules, len(sys.meta_path))", armed=False)
    bare = run("import sys, vllm; print('coldcast_hook' in sys.modules, len(sys.meta_path))", armed=False, hooked=False)
    assert ran.output == bare.output
    assert not ran.files


def test_the_functions_that_bound_the_stages_are_timed(run: Run) -> None:
    ran = run("from vllm.v1.engine.core import EngineCore; EngineCore()")
    outer, inner = ran.spans("engine_init")[0], ran.spans("model_loading")[0]
    assert outer[0]["at"] <= inner[0]["at"] <= inner[1]["at"] <= outer[1]["at"]
    assert inner[0]["where"] == "vllm.v1.worker.gpu_worker.Worker.load_model"


def test_the_process_counts_from_its_exec(run: Run) -> None:
    ran = run("import vllm")
    process = ran.of("process")[0]
    assert ran.events[0] == process
    assert 0 <= process["at"] - process["from"] < 5
    assert not process["forked"]


def test_a_function_that_is_missing_is_recorded_and_costs_nothing_else(run: Run) -> None:
    ran = run("from vllm.v1.engine.core import EngineCore; EngineCore()")
    modules = {event["name"]: event for event in ran.of("module")}
    assert modules["vllm.v1.worker.gpu_worker"]["missing"] == ["device_init"]
    assert "model_loading" in modules["vllm.v1.worker.gpu_worker"]["wrapped"]


def test_a_wrapped_function_looks_like_itself(run: Run) -> None:
    ran = run(
        "from vllm.tokenizers import registry as r; print(r.get_tokenizer.__name__, r.get_tokenizer.__doc__,"
        " r.cached_get_tokenizer('a'), r.cached_get_tokenizer('a'), r.cached_get_tokenizer.cache_info())"
    )
    assert ran.output == ("get_tokenizer Load a tokenizer. A A CacheInfo(hits=1, misses=1, maxsize=7, currsize=1)")
    assert len(ran.spans("tokenizer")) == 1


def test_an_error_reaches_the_engine_and_is_recorded(run: Run) -> None:
    ran = run(
        "from vllm.tokenizers.registry import get_tokenizer\ntry: get_tokenizer('')\nexcept ValueError as e: print(e)"
    )
    assert ran.output.startswith("no tokenizer in")
    assert ran.spans("tokenizer")[0][1]["error"].startswith("ValueError: no tokenizer")


def test_a_block_is_timed_and_its_error_passes_through(run: Run) -> None:
    ran = run(
        "from vllm.compilation.monitor import monitor_torch_compile\n"
        "with monitor_torch_compile(1) as value: print(value)\n"
        "try:\n"
        "  with monitor_torch_compile(2, 'compilation and first run together took %.2f s'): 1 / 0\n"
        "except ZeroDivisionError: print('raised')"
    )
    assert ran.output.split() == ["1", "raised"]
    (_, first), (_, second) = ran.spans("compile")
    assert first["note"] == {"with_run": False, "inductor_hits": 0, "inductor_misses": 0}
    assert second["error"] == "ZeroDivisionError: division by zero"


def test_the_resolved_configuration_is_read_as_far_as_this_version_has_it(run: Run) -> None:
    ran = run("from vllm.engine.arg_utils import EngineArgs; EngineArgs().create_engine_config()")
    note = ran.spans("engine_config")[0][1]["note"]
    assert note["max_num_batched_tokens"] == 2048
    assert note["cudagraph_sizes"] == [1, 2, 4]
    assert note["version"] == "0.27.1"
    assert "quantization" not in note


def test_a_helper_process_leaves_no_file(run: Run) -> None:
    assert not run("import json, decimal").files


def test_another_sitecustomize_still_runs(run: Run, tmp_path: Path) -> None:
    hidden = tmp_path / "engine" / "sitecustomize.py"
    hidden.write_text("import builtins; builtins.seen = 'hidden one ran'")
    program = "import builtins, sys, vllm; print(builtins.seen, sys.modules['sitecustomize'].__file__)"
    for armed in (False, True):
        assert run(program, armed=armed).output == f"hidden one ran {hidden}"


def test_the_engine_sees_the_path_that_it_would_have(run: Run) -> None:
    program = "import sys; print(sys.path)"
    assert run(program).output == run(program, hooked=False).output


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_write_files_of_their_own(run: Run, tmp_path: Path, method: str) -> None:
    script = tmp_path / "engine" / "parent.py"
    script.write_text(
        "import multiprocessing\n"
        "def work():\n"
        "    from vllm.tokenizers.registry import get_tokenizer\n"
        "    get_tokenizer('x')\n"
        "def main(method):\n"
        "    from vllm.tokenizers.registry import get_tokenizer\n"
        "    get_tokenizer('y')\n"
        "    child = multiprocessing.get_context(method).Process(target=work)\n"
        "    child.start(); child.join()\n"
    )
    ran = run(f"import parent\nif __name__ == '__main__': parent.main({method!r})")
    assert ran.output == ""
    assert len(ran.spans("tokenizer")) == 2
    assert len(ran.files) == 2
    assert sorted(event["forked"] for event in ran.of("process")) == [False, method != "spawn"]


def test_a_folder_that_cannot_be_written_costs_the_measurement_alone(run: Run, tmp_path: Path) -> None:
    program = "from vllm.v1.engine.core import EngineCore; EngineCore(); print('up')"
    assert run(program, folder=tmp_path / "gone").output == "up"


RAY = """
import json

def init(address=None, *, runtime_env=None):
    print(json.dumps([address, runtime_env]))
"""


@pytest.mark.parametrize(
    ("given", "path"),
    [(None, "${PYTHONPATH}"), ({"env_vars": {"A": "1", "PYTHONPATH": "/own"}, "working_dir": "."}, "/own")],
)
def test_ray_sets_the_hook_for_workers_of_a_cluster_that_is_there(
    run: Run, tmp_path: Path, given: dict[str, Any] | None, path: str
) -> None:
    package = tmp_path / "engine" / "ray" / "_private"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("from ray._private.worker import init")
    (package / "worker.py").write_text(RAY)
    address, extended = json.loads(run(f"import ray; ray.init('auto', runtime_env={given!r})").output)
    bare = given or {}
    hooked = {"PYTHONPATH": f"{HOOK}:{path}", "COLDCAST_HOOK_DIR": str(tmp_path / "events")}
    assert (address, extended) == ("auto", {**bare, "env_vars": {**bare.get("env_vars", {}), **hooked}})
    submitted = f"import os, ray; os.environ['RAY_JOB_CONFIG_JSON_ENV_VAR'] = '{{}}'; ray.init(runtime_env={given!r})"
    assert json.loads(run(submitted).output) == [None, given]


def test_where_ray_has_no_path_to_put_behind_the_hook_the_worker_gets_none(tmp_path: Path) -> None:
    def path_with(pythonpath: str) -> str:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": pythonpath, "COLDCAST_HOOK_DIR": str(tmp_path)}
        command = [sys.executable, "-c", "import sys; print(sys.path)"]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert path_with(f"{HOOK}{os.pathsep}") == path_with("")


def test_armed_late_it_wraps_what_is_there(run: Run, tmp_path: Path) -> None:
    ran = run(
        "import sys; from vllm.v1.engine.core import EngineCore\n"
        f"sys.path.insert(0, {str(HOOK)!r}); import coldcast_hook\n"
        f"coldcast_hook.arm({str(tmp_path / 'events')!r}); EngineCore()",
        armed=False,
    )
    assert ran.of("process")[0]["late"]
    assert len(ran.spans("model_loading")) == 1


LOGGING = """
import logging
from vllm.logger import init_logger
plain = logging.getLogRecordFactory()
logger = init_logger('vllm.engine')
logger.setLevel(logging.INFO)
logger.info('Loading weights took %.2f seconds', 1.23456)
logger.info('Received request: %s', 'a secret prompt')
logging.getLogger('other').error('not ours')
try: 1 / 0
except ZeroDivisionError: logger.exception('EngineCore failed to start.')
"""


def test_log_records_keep_their_unrounded_seconds_and_prompts_are_not_recorded(run: Run) -> None:
    ran = run(LOGGING)
    assert [(event["format"], event["args"]) for event in ran.of("log")] == [
        ("Loading weights took %.2f seconds", [1.23456])
    ]
    assert [event["text"] for event in ran.of("error")] == [
        "EngineCore failed to start. ZeroDivisionError: division by zero"
    ]
    assert not any("prompt" in path.read_text() for path in ran.files)


def test_the_exception_that_ends_a_process_is_recorded_and_printed_as_ever(run: Run) -> None:
    program = "import vllm.logger\nraise OSError('no such model')"
    ran = run(program)
    assert [event["text"] for event in ran.of("error")] == ["OSError: no such model"]
    assert ran.output == run(program, hooked=False).output


def test_a_traceback_shows_the_engine_s_frames_alone(run: Run) -> None:
    program = "from vllm.tokenizers.registry import get_tokenizer\nget_tokenizer('')"
    ran = run(program)
    assert "in get_tokenizer" in ran.output
    assert ran.output == run(program, hooked=False).output


def test_once_the_server_is_up_the_hook_is_gone(run: Run) -> None:
    ran = run(
        "import logging; stock = logging.getLogRecordFactory()\n"
        "import sys; from vllm.logger import init_logger; from vllm.tokenizers.registry import get_tokenizer\n"
        "server = logging.getLogger('uvicorn.error'); server.setLevel(logging.INFO)\n"
        "server.info('Application startup complete.')\n"
        "get_tokenizer('x'); init_logger('vllm.x').error('later')\n"
        "print(logging.getLogRecordFactory() is stock, any('coldcast' in type(f).__module__ for f in sys.meta_path))"
    )
    assert ran.output.splitlines()[0] == "True False"
    assert ran.events[-1]["event"] == "retired"
    assert not ran.of("begin")
    assert not ran.of("error")


@pytest.mark.parametrize(
    "program",
    [
        "from vllm.v1.worker.gpu_worker import Worker; Worker().compile_or_warm_up_model(); Worker().load_model()",
        "from vllm.v1.engine.core import EngineCoreProc as E; E().worker.load_model()",
    ],
    ids=["a worker that is warm", "an engine that is whole"],
)
def test_from_what_has_started_it_retires(run: Run, program: str) -> None:
    ran = run(program)
    # The second load_model, after the retirement, is not recorded.
    assert [event["event"] for event in ran.events[-2:]] == ["end", "retired"]


def test_what_another_thread_does_is_marked(run: Run) -> None:
    ran = run(
        "import threading; from vllm.tokenizers.registry import get_tokenizer\n"
        "thread = threading.Thread(target=get_tokenizer, args=['x']); thread.start(); thread.join(); get_tokenizer('y')"
    )
    assert [begin["main"] for begin, _ in ran.spans("tokenizer")] == [False, True]


def test_outermost_imports_are_timed_and_loaders_left_as_they_were(run: Run, tmp_path: Path) -> None:
    slow = "import time\nend = time.monotonic() + 0.01\nwhile time.monotonic() < end: pass\n"
    (tmp_path / "engine" / "inner.py").write_text(slow)
    (tmp_path / "engine" / "outer.py").write_text("import inner\n" + slow)
    ran = run("import vllm, outer; print(vars(outer.__spec__.loader).keys() & {'exec_module'})")
    assert ran.output == "set()"
    names = [event["name"] for event in ran.of("import")]
    assert "outer" in names
    assert "inner" not in names


def test_its_own_time_is_reported(run: Run) -> None:
    ran = run("from vllm.v1.engine.core import EngineCore; EngineCore()")
    spent = [event["spent"] for event in ran.events]
    assert spent == sorted(spent)
    assert 0 < spent[-1] < 0.1
