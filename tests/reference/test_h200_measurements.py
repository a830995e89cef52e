"""The project's own startups on H200s: what the agent reported, as the reference holds it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.reference import aliases, load_reference, parse_file
from app.schemas.measurement import Measurement
from app.stages import PARTS_OF, STAGES, Part, Stage

ROOT = Path(__file__).resolve().parents[2]
OWN = [m for m in load_reference() if m.facts["machine"] == "h200"]
STARTUPS, SECOND = ({m.facts["label"]: m for m in OWN if m.spec.hardware.node == host} for host in ("h200/a", "h200/b"))


def test_the_files_parse_to_the_shipped_measurements() -> None:
    for name, startups, count in (("h200.json", STARTUPS, 17), ("h200_b.json", SECOND, 19)):
        assert parse_file(ROOT / "app" / "reference" / name) == list(startups.values())
        assert len(startups) == count
    assert len({m.id for m in OWN}) == len(OWN) == 36


@pytest.mark.parametrize("startup", OWN, ids=lambda m: f"{m.spec.hardware.node}/{m.facts['label']}")
def test_every_part_is_there_and_the_parts_sum_to_the_wall_clock(startup: Measurement) -> None:
    assert set(startup.part_seconds) == set(Part)
    assert set(startup.stage_seconds) == set(STAGES)
    assert sum(startup.part_seconds.values()) == pytest.approx(startup.total_seconds, abs=1e-3)
    for stage, seconds in startup.stage_seconds.items():
        parts = sum(startup.part_seconds[part] for part in PARTS_OF[stage])
        assert seconds == pytest.approx(parts, abs=1e-3), stage
    assert startup.part_seconds[Part.UNACCOUNTED] < 0.02 * startup.total_seconds


def test_what_was_varied_is_in_the_specs() -> None:
    engines = [m.spec.engine for m in STARTUPS.values()]
    assert {engine.version for engine in engines} == {"0.24.0"}
    assert {engine.model_runner for engine in engines} == {"v1", "v2"}
    assert sorted({engine.num_cudagraph_sizes for engine in engines}) == [0, 4, 51]
    assert sum(engine.enforce_eager is True for engine in engines) == 1
    assert sum(engine.load_format == "dummy" for engine in engines) == 1
    assert {m.spec.cache.weights for m in STARTUPS.values()} == {"page_cache", "disk", None}
    assert len({m.spec.model.name for m in STARTUPS.values()}) == 6
    assert {m.spec.hardware.node for m in STARTUPS.values()} == {"h200/a"}


def test_an_eager_startup_neither_compiles_nor_captures() -> None:
    (eager,) = (m for m in STARTUPS.values() if m.spec.engine.enforce_eager)
    assert (eager.stages.torch_compile, eager.stages.cuda_graph_capture) == (0.0, 0.0)


def test_no_startup_claims_the_pieces_of_its_graphs_for_graphs() -> None:
    assert all(m.spec.engine.num_cudagraphs is None for m in STARTUPS.values())


def test_a_known_startup() -> None:
    cold = STARTUPS["03-llama3.1-8b-cold"]
    assert cold.total_seconds == 104.355653
    assert cold.part_seconds[Part.KERNEL_WARMUP] == 13.814951
    assert cold.part_seconds[Part.DYNAMO_TRANSFORM] == pytest.approx(5.103993, abs=0.002)  # By the engine's log.
    assert cold.started_at.isoformat() == "2026-11-30T22:30:54.159000+00:00"
    assert cold.spec.model.weight_bytes == 16_060_556_328


def test_repeats_are_numbered_and_the_first_startup_of_the_host_is_marked() -> None:
    repeated = [label for label, m in STARTUPS.items() if m.facts["iteration"] != "1"]
    assert repeated == ["01-qwen2.5-0.5b-cold"]  # 05 found the kernels that 04 had built, so it repeats nothing.
    assert [label for label, m in STARTUPS.items() if "run" in m.facts] == ["00-qwen2.5-0.5b-cold"]


def test_kernels_are_compiled_after_capture_until_tritons_own_cache_has_them() -> None:
    def warm_up(label: str) -> float:
        return STARTUPS[label].part_seconds[Part.KERNEL_WARMUP]

    assert STARTUPS["04-llama3.1-8b-warm"].facts["triton_cache_files"] == 10
    assert STARTUPS["05-llama3.1-8b-warm"].facts["triton_cache_files"] == 220
    assert warm_up("04-llama3.1-8b-warm") > 10 * warm_up("05-llama3.1-8b-warm")


def test_random_weights_take_no_hub_id() -> None:
    names = set(aliases().values()) - {"olmoe-7b"}  # The paper lists that model, of the same shape, but never timed it.
    assert not names & {m.spec.model.name for m in OWN}


def test_on_the_second_host_two_gpus_were_used_and_repeats_are_numbered() -> None:
    parallel = [m for m in SECOND.values() if m.spec.engine.tensor_parallel_size == 2]
    assert [m.spec.hardware.gpu_count for m in parallel] == [2, 2, 2]
    assert {m.spec.hardware.gpu_count for m in SECOND.values() if m not in parallel} == {1}
    assert [label for label, m in SECOND.items() if m.facts["iteration"] == "2"] == [
        "09-llama3.1-8b-warm",
        "16-mistral-7b-warm-fresh",
    ]
    assert [label for label, m in SECOND.items() if "run" in m.facts] == ["00-qwen2.5-0.5b-cold"]


def test_the_state_of_the_kernel_cache_tells_what_kernels_cost() -> None:
    """On the second model runner after capture, on the first inside the profiling run."""
    seconds: dict[tuple[str | None, str], list[float]] = {}
    for m in OWN:
        if m.spec.cache.compile == "warm" and m.spec.cache.kernels:
            part = Part.KERNEL_WARMUP if m.spec.engine.model_runner == "v2" else Part.KV_CACHE_PROFILING
            seconds.setdefault((m.spec.engine.model_runner, m.spec.cache.kernels), []).append(m.part_seconds[part])
    assert max(seconds["v2", "warm"]) < 1
    assert min(seconds["v2", "partial"]) > 6
    assert min(seconds["v2", "cold"]) > 12
    assert max(seconds["v1", "warm"]) < 4
    assert min(*seconds["v1", "partial"], *seconds["v1", "cold"]) > 7


def wire(label: str, **changes: Any) -> dict[str, Any]:
    startup = STARTUPS[label]
    return {**json.loads(startup.model_dump_json(exclude_none=True)), "source": "agent", **changes}


def build(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(ROOT / "scripts" / "build_dataset.py"), str(folder), "--citation", "here"]
    command += ["--node", "h200/a", "--experiment", "e", "--output", str(folder / "built"), *options]
    return subprocess.run(command, check=False, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})


def test_measurements_become_a_file_that_holds_them(tmp_path: Path) -> None:
    for label in ("01-qwen2.5-0.5b-cold", "17-llama3.2-3b-coldevict"):
        (tmp_path / f"{label}.json").write_text(json.dumps(wire(label)))
    (tmp_path / "died.json").write_text(json.dumps(wire("01-qwen2.5-0.5b-cold", outcome="failed")))
    assert build(tmp_path, "--run", "01-qwen2.5-0.5b-cold=early").returncode == 0
    cold, evicted = parse_file(tmp_path / "built")
    assert cold.spec == STARTUPS["01-qwen2.5-0.5b-cold"].spec
    assert evicted.spec == STARTUPS["17-llama3.2-3b-coldevict"].spec
    assert (cold.facts["run"], "run" in evicted.facts) == ("early", False)
    assert evicted.started_at == STARTUPS["17-llama3.2-3b-coldevict"].started_at
    assert cold.stage_seconds[Stage.OTHER] == pytest.approx(STARTUPS["01-qwen2.5-0.5b-cold"].stage_seconds[Stage.OTHER])


def test_two_stories_of_one_model_are_refused(tmp_path: Path) -> None:
    first = wire("01-qwen2.5-0.5b-cold")
    other = json.loads(json.dumps(first))
    other["spec"]["model"]["num_layers"] = 25
    (tmp_path / "a.json").write_text(json.dumps(first))
    (tmp_path / "b.json").write_text(json.dumps(other))
    done = build(tmp_path)
    assert done.returncode != 0
    assert "different facts of qwen2.5-0.5b" in done.stderr
