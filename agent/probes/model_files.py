"""Where the model's files lie: a folder, a single file, or the hub's cache; nothing is ever downloaded."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from agent.probes.command_line import EngineArguments

__all__ = ["ModelFiles", "find_model_files", "model_name", "weight_files"]

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://")
_HUB_FOLDER = re.compile(r"models--([^/]+?)--([^/]+)")
_PATTERNS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")  # In the order in which the engine prefers them.
_NO_WEIGHTS = re.compile(r"(training_args|optimizer|scheduler|scaler|rng_state).*|tokenizer.*")


@dataclass(frozen=True)
class ModelFiles:
    """The model's name as it may be told, its folder on this node, and its weight files.

    ``remote``: the engine will fetch the weights over the network, as far as the files tell.
    ``snapshot``: the hub's commit, where the folder is a snapshot of the hub.
    """

    name: str | None = None
    folder: Path | None = None
    weights: tuple[Path, ...] = ()
    remote: bool = False
    snapshot: str | None = None


def find_model_files(arguments: EngineArguments, environment: Mapping[str, str]) -> ModelFiles:
    """Find the files of the model that ``arguments`` name. Raises ``OSError`` where a folder cannot be read."""
    if arguments.model is None:
        return ModelFiles()
    name = model_name(arguments)
    if _REMOTE.match(arguments.model):
        return ModelFiles(name, remote=True)
    path = Path(arguments.model)
    if path.is_file():
        return ModelFiles(name, path.parent, (path,))
    if not path.is_dir() and environment.get("VLLM_USE_MODELSCOPE", "").lower() in ("1", "true"):
        return ModelFiles(name)  # ModelScope keeps a cache of its own, which this does not read.
    folder = path if path.is_dir() else _hub_snapshot(arguments, environment)
    if folder is None:
        return ModelFiles(name, remote=_HUB_ID.fullmatch(arguments.model) is not None)
    weights = weight_files(folder, str(arguments.options.get("load_format", "auto")))
    hub = folder.parent.name == "snapshots"
    # A snapshot without weights is what a tokenizer's or a config's download leaves: the weights are still to come.
    return ModelFiles(name, folder, weights, remote=hub and not weights, snapshot=folder.name if hub else None)


def model_name(arguments: EngineArguments) -> str | None:
    """Return the model's name without the folders it lies in, which may name a person.

    A hub id is its own name; of a folder in the hub's cache the hub id; of another path a served name that is a hub id,
    or else the last component.
    """
    model = arguments.model
    if model is None or (_HUB_ID.fullmatch(model) and not Path(model).is_dir()):
        return model
    if hub := _HUB_FOLDER.search(model):
        return f"{hub[1]}/{hub[2]}"
    served = arguments.options.get("served_model_name")
    first = served[0] if isinstance(served, list) and served else served
    if isinstance(first, str) and _HUB_ID.fullmatch(first):
        return first
    return PurePosixPath(_REMOTE.sub("/", model)).name or None


def weight_files(folder: Path, load_format: str = "auto") -> tuple[Path, ...]:
    """Return the files in ``folder`` that the engine will load: one format, and of it what the index lists."""
    patterns = {"pt": _PATTERNS[1:3], "npcache": _PATTERNS[1:2], "safetensors": _PATTERNS[:1]}.get(
        load_format, _PATTERNS
    )
    for pattern in patterns:
        found = sorted(path for path in folder.glob(pattern) if path.is_file() and not _NO_WEIGHTS.match(path.name))
        if not found:
            continue
        consolidated = [path for path in found if path.name.startswith("consolidated")]
        others = [path for path in found if path not in consolidated]
        # Mistral's own format lies beside the hub's in many repositories; the engine loads one of them.
        chosen = consolidated if load_format == "mistral" or not others else others
        listed = _indexed(folder)
        return tuple(path for path in chosen if path.name in listed) or tuple(chosen)
    return ()


def _indexed(folder: Path) -> set[str]:
    """Return the shards that the folder's safetensors index lists; empty where there is none, or none that is sound."""
    try:
        index: Any = json.loads((folder / "model.safetensors.index.json").read_bytes())
        return set(map(str, index["weight_map"].values()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return set()


def _hub_snapshot(arguments: EngineArguments, environment: Mapping[str, str]) -> Path | None:
    """Return the snapshot that the hub's client would take for a hub id, or None where none is there."""
    if arguments.model is None or not _HUB_ID.fullmatch(arguments.model):
        return None
    repository = _hub_cache(arguments, environment) / f"models--{arguments.model.replace('/', '--')}"
    revision = arguments.options.get("revision")
    revision = revision if isinstance(revision, str) and revision else "main"
    try:
        commit = (repository / "refs" / revision).read_text().strip()
    except OSError:
        commit = revision  # A commit is its own reference.
    snapshot = repository / "snapshots" / commit
    return snapshot if "/" not in commit and snapshot.is_dir() else None


def _hub_cache(arguments: EngineArguments, environment: Mapping[str, str]) -> Path:
    if isinstance(folder := arguments.options.get("download_dir"), str):
        return Path(folder)
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if path := environment.get(variable):
            return Path(path).expanduser()
    if home := environment.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    cache = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME") or Path.home()) / ".cache"
    return Path(cache) / "huggingface" / "hub"
