"""Probe: versions of the engine and of what it stands on, from the metadata installed with it; nothing is imported."""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from agent.probes.base import Context, Found, NoData

__all__ = ["find_interpreter", "installed_versions", "probe", "site_folders"]

_DISTRIBUTIONS = ("vllm", "torch", "transformers", "triton", "flashinfer-python", "safetensors", "numpy")


def probe(context: Context) -> Found:
    """Find the interpreter that runs the engine, and what is installed for it."""
    interpreter = find_interpreter(context.command, context.environment)
    if interpreter is None:
        raise NoData("no word of the command is a Python interpreter or a script of one")
    versions = installed_versions([*_python_path(context.environment), *site_folders(interpreter)])
    if not versions:
        raise NoData("the engine's interpreter has no vLLM installed that its metadata tells of")
    engine = {"version": versions["vllm"]} if "vllm" in versions else {}
    # A build for the CPU uses no GPU, whatever the machine has: that is a kind of hardware of its own.
    hardware: dict[str, Any] = {"gpu": "CPU"} if engine.get("version", "").endswith("cpu") else {}
    return Found({"engine": engine, "hardware": hardware}, versions)


def find_interpreter(command: Sequence[str], environment: Mapping[str, str]) -> Path | None:
    """Return the Python that ``command`` runs: the first word that is one, or a script whose first line names one."""
    for word in command:
        if word.startswith("-"):
            continue
        found = shutil.which(word, path=environment.get("PATH"))
        if found and (python := _python_of(Path(found), environment)):
            return python
    return None


def site_folders(interpreter: Path) -> list[Path]:
    """Return the folders that ``interpreter`` finds distributions in, its virtual environment's first."""
    prefixes = [interpreter.parent.parent]
    settings = prefixes[0] / "pyvenv.cfg"
    if settings.is_file():
        values = dict(re.findall(r"^\s*([\w-]+)\s*=\s*(.*?)\s*$", settings.read_text(), re.MULTILINE))
        if values.get("include-system-site-packages", "").lower() == "true" and "home" in values:
            prefixes.append(Path(values["home"]).parent)
    if Path("/usr") in prefixes:
        prefixes.append(Path("/usr/local"))  # Debian's own Python looks there too, and pip installs there.
    release = re.fullmatch(r"python(3\.\d+)", interpreter.resolve().name)
    lib = f"python{release[1]}" if release else "python3*"
    patterns = [f"{folder}/{lib}/{kind}-packages" for folder in ("lib", "lib64") for kind in ("site", "dist")]
    patterns.append("lib/python3/dist-packages")
    return [found for prefix in prefixes for pattern in patterns for found in sorted(prefix.glob(pattern))]


def installed_versions(folders: Sequence[Path]) -> dict[str, str]:
    """Return the versions of the engine's distributions in ``folders``; the first one found counts, as in imports."""
    versions: dict[str, str] = {}
    for name in _DISTRIBUTIONS:
        found = metadata.distributions(name=name, path=[str(folder) for folder in folders])
        if version := next((distribution.version for distribution in found), None):
            versions[name] = version
    return versions


def _python_path(environment: Mapping[str, str]) -> list[Path]:
    return [Path(folder) for folder in environment.get("PYTHONPATH", "").split(":") if folder]


def _python_of(path: Path, environment: Mapping[str, str]) -> Path | None:
    """Return ``path`` where it is a Python, or the Python that its first lines name where it is a script."""
    if re.fullmatch(r"python(\d(\.\d+)?)?", path.name):
        return path
    with path.open("rb") as file:
        lines = file.read(1024).decode(errors="replace").splitlines()
    return next(_named_pythons(lines[:2], environment), None) if lines and lines[0].startswith("#!") else None


def _named_pythons(lines: Sequence[str], environment: Mapping[str, str]) -> Iterator[Path]:
    """Where the path is too long for a first line, installers have a shell exec it in the second."""
    for word in re.findall(r"[^\s'\"#!]*python[\d.]*(?=['\"\s]|$)", " ".join(lines)):
        if found := shutil.which(word, path=environment.get("PATH")):
            yield Path(found)
