"""Fixture machines: small trees of files that stand for /proc, /sys and a model's folder."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.probes.base import Context
from agent.probes.command_line import parse_command
from agent.probes.model_files import find_model_files

CPUINFO = """\
processor\t: {number}
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC 9354 32-Core Processor
cache size\t: 1024 KB
power management:

"""


def write_tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def write_machine(root: Path, *, cores: int = 4, threads: int = 2, extra: Mapping[str, str] | None = None) -> Path:
    """A machine of ``cores`` physical cores with ``threads`` each, idle for half of the time, without limits."""
    logical = cores * threads
    topology = {
        f"sys/devices/system/cpu/cpu{number}/topology/{name}": f"{value}\n"
        for number in range(logical)
        for name, value in (("physical_package_id", 0), ("core_id", number % cores))
    }
    files = {
        "proc/cpuinfo": "".join(CPUINFO.format(number=number) for number in range(logical)),
        "proc/self/status": f"Name:\tpython\nCpus_allowed_list:\t0-{logical - 1}\n",
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": "22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n",
        "proc/stat": "cpu  100 0 100 200 0 0 0 0 0 0\ncpu0 1 2 3 4\n",
        "proc/loadavg": "0.52 0.58 0.59 1/467 12345\n",
        "proc/meminfo": "MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:    8192 kB\nHugePages_Total: 0\n",
    }
    return write_tree(root, {**topology, **files, **(extra or {})})


def write_model(folder: Path, *, shards: int = 2, config: Mapping[str, Any] | None = None) -> Path:
    """A model of ``shards`` safetensors files of one BF16 tensor each, with an index and a tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"model-{number + 1:05d}-of-{shards:05d}.safetensors" for number in range(shards)]
    for number, name in enumerate(names):
        write_safetensors(folder / name, {f"layer.{number}": ("BF16", 8192)})
    weight_map = {f"layer.{number}": name for number, name in enumerate(names)}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 512,
        "torch_dtype": "bfloat16",
        **(config or {}),
    }
    return write_tree(
        folder,
        {
            "config.json": json.dumps(config),
            "model.safetensors.index.json": json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}),
            "tokenizer.json": "x" * 1000,
            "tokenizer_config.json": "x" * 10,
        },
    )


def write_safetensors(path: Path, tensors: Mapping[str, tuple[str, int]]) -> None:
    header, offset = {}, 0
    for name, (dtype, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": [size // 2], "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(offset))


def context(
    root: Path, command: str = "vllm serve some/model", environment: Mapping[str, str] | None = None
) -> Context:
    """The context that a probe gets on the machine below ``root``; nobody waits."""
    environment = environment if environment is not None else {"HOME": str(root / "home")}
    arguments = parse_command(command.split(), environment)
    files = find_model_files(arguments, environment)
    return Context(root, tuple(command.split()), environment, arguments, files, lambda seconds: None)
