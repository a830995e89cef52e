from typing import Any

import pytest

from agent.stage_log import parse_lines
from tests.agent.startup_lines import API, record


@pytest.mark.parametrize(
    ("line", "section", "fields"),
    [
        ("Filesystem type for checkpoints: TMPFS. Checkpoint size: 1.50 GiB.", "hardware", {"storage": "tmpfs"}),
        ("Filesystem type for checkpoints: TMPFS. Checkpoint size: 1.50 GiB.", "cache", {"weights": "page_cache"}),
        ("Filesystem type for checkpoints: TMPFS. Checkpoint size: 1.50 GiB.", "model", {"weight_bytes": 3 * 2**29}),
        ("Filesystem type for checkpoints: NFS4. Checkpoint size: 0.00 GiB.", "hardware", {"storage": "network"}),
        ("Filesystem type for checkpoints: EXT4. Checkpoint size: 0.00 GiB.", "hardware", {}),
        ("Filesystem type for checkpoints: EXT4. Checkpoint size: 0.00 GiB.", "model", {}),
        ("Time spent downloading weights for acme/Owl-3B: 4.500000 seconds", "cache", {"weights": "network"}),
        ("vLLM's torch.compile cache is disabled.", "cache", {"compile": "disabled"}),
        ("saved AOT compiled function to /cache/model", "cache", {"compile": "cold"}),
        ("Loaded model info for class owl.Owl from cache", "cache", {"model_inspection": "warm"}),
        ("Using V2 Model Runner", "engine", {"model_runner": "v2"}),
        ("Loading safetensors using Runai Model Streamer: 0%", "engine", {"load_format": "runai_streamer"}),
        ("Your device 'Tesla T4' is old", "hardware", {"gpu": "Tesla T4"}),
        ("No file at E=8,N=8,device_name=NVIDIA_H200.json", "hardware", {"gpu": "NVIDIA H200"}),
        ("rank 3 in world size 8 is assigned as DP rank 0, TP rank 3", "engine", {"tensor_parallel_size": 4}),
        ("rank 3 in world size 8 is assigned as DP rank 0, TP rank 3", "hardware", {"gpu_count": 8}),
        ("Free memory on device cuda:0 (4.00/80.00 GiB)", "hardware", {"gpu_memory_bytes": 80 * 2**30}),
        ("vLLM server version 0.33.0, serving model acme/Owl-3B", "engine", {"version": "0.33.0"}),
        ("reading /cache/models--acme--Owl-3B/refs", "model", {"name": "acme/Owl-3B"}),
        ("non-default args: {'model': 'a/b', 'tensor_parallel_size': -1}", "engine", {}),
        ("non-default args: {'load_format': 'LOUD', 'dtype': 'auto'}", "engine", {"load_format": "loud"}),
        ("non-default args: {'load_format': 'LOUD', 'dtype': 'auto'}", "model", {}),
    ],
)
def test_a_line_tells_a_field_of_the_spec(line: str, section: str, fields: dict[str, Any]) -> None:
    assert parse_lines([record(9, line)]).spec[section] == fields


def test_the_engines_own_line_goes_before_the_arguments_and_the_first_model_before_a_drafter() -> None:
    args = record(0, "non-default args: {'model': 'mine', 'max_model_len': 8192}", process=API)
    engine = record(
        8, "Initializing a V1 LLM engine (v0.24.0) with config: model='a/b', draft(model='c'), max_seq_len=9"
    )
    spec = parse_lines([args, engine]).spec
    assert spec["model"] == {"name": "a/b"}
    assert spec["engine"] == {"version": "0.24.0", "max_model_len": 9}
