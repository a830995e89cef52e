"""``coldcast-agent show``: the facts that the probes read on this node."""

import json
import os
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from agent.probes import Facts, probe_all

__all__ = ["show"]


def show(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="The engine's command, such as: vllm serve MODEL; its model and caches are looked at too."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: the spec as it is reported, and all facts.")
    ] = False,
) -> None:
    """Show what the probes read on this node. Nothing is sent and nothing is started."""
    facts = probe_all(command or [], os.environ)
    if as_json:
        typer.echo(json.dumps({"spec": facts.spec, "facts": facts.facts, "probes": facts.probes}, indent=2))
        return
    console = Console()
    for title, rows in _tables(facts).items():
        console.print(_table(title, rows))


def _tables(facts: Facts) -> dict[str, list[tuple[str, str]]]:
    spec = [
        (f"{section}.{name}", _said(value)) for section, fields in facts.spec.items() for name, value in fields.items()
    ]
    further = [
        (f"{probe}.{name}", _said(value)) for probe, found in facts.facts.items() for name, value in found.items()
    ]
    problems = [(name, probe["error"]) for name, probe in facts.probes.items() if probe["error"]]
    return {"Spec": spec, "Further facts": further, "Not read": problems}


def _table(title: str, rows: list[tuple[str, str]]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False, box=None, min_width=len(title))
    for name, value in rows:
        table.add_row(name, value)
    return table


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
