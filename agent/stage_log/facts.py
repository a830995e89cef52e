"""What a log tells of the spec: the model, the hardware, the engine's arguments, the caches. Pure."""

import re
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from agent.stage_log.wrappers import Line
from app.schemas.spec import (
    CacheSpec,
    CompileCache,
    EngineSpec,
    HardwareSpec,
    InspectionCache,
    ModelRunner,
    ModelSpec,
    Storage,
    WeightsState,
)

__all__ = ["FACT_LITERALS", "SpecFacts"]

_SECTIONS: dict[str, type[BaseModel]] = {
    "model": ModelSpec,
    "hardware": HardwareSpec,
    "engine": EngineSpec,
    "cache": CacheSpec,
}
_MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")
_NETWORK_FILE_SYSTEMS = ("nfs", "lustre", "gpfs", "ceph", "beegfs", "cifs", "smb", "fuse", "9p", "wekafs")

# Arguments, as the engine's own line (key=value) and the line of non-default ones (a Python dict) spell them.
_ARGUMENT_OF = {
    "model": "model.name",
    "model_tag": "model.name",
    "revision": "model.revision",
    "quantization": "model.quantization",
    "dtype": "model.dtype",
    "load_format": "engine.load_format",
    "tensor_parallel_size": "engine.tensor_parallel_size",
    "pipeline_parallel_size": "engine.pipeline_parallel_size",
    "enforce_eager": "engine.enforce_eager",
    "max_num_seqs": "engine.max_num_seqs",
    "max_num_batched_tokens": "engine.max_num_batched_tokens",
    "max_model_len": "engine.max_model_len",
    "max_seq_len": "engine.max_model_len",
}
_ARGUMENT = re.compile(
    rf"(?<![\w.])['\"]?(?P<key>{'|'.join(_ARGUMENT_OF)})['\"]?(?:=|: )"
    r"(?:'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\"|(?:torch\.|LoadFormat\.)?(?P<bare>[\w.+/-]+))"
)
_CAPTURE_SIZES = re.compile(r"['\"]cudagraph_capture_sizes['\"]: ?\[(?P<sizes>[\d, ]+)\]")
_CAPTURE_BAR = re.compile(
    r"Capturing CUDA graph(?: shape)?s(?: \((?P<mode>[^)]{1,60})\))?: .{0,80}?\| *\d+/(?P<n>\d{1,6})"
)
_NUMBER = r"\d{1,7}(?:\.\d{1,6})?"
_ENGINE_LINE = re.compile(r"LLM engine (?:\(v(?P<version>[^)\s]+)\) )?with config: ")
_RANK = re.compile(r"rank \d+ in world size \d+ .*TP rank (?P<rank>\d{1,5})")


def _plain(value: str) -> Any:
    """Read a printed Python value: None, a boolean, a whole number, or text."""
    if re.fullmatch(r"\d{1,9}", value):
        return int(value)
    return {"None": None, "True": True, "False": False}.get(value, value)


def _gib(value: str) -> int | None:
    """Bytes from GiB as printed; 0.00 says only that they are few."""
    return round(float(value) * 2**30) or None


def _gpu(value: str) -> str:
    return value.replace("_", " ")


def _hub_id(value: str) -> str:
    return value.replace("--", "/", 1)


def _storage(file_system: str) -> Storage | None:
    """The kind of storage where the file system alone tells it; a disk's does not."""
    name = file_system.lower()
    if name in _MEMORY_FILE_SYSTEMS:
        return Storage.TMPFS
    return Storage.NETWORK if name.startswith(_NETWORK_FILE_SYSTEMS) else None


def _weights(file_system: str) -> WeightsState | None:
    return WeightsState.PAGE_CACHE if file_system.lower() in _MEMORY_FILE_SYSTEMS else None


class _Fact(NamedTuple):
    """A line that tells one field of the spec; ``literal`` stands in every such line.

    ``value`` is what it tells, or what reads it from the pattern's group. A ``guess`` counts only where no other line
    tells the field.
    """

    path: str
    literal: str
    pattern: re.Pattern[str]
    value: Any
    guess: bool


def _fact(path: str, literal: str, pattern: str | None = None, value: Any = _plain, *, guess: bool = False) -> _Fact:
    return _Fact(path, literal, re.compile(pattern or re.escape(literal)), value, guess)


# The first line that tells a field counts: what a drafter or a later part repeats is not the model's.
_FACTS = (
    _fact("engine.version", "vLLM API server version ", r"vLLM API server version (\S+)"),
    _fact("engine.version", "vLLM server version ", r"vLLM server version ([^\s,]+)"),
    _fact("engine.version", "  version ", r"[▀▄█] +version (\S+)"),
    _fact("engine.version", "vLLM Version ", r"^vLLM Version (\S+)", guess=True),
    _fact("engine.max_model_len", "sing max model len ", r"Using max model len (\d+)"),
    _fact("engine.max_num_batched_tokens", "max_num_batched_tokens=", r"enabled with max_num_batched_tokens=(\d+)"),
    _fact("engine.max_num_seqs", "etting max_num_seqs to ", r"Setting max_num_seqs to (\d+)"),
    _fact("engine.model_runner", "Using V2 Model Runner", value=ModelRunner.V2),
    _fact("engine.model_runner", "gpu_model_runner.py:", r"\d\] Starting to load model", ModelRunner.V1),
    _fact("engine.enforce_eager", "Enforce eager set, disabling", value=True),
    _fact("engine.enforce_eager", "Cudagraph is disabled under eager mode", value=True),
    _fact("model.name", "  model ", r"[▀▄█] +model +(\S.*?)\s*$", str),
    _fact("model.name", "Starting to load model ", r"Starting to load model (\S+?)\.\.\.", str),
    _fact("model.name", "models--", r"models--([^/\s'\"]+)", _hub_id, guess=True),
    _fact("model.architecture", "Resolved architecture: ", r"Resolved architecture: (\w+)", str),
    _fact("model.weight_bytes", "Checkpoint size: ", rf"Checkpoint size: ({_NUMBER}) GiB", _gib),
    _fact("model.num_weight_files", " shards: 100%", r"checkpoint shards: 100% Completed \| \d+/(\d{1,6})"),
    _fact("hardware.gpu", "Your device '", r"Your device '([^']{1,100})'", str),
    _fact("hardware.gpu", "device_name=", r"device_name=(\w{1,100})", _gpu),
    _fact("hardware.gpu_count", " in world size ", r"rank \d+ in world size (\d{1,5})"),
    _fact("hardware.gpu_memory_bytes", "Free memory on device ", rf"\({_NUMBER}/({_NUMBER}) GiB\)", _gib),
    _fact("hardware.storage", "Filesystem type for ", r"Filesystem type for checkpoints: (\w+)", _storage),
    _fact("engine.load_format", "Runai Model Streamer", value="runai_streamer", guess=True),
    _fact("engine.load_format", "fastsafetensors checkpoint", value="fastsafetensors", guess=True),
    _fact("engine.load_format", "InstantTensor loader", value="instanttensor", guess=True),
    _fact("cache.weights", "Time spent downloading weights for ", value=WeightsState.NETWORK),
    _fact("cache.weights", "Filesystem type for ", r"Filesystem type for checkpoints: (\w+)", _weights),
    _fact("cache.model_inspection", "Loaded model info for class ", r" from cache", InspectionCache.WARM),
    _fact("cache.compile", "torch.compile cache is disabled", value=CompileCache.DISABLED),
    _fact("cache.compile", "Cache the graph", value=CompileCache.COLD),
    _fact("cache.compile", "Compiling a graph for ", value=CompileCache.COLD),
    _fact("cache.compile", "saved AOT compiled function", value=CompileCache.COLD),
    _fact("cache.compile", "Directly load the compiled graph", value=CompileCache.WARM),
    _fact("cache.compile", "Directly load AOT compilation", value=CompileCache.WARM),
)


FACT_LITERALS = tuple(fact.literal for fact in _FACTS)


class SpecFacts:
    """Gathers the spec's fields, one line at a time."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self._guessed: dict[str, Any] = {}
        self._graphs: dict[str, int] = {}
        self._ranks = 0

    def get(self, path: str) -> Any:
        """Return what the log told of the field at ``path`` so far."""
        return self._known.get(path)

    def read(self, line: Line) -> None:
        """Take in what ``line`` tells of the spec."""
        text = line.text
        for fact in _FACTS:
            if fact.literal in text and (match := fact.pattern.search(text)):
                value = fact.value(match[1]) if callable(fact.value) else fact.value
                if value is not None:
                    (self._guessed if fact.guess else self._known).setdefault(fact.path, value)
        if "LLM engine " in text and (config := _ENGINE_LINE.search(text)):
            version = {"engine.version": config["version"]} if config["version"] else {}
            self._known |= version | _arguments(text[config.end() :])
        elif "non-default args: " in text:
            self._known = _arguments(text) | self._known
        if "Capturing CUDA graph" in text:
            self._graphs |= {bar["mode"] or "": int(bar["n"]) for bar in _CAPTURE_BAR.finditer(text)}
        self._read_rank(line)

    def _read_rank(self, line: Line) -> None:
        """The number of ranks shows in their highest number where the arguments are cut off."""
        ranks = [] if line.process.rank is None else [line.process.rank]
        if " in world size " in line.text and (match := _RANK.search(line.text)):
            ranks.append(int(match["rank"]))
        self._ranks = max([self._ranks, *(rank + 1 for rank in ranks)])

    def spec(self) -> dict[str, dict[str, Any]]:
        """Return the spec as far as the log tells it, each field as ``app.schemas.spec`` takes it."""
        if self._ranks:
            self._guessed["engine.tensor_parallel_size"] = self._ranks
        if self._graphs:
            self._guessed["engine.num_cudagraphs"] = sum(self._graphs.values())
        spec: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
        for path, value in (self._guessed | self._known).items():
            section, field = path.split(".")
            spec[section][field] = value
        return {section: _valid(_SECTIONS[section], fields) for section, fields in spec.items()}


def _arguments(text: str) -> dict[str, Any]:
    """Read printed arguments; of one that is printed twice, the first is the engine's and the second a drafter's."""
    found: dict[str, Any] = {}
    for match in _ARGUMENT.finditer(text):
        path = _ARGUMENT_OF[match["key"]]
        value = _plain(next(v for v in (match["single"], match["double"], match["bare"]) if v is not None))
        if path == "engine.load_format":
            found.setdefault(path, str(value).lower())
        elif value is not None and value != "auto":
            found.setdefault(path, value)
    if sizes := _CAPTURE_SIZES.search(text):
        found["engine.num_cudagraph_sizes"] = sizes["sizes"].count(",") + 1
    return found


def _valid(schema: type[BaseModel], fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out the fields that ``schema`` would refuse: a damaged log must not make a spec that nobody takes."""
    try:
        schema.model_validate(fields)
    except ValidationError as error:
        refused = {problem["loc"][0] for problem in error.errors()}
        return {name: value for name, value in fields.items() if name not in refused}
    return fields
