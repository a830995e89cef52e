"""The engine's arguments, as its command line and the YAML file that it names give them. Parsing is pure.

vLLM itself resolves much more (defaults by GPU and version); what it resolved reaches the measurement through the hook
and wins over this.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

__all__ = ["EngineArguments", "parse_command", "parse_options", "read_config"]

_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ash"))
_SHORT = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "dpl": "data_parallel_size_local",
    "q": "quantization",
    "cc": "compilation_config",
    "O": "compilation_config",
}
# Options without a value; those that begin alike need no line of their own (see _is_flag).
_FLAGS = frozenset(
    [
        "aggregate_engine_logging",
        "async_scheduling",
        "calculate_kv_scales",
        "data_parallel_external_lb",
        "data_parallel_hybrid_lb",
        "dpe",
        "dph",
        "enforce_eager",
        "ep",
        "fully_sharded_loras",
        "headless",
        "language_model_only",
        "numa_bind",
        "trust_remote_code",
    ]
)
_FLAG_BEGINNINGS = ("enable_", "disable_", "no_", "skip_", "use_", "return_")
_LISTS = frozenset(
    [
        "allowed_media_domains",
        "api_key",
        "cpu_offload_params",
        "cuda_graph_sizes",
        "cudagraph_capture_sizes",
        "ignore_patterns",
        "logits_processors",
        "lora_modules",
        "numa_bind_cpus",
        "numa_bind_nodes",
        "served_model_name",
    ]
)
_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")


@dataclass(frozen=True)
class EngineArguments:
    """The model and the options of one engine; options by their long name with underscores."""

    model: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def parse_command(command: Sequence[str], environment: Mapping[str, str]) -> EngineArguments:
    """Return the engine's arguments in ``command``, whatever wraps it (a shell's -c, python -m, numactl, …)."""
    words = _arguments(_unwrap_shell(command, environment))
    arguments = parse_options(words)
    model = arguments.options.get("model") or arguments.options.get("model_tag") or arguments.model
    return EngineArguments(str(model) if model else None, arguments.options)


def parse_options(words: Sequence[str]) -> EngineArguments:
    """Return the options in ``words``, and the first word that belongs to none as the model. Never raises."""
    options: dict[str, Any] = {}
    model, rest = None, list(words)
    while rest:
        word = rest.pop(0)
        if not _is_option(word):
            model = model or word
            continue
        name, path, value = _split(word)
        _store(options, name, path, _take(name, rest) if value is None else value)
    return EngineArguments(model, options)


def read_config(arguments: EngineArguments) -> EngineArguments:
    """Add the options of the YAML file that ``--config`` names; the command line's win.

    Raises ``OSError`` where it cannot be read, ``ValueError`` where it is no mapping.
    """
    if not (path := arguments.options.get("config")):
        return arguments
    import yaml  # Here, since few command lines name a file.

    try:
        content = yaml.safe_load(Path(str(path)).read_text())
    except yaml.YAMLError as error:
        raise ValueError("the file that --config names is no YAML") from error
    if not isinstance(content, dict):
        raise ValueError("the file that --config names holds no mapping")
    named = {str(key).replace("-", "_"): value for key, value in content.items()}
    model = arguments.model or named.get("model") or named.get("model_tag")
    return EngineArguments(str(model) if model else None, {**named, **arguments.options})


def _unwrap_shell(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the words of ``sh -c "…"``, with plain variables filled in; any other command as it is."""
    words = list(command)
    if len(words) < 3 or Path(words[0]).name not in _SHELLS:
        return words
    options = [index for index, word in enumerate(words[:-1]) if re.fullmatch(r"-[a-z]*c", word)]
    if not options:
        return words
    try:
        return shlex.split(Template(words[options[0] + 1]).safe_substitute(environment), comments=True)
    except ValueError:
        return words  # An open quote: the shell will say so itself.


def _arguments(words: Sequence[str]) -> list[str]:
    """Return the words after ``vllm serve`` or after the API server's module; all but the first where neither is."""
    for index, word in enumerate(words):
        if word in _MODULES:
            return list(words[index + 1 :])
        before = Path(words[index - 1]).name if index else ""
        if word == "serve" and (before.startswith("vllm") or before == "main.py"):
            return list(words[index + 1 :])
    return list(words[1:])


def _is_option(word: str) -> bool:
    """``-1`` is a number, ``-tp`` and ``--x`` are options."""
    return len(word) > 1 and word[0] == "-" and not re.fullmatch(r"-\d+(\.\d+)?", word)


def _split(word: str) -> tuple[str, list[str], str | None]:
    """``--a-b.c=1`` → ``a_b``, [``c``], ``1``; ``-O3`` → ``compilation_config``, [], ``3``."""
    if glued := re.fullmatch(r"-O(\d)", word):
        return "compilation_config", [], glued[1]
    name, equals, value = word.lstrip("-").partition("=")
    head, *path = name.split(".")
    head = head.replace("-", "_")
    return (head if word.startswith("--") else _SHORT.get(head, head)), path, value if equals else None


def _take(name: str, rest: list[str]) -> Any:
    """Take the value of the option ``name`` off ``rest``; True where it has none."""
    if name in _LISTS:
        values = []
        while rest and not _is_option(rest[0]):
            values.append(rest.pop(0))
        return values
    if not rest or _is_option(rest[0]) or _is_flag(name):
        return True
    return rest.pop(0)


def _is_flag(name: str) -> bool:
    return name in _FLAGS or name.startswith(_FLAG_BEGINNINGS)


def _store(options: dict[str, Any], name: str, path: list[str], value: Any) -> None:
    """Store a value; ``--no-x`` is x = False, JSON objects are read, and ``--x.y`` goes into x."""
    if name.startswith("no_") and value is True:
        name, value = name.removeprefix("no_"), False
    if isinstance(value, str) and (path or value.lstrip().startswith(("{", "["))):
        value = _json(value)
    for key in reversed(path):
        value = {key: value}
    known = options.get(name)
    options[name] = _merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    both = {
        key: _merged(old[key], new[key]) for key in old if isinstance(old[key], dict) and isinstance(new.get(key), dict)
    }
    return {**old, **new, **both}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
