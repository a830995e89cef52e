"""What the benchmark shows: its table for people, and a record of every prediction for programs."""

from functools import cache
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.lines import Figures, Line
from bench.methods import Estimate
from bench.reference_rows import H200, load_rows, paper_rows
from bench.runner import METHODS, Ask, Training

__all__ = ["markdown", "record", "render"]


HEADINGS = ("", "what is asked", *METHODS, "must reach", "aim", "verdict")


def render(lines: list[Line]) -> None:
    """Print the table on the terminal."""
    table = Table(*HEADINGS, show_lines=True)
    for line in lines:
        table.add_row(*_cells(line))
    Console(width=None if Console().is_terminal else 160).print(table)


def markdown(lines: list[Line]) -> str:
    """Return the table as Markdown."""
    rows = [HEADINGS, ["---"] * len(HEADINGS), *map(_cells, lines)]
    return "\n".join(f"| {' | '.join(row)} |".replace("\n", "<br>") for row in rows)


def _cells(line: Line) -> list[str]:
    figures = [_cell(line, method) for method in METHODS]
    return [line.protocol, line.what, *figures, _text(line.must), _text(line.aim), line.verdict]


def _cell(line: Line, method: str) -> str:
    if method not in line.figures:
        return "-"
    figures = line.figures[method]
    return "cannot" if figures is None else _text(figures)


def _text(figures: Figures) -> str:
    """Write ``{"MAPE %": 2.4}`` as ``MAPE 2.40 %``: the last word of a name is its unit."""
    return "\n".join(_figure(name, value) for name, value in figures.items())


def _figure(name: str, value: float) -> str:
    words, _, unit = name.rpartition(" ")
    number = f"{value:.0f}" if float(value).is_integer() else f"{value:.2f}"
    return f"{words} {number} {unit}" if unit in ("%", "s", "s²") else f"{name} {number}"


def record(protocol: str, ask: Ask, estimate: Estimate | None) -> dict[str, Any]:
    """Return one prediction with its bounds, its truth, and what it was learned from."""
    row = load_rows()[ask.row]
    return {
        "protocol": protocol,
        "method": ask.training.method,
        "learned": _learned(ask.training, row.node == H200),
        "graph_bytes_hidden": ask.hide_graph,
        "measurement": row.measurement.id,
        "model": row.model,
        "machine": row.node,
        "experiment": row.experiment,
        "iteration": row.iteration,
        "measured": row.seconds,
        "predicted": None if estimate is None else estimate.seconds,
        "bounds": {} if estimate is None else estimate.bounds,
    }


@cache
def _learned(training: Training, about_h200: bool) -> dict[str, Any]:
    """Say what a training left out of the reference, what of an own it had, and whether it was made wrong.

    The own startups on the H200 are there for questions about them alone.
    """
    rows = load_rows() if about_h200 else paper_rows()
    known = [load_rows()[index] for index in training.rows]
    return {
        "measurements": len(known),
        "models_left_out": sorted({row.model for row in rows} - {row.model for row in known}),
        "machines_left_out": sorted({row.node for row in rows} - {row.node for row in known}),
        "own": [load_rows()[index].measurement.id for index in training.own],
        "corruption_seed": training.seed,
    }
