"""Draws docs/h200.svg: each startup on the H200s, measured and predicted with its model left out, as stacked bars.

python bench/accuracy.py --only I --json rows.json
python -m bench.draw_h200 rows.json docs/h200.svg
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from app.stages import STAGES
from bench.reference_rows import h200_rows

COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb")
PIXELS_A_SECOND, LEFT, BAR, GAP, TOP = 5, 210, 11, 9, 44


def predictions(rows: list[dict[str, Any]]) -> dict[str, Mapping[str, float]]:
    """Return by measurement what was predicted for it when its model alone had been left out."""
    startups = h200_rows()
    hosts = {startup.measurement.id: startup.host for startup in startups}
    found = {}
    for row in (row for row in rows if row["measurement"] in hosts):
        host = hosts[row["measurement"]]
        others = [other.measurement.id for other in startups if other.host == host and other.model != row["model"]]
        if row["method"] == "ours" and row["learned"]["own"] == others:
            found[row["measurement"]] = row["predicted"]
    return found


def bar(top: int, seconds: Mapping[str, float], opacity: float) -> Iterator[str]:
    """Yield the stages of one startup side by side, and its total behind them."""
    left = float(LEFT)
    for stage, colour in zip(STAGES, COLOURS, strict=True):
        width = PIXELS_A_SECOND * seconds.get(stage.value, 0.0)
        yield f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{BAR}" fill="{colour}" opacity="{opacity}"/>'
        left += width
    yield f'<text x="{left + 4:.1f}" y="{top + BAR - 2}">{seconds["total"]:.0f} s</text>'


def picture(rows: list[dict[str, Any]]) -> str:
    """Return the picture as SVG."""
    predicted, body = predictions(rows), []
    for place, (stage, colour) in enumerate(zip(STAGES, COLOURS, strict=True)):
        left = 10 + 125 * place
        body.append(f'<rect x="{left}" y="8" width="10" height="10" fill="{colour}"/>')
        body.append(f'<text x="{left + 14}" y="17">{stage.value}</text>')
    top = TOP
    for row in h200_rows():
        body.append(
            f'<text x="10" y="{top + BAR + 3}">{row.host.rpartition("/")[2]} {row.measurement.facts["label"]}</text>'
        )
        body += bar(top, row.seconds, 1.0)
        body += bar(top + BAR, predicted[row.measurement.id], 0.5)
        top += 2 * BAR + GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="900" height="{top}" font-family="sans-serif" font-size="10">'
    )
    note = f'<text x="{LEFT}" y="36">measured (full colour) over predicted with the model left out (pale)</text>'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', note, *body, "</svg>"]) + "\n"


def main() -> None:
    """Write the picture."""
    rows = json.loads(Path(sys.argv[1]).read_text())["rows"]
    Path(sys.argv[2]).write_text(picture(rows))


if __name__ == "__main__":
    main()
