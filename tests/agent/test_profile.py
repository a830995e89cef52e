"""`coldcast-agent profile`, around engines that start in no time."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent.cold import evict_weights, fresh_caches
from agent.probes.page_cache import cached_fraction
from agent.profiling import Plan, read_matrix
from tests.agent.test_client import free_port
from tests.agent.toy_engine import write_toy_engine
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]


def profile(tmp_path: Path, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    server = write_toy_engine(tmp_path / "engine")
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "COLUMNS": "200",
        "PYTHONPATH": f"{ROOT}:{tmp_path / 'engine'}",
        "COLDCAST_URL": f"http://127.0.0.1:{free_port()}",
        "COLDCAST_SPOOL_DIR": str(tmp_path / "spool"),
        "COLDCAST_SEND_SECONDS": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "agent", "profile", "--executable", f"{sys.executable} {server}", *arguments],
        env=variables | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_each_model_is_started_as_often_as_asked(tmp_path: Path) -> None:
    process = profile(tmp_path, "toy-a", "toy-b", "--repeat", "2", "--no-report")
    output, _ = process.communicate(timeout=120)
    rows = [line.split("│")[1].strip() for line in output.splitlines() if line.startswith("│")]
    assert process.returncode == 0
    assert rows == ["toy-a", "toy-a", "toy-b", "toy-b"]
    assert not (tmp_path / "spool").exists()


def test_a_startup_that_fails_is_told_and_ends_with_one(tmp_path: Path) -> None:
    process = profile(tmp_path, "toy", "--no-report", TOY_TOKENIZER="")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "failed" in output
    assert "Startup 1: ValueError: no tokenizer in" in output


def test_measurements_are_reported(tmp_path: Path) -> None:
    # The service is away, so what would be sent waits.
    process = profile(tmp_path, "toy")
    waiting = eventually(lambda: list((tmp_path / "spool").rglob("*.json")), seconds=60)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert json.loads(waiting[0].read_text())["outcome"] == "ready"


def test_what_the_engine_builds_tells_how_cold_its_kernel_cache_was(tmp_path: Path) -> None:
    process = profile(
        tmp_path, "toy", "--repeat", "2", TOY_KERNEL="a/k.cubin", TRITON_CACHE_DIR=str(tmp_path / "triton")
    )
    process.communicate(timeout=120)
    sent = [json.loads(path.read_text()) for path in (tmp_path / "spool").rglob("*.json")]
    states = [wire["spec"]["cache"]["kernels"] for wire in sorted(sent, key=lambda wire: wire["started_at"])]
    assert states == ["cold", "warm"]


def test_a_cache_folder_that_nobody_can_find_costs_its_state_alone(tmp_path: Path) -> None:
    process = profile(
        tmp_path, "toy", TOY_KERNEL="a/k.cubin", TRITON_CACHE_DIR=str(tmp_path), VLLM_CACHE_ROOT="~nobody-here/x"
    )
    output, _ = process.communicate(timeout=120)
    (sent,) = (json.loads(path.read_text()) for path in (tmp_path / "spool").rglob("*.json"))
    assert process.returncode == 0, output
    assert (sent["outcome"], "kernels" in sent["spec"]["cache"]) == ("ready", False)


def test_ctrl_c_stops_the_engine_and_shows_what_was_measured(tmp_path: Path) -> None:
    process = profile(tmp_path, "toy", "--repeat", "500", "--no-report")
    eventually(lambda: list(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()), seconds=60)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Stopped: somebody asked for the end" in output


def test_no_model_is_a_clear_error(tmp_path: Path) -> None:
    process = profile(tmp_path)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (2, "Name a model, or a matrix file with --matrix.\n")


def test_a_matrix_multiplies_models_by_rows(tmp_path: Path) -> None:
    matrix = tmp_path / "matrix.yaml"
    matrix.write_text(
        "- engine_args: --enforce-eager --max-num-seqs 8\n"
        "- {model: c, engine_args: [--quantization, fp8], environment: {OMP_NUM_THREADS: 2}}\n"
    )
    assert read_matrix(matrix, ["a", "b"], ["-O1"]) == [
        Plan("a", ("-O1", "--enforce-eager", "--max-num-seqs", "8")),
        Plan("b", ("-O1", "--enforce-eager", "--max-num-seqs", "8")),
        Plan("c", ("-O1", "--quantization", "fp8"), {"OMP_NUM_THREADS": "2"}),
    ]


@pytest.mark.parametrize("text", ["{", "model: a", "- a", "- {modle: a}", "- {engine_args: -O1}"])
def test_a_matrix_of_anything_else_is_refused(tmp_path: Path, text: str) -> None:
    matrix = tmp_path / "matrix.yaml"
    matrix.write_text(text)
    with pytest.raises(ValueError, match="matrix"):
        read_matrix(matrix, [], [])


def test_weights_leave_the_page_cache_and_what_stays_is_told(tmp_path: Path) -> None:
    weights = tmp_path / "model" / "model.safetensors"
    weights.parent.mkdir()
    (weights.parent / "config.json").write_text("{}")
    weights.write_bytes(os.urandom(2**20))
    assert cached_fraction([weights]) == 1.0
    said = evict_weights(["vllm", "serve", str(weights.parent)], {})
    left = cached_fraction([weights])
    assert left is not None
    assert said == f"{left:.0%} of the weights are left in the page cache"
    assert evict_weights(["vllm", "serve", "hub/model"], {"HOME": str(tmp_path)}).startswith("the weights are not on")


def test_fresh_caches_move_no_variable_that_is_part_of_the_compile_key(tmp_path: Path) -> None:
    assert {name for name in fresh_caches(tmp_path) if name.startswith("VLLM_")} == {"VLLM_CACHE_ROOT"}
    assert len(set(fresh_caches(tmp_path).values())) == len(fresh_caches(tmp_path))
