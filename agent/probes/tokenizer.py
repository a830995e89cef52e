"""Probe: the bytes of the tokenizer's files."""

from pathlib import Path

from agent.probes.base import Context, Found, NoData
from agent.probes.command_line import EngineArguments
from agent.probes.model_files import find_model_files

__all__ = ["probe", "tokenizer_files"]

# What is read beside the vocabulary, whichever it is.
_SETTINGS = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
# Vocabularies, in the order in which they are preferred: a repository often carries several, and one is read.
_VOCABULARIES = (
    ("tokenizer.json",),
    ("tekken.json",),
    ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model"),
    ("vocab.json", "merges.txt", "vocab.txt", "vocab.bpe"),
    ("*.tiktoken",),
)


def probe(context: Context) -> Found:
    """Measure the files in the folder of the tokenizer, which is the model's unless the command line says otherwise."""
    folder = context.files.folder
    if isinstance(other := context.arguments.options.get("tokenizer"), str):
        revision = {"revision": context.arguments.options.get("tokenizer_revision")}
        folder = find_model_files(EngineArguments(other, revision), context.environment).folder
    files = tokenizer_files(folder) if folder else []
    if not files:
        raise NoData("the tokenizer's files are not on this node")
    return Found({"model": {"tokenizer_bytes": sum(path.stat().st_size for path in files)}})


def tokenizer_files(folder: Path) -> list[Path]:
    """Return the files that a tokenizer in ``folder`` is loaded from."""
    vocabulary = next((found for names in _VOCABULARIES if (found := _present(folder, names))), [])
    return vocabulary + _present(folder, _SETTINGS) if vocabulary else []


def _present(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    return [path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()]
