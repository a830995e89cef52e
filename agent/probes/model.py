"""Probe: the model's facts, from its config.json and its weight files."""

import json
import struct
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.probes.base import Context, Found, NoData
from agent.probes.model_files import ModelFiles
from app.hf_config import model_facts

__all__ = ["head_bytes", "parse_header", "probe", "read_config_json", "read_header"]

MAX_HEADER_BYTES = 100 * 2**20  # The format's own limit.


def probe(context: Context) -> Found:
    """Read config.json, the sizes of the weight files, and the header of the first; of all where a head is tied."""
    files = context.files
    if files.name is None:
        raise NoData("the command line names no model")
    model: dict[str, Any] = {"name": files.name}
    facts: dict[str, Any] = {"snapshot": files.snapshot}
    if files.weights:
        model["weight_bytes"] = sum(path.stat().st_size for path in files.weights)
        model["num_weight_files"] = len(files.weights)
        facts["format"] = files.weights[0].suffix.lstrip(".")
    if files.folder is not None:
        model |= model_facts(_overridden(read_config_json(files), context.arguments.options.get("hf_overrides")))
    if facts.get("format") == "safetensors":
        stored = parse_header(read_header(files.weights[0]))
        facts["stored_bytes_by_dtype"] = dict(stored)
        if model.get("tie_word_embeddings") and (unloaded := _unloaded_bytes(files.weights)) is not None:
            model["unloaded_weight_bytes"] = unloaded
    return Found({"model": model}, facts)


def read_config_json(files: ModelFiles) -> dict[str, Any]:
    """Return the model's config.json; empty where it has none (GGUF, Mistral's own format).

    Raises ``ValueError`` where it holds no JSON object.
    """
    path = files.folder / "config.json" if files.folder else None
    if path is None or not path.is_file():
        return {}
    config = json.loads(path.read_bytes())
    if not isinstance(config, dict):
        raise ValueError("config.json holds no JSON object")
    return config


def read_header(path: Path) -> bytes:
    """Return the header of a safetensors file: eight bytes of length, little endian, then JSON."""
    with path.open("rb") as file:
        length = file.read(8)
        size = struct.unpack("<Q", length)[0] if len(length) == 8 else 0
        if size > MAX_HEADER_BYTES:
            raise ValueError("the weight file is no safetensors file")
        return file.read(size)


def parse_header(header: bytes) -> Counter[str]:
    """Return the bytes of each data type (BF16, F8_E4M3, …) among the tensors that ``header`` describes."""
    counter: Counter[str] = Counter()
    for name, tensor in json.loads(header or b"{}").items():
        if name != "__metadata__":
            first, last = tensor["data_offsets"]
            counter[str(tensor["dtype"])] += last - first
    return counter


def head_bytes(header: bytes) -> int:
    """Return the bytes of the output head among the tensors that ``header`` describes: tied, the engine skips it."""
    tensors = json.loads(header or b"{}")
    heads = (tensors[name]["data_offsets"] for name in tensors if name.split(".")[-2:] == ["lm_head", "weight"])
    return sum(last - first for first, last in heads)


def _unloaded_bytes(weights: Sequence[Path]) -> int | None:
    """Return the bytes of a stored head in all files; None where a header is not sound: other facts still count."""
    try:
        return sum(head_bytes(read_header(path)) for path in weights)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _overridden(config: dict[str, Any], overrides: Any) -> dict[str, Any]:
    return {**config, **overrides} if isinstance(overrides, dict) else config
