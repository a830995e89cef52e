"""All probes together: on a fixture machine, on this machine, and where some of them fail."""

import json
import os
import sys
from pathlib import Path

import pytest

from agent.probes import Facts, probe_all
from app.schemas.spec import Spec
from tests.agent.machines import write_machine, write_model

COMMAND = ["vllm", "serve", "{model}", "-tp", "2", "--max-model-len", "4096"]


def probed(root: Path, model: Path, **environment: str) -> Facts:
    command = [word.format(model=model) for word in COMMAND]
    return probe_all(command, {"HOME": str(root / "home"), **environment}, root=root, pause=lambda seconds: None)


def test_a_machine_becomes_a_spec(tmp_path: Path) -> None:
    model = write_model(tmp_path / "alice" / "tiny")
    facts = probed(write_machine(tmp_path / "root"), model, COLDCAST_NODE="rack-7")
    hardware = facts.spec["hardware"]
    assert (hardware["cpu"], hardware["cpu_cores"], hardware["node"]) == (
        "AMD EPYC 9354 32-Core Processor",
        4,
        "rack-7",
    )
    assert hardware["gpu_count"] == 2
    assert facts.spec["model"]["name"] == "tiny"
    assert facts.spec["model"]["num_layers"] == 2
    assert facts.spec["engine"] == {"tensor_parallel_size": 2, "max_model_len": 4096}
    assert facts.spec["cache"]["compile"] == "cold"
    Spec.model_validate({**facts.spec, "hardware": {"gpu": "any", **hardware}})
    assert "alice" not in json.dumps([facts.spec, facts.facts])


def test_each_probe_reports_its_seconds_and_its_success(tmp_path: Path) -> None:
    facts = probed(write_machine(tmp_path / "root"), write_model(tmp_path / "tiny"))
    assert {"command_line", "cpu", "page_cache", "versions", "load"} <= facts.probes.keys()
    assert all(probe["seconds"] >= 0 for probe in facts.probes.values())
    assert facts.probes["cpu"] == {**facts.probes["cpu"], "success": True, "error": None}
    assert facts.probes["node"]["success"] is False
    assert facts.probes["node"]["error"].startswith("no data: ")


@pytest.mark.parametrize(
    ("damage", "probe"),
    [("proc/cpuinfo", "cpu"), ("proc/meminfo", "memory"), ("proc/stat", "load"), ("proc/self/mountinfo", "storage")],
)
def test_a_failing_probe_costs_its_own_facts_only(tmp_path: Path, damage: str, probe: str) -> None:
    root, model = write_machine(tmp_path / "root"), write_model(tmp_path / "tiny")
    (root / damage).unlink()
    facts = probed(root, model)
    assert facts.probes[probe]["success"] is False
    assert "FileNotFoundError" in facts.probes[probe]["error"]
    assert facts.spec["model"]["name"] == "tiny"
    assert probe not in facts.facts


def test_nothing_at_all_is_no_error(tmp_path: Path) -> None:
    facts = probe_all([], {}, root=tmp_path / "nowhere", pause=lambda seconds: None)
    assert facts.probes["cpu"]["success"] is False
    assert "cpu" not in facts.spec.get("hardware", {})


def test_a_config_file_that_cannot_be_read_leaves_the_command_line(tmp_path: Path) -> None:
    command = ["vllm", "serve", "org/name", "--config", str(tmp_path / "absent.yaml")]
    facts = probe_all(command, {"HOME": str(tmp_path)}, root=tmp_path, pause=lambda seconds: None)
    assert facts.probes["config_file"]["success"] is False
    assert facts.spec["model"]["name"] == "org/name"


def test_this_machine_is_read_within_the_time_that_a_start_can_spare(tmp_path: Path) -> None:
    model = write_model(tmp_path / "tiny")
    facts = probe_all([sys.executable, "-m", "vllm", "serve", str(model)], {**os.environ, "HOME": str(tmp_path)})
    assert facts.spec["hardware"]["cpu_cores"] >= 1
    assert facts.spec["hardware"]["memory_bytes"] > 2**20
    assert facts.spec["cache"]["weights"] == "page_cache"
    # The load's two readings are 0.1 s apart; the rest takes a few hundredths on an idle machine.
    assert sum(probe["seconds"] for probe in facts.probes.values()) < 5
