"""Checks, without running it, that a vLLM release has the names that the hook wraps: check_engine_names.py WHEEL…

Reads the sources in the wheels by ``ast``, so it needs neither a GPU nor the release's dependencies. Ends with 1 where
a release lacks an event that every one should have. Wheels come from ``pip download --no-deps vllm==VERSION``.
"""

import ast
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "agent" / "hook"))

from coldcast_points import POINTS  # noqa: E402  # The hook's folder has to be on the path first.

NOT_EVERYWHERE = frozenset({"compile_start", "compile", "aot_load", "graph_estimate", "upstream"})
"""Events that only some releases have: compile_start to 0.15, upstream from 0.16, the others from 0.20."""


def main(wheels: Sequence[str]) -> int:
    """Print a table of events by releases, in each cell the number of homes; return how to end."""
    releases = {Path(wheel).name.split("-")[1]: homes(Path(wheel)) for wheel in wheels}
    events = sorted({event for module, points in POINTS.items() if module.startswith("vllm") for _, event in points})
    rows = [["", *releases], *([event, *(_count(found, event) for found in releases.values())] for event in events)]
    lacking = [
        f"{release} lacks {event}"
        for release, found in releases.items()
        for event in events
        if event not in found and event not in NOT_EVERYWHERE
    ]
    lines = [f"{row[0]:22}" + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows]
    sys.stdout.write("\n".join([*lines, *lacking, ""]))
    return 1 if lacking else 0


def _count(found: Mapping[str, Sequence[str]], event: str) -> str:
    return str(len(found[event])) if event in found else "-"


def homes(wheel: Path) -> dict[str, list[str]]:
    """Return the qualified names of a wheel that each event would be recorded for."""
    found: dict[str, list[str]] = {}
    with zipfile.ZipFile(wheel) as archive:
        members = set(archive.namelist())
        for module, points in POINTS.items():
            path = module.replace(".", "/")
            member = next((name for name in (f"{path}.py", f"{path}/__init__.py") if name in members), None)
            defined = set(_names(ast.parse(archive.read(member)))) if member else set()
            for name, event in points:
                if name in defined:
                    found.setdefault(event, []).append(f"{module}.{name}")
    return found


def _names(tree: ast.Module) -> Iterator[str]:
    """Yield the functions, methods and assigned names of a module's top level and of its classes."""
    for node in _statements(tree.body):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=owner, body=body):
                yield from (f"{owner}.{name}" for name in _names(ast.Module(body, [])))
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, those under a condition too: some names are defined for some platforms."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _statements([*node.body, *node.orelse])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
