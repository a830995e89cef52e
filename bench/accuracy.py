"""How accurate Coldcast is, against the paper's own method: ``python bench/accuracy.py [--only A1,B] [--json FILE]``.

The table goes to the terminal and progress to stderr. With --json, every row's prediction, bounds and truth are
written, so that all figures can be recomputed.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # Run as a script, it finds app and bench.
os.environ.setdefault("OMP_NUM_THREADS", "1")  # The work is parallel over fits, not within them.

from bench.bounds import E
from bench.differences import D
from bench.lines import Line
from bench.nodes import C0, C1, C3, G
from bench.own_node import I
from bench.protocols import A1, A2, B, H, Protocol
from bench.robustness import F
from bench.runner import Answers, Ask, answer
from bench.table import markdown, record, render

__all__ = ["main"]

PROTOCOLS: dict[str, Protocol] = {protocol.name: protocol for protocol in (A1, A2, B, C0, C1, C3, D, E, F, G, H, I)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the protocols and print the table."""
    options = _parser().parse_args(arguments)
    chosen = [PROTOCOLS[name] for name in options.only]
    asks = {protocol.name: protocol.asks() for protocol in chosen}
    answers = answer((ask for some in asks.values() for ask in some), options.processes)
    lines = [line for protocol in chosen for line in protocol.lines(answers)]
    if options.json == "-":
        _write(sys.stdout, lines, asks, answers)
        return 0
    if options.markdown:
        print(markdown(lines))
    else:
        render(lines)
    if options.json:
        with Path(options.json).open("w") as file:
            _write(file, lines, asks, answers)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", type=_names, default=list(PROTOCOLS), metavar="A1,B", help="run these protocols alone"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write every prediction there; - for stdout in place of the table"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--processes", type=int, default=2, help="processes that fit side by side (default 2)")
    return parser


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in PROTOCOLS]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not one of {', '.join(PROTOCOLS)}")
    return names


def _write(file: TextIO, lines: Sequence[Line], asks: Mapping[str, Sequence[Ask]], answers: Answers) -> None:
    rows = [record(name, ask, answers[ask]) for name, some in asks.items() for ask in some]
    json.dump({"lines": [{**asdict(line), "verdict": line.verdict} for line in lines], "rows": rows}, file)
    file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
