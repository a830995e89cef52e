"""`coldcast predict`: asks a running service and shows its answer as a table."""

import json
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

from app.errors import ColdcastError, InvalidInput

__all__ = ["ask", "read_spec", "show"]


def read_spec(path: Path) -> dict[str, Any]:
    """Read a spec as JSON from a file, or from standard input where the path is ``-``.

    Raises:
        InvalidInput: it is no JSON object.
    """
    try:
        text = Path("/dev/stdin").read_text() if str(path) == "-" else path.read_text()
        spec = json.loads(text)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} holds no spec: {error}.") from error
    if not isinstance(spec, dict):
        raise InvalidInput(f"{path} holds no spec: write a JSON object as POST /predict takes it.")
    return spec


def ask(url: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the service's prediction for ``spec``.

    Raises:
        ColdcastError: the service is away, or refuses the spec; the message says what to do.
    """
    try:
        response = httpx.post(f"{url.rstrip('/')}/predict", json=spec, timeout=30)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        message = f"No service answers on {url} ({error}): start one with scripts/serve, or set COLDCAST_URL."
        raise ColdcastError(message) from error
    if response.is_success:
        prediction: dict[str, Any] = response.json()
        return prediction
    try:
        problem = response.json()
        raise InvalidInput(" ".join([problem["detail"], *problem.get("candidates", [])]))
    except (ValueError, KeyError, TypeError) as error:
        raise ColdcastError(f"{url} answered {response.status_code}, and not as Coldcast does.") from error


def show(prediction: dict[str, Any], console: Console) -> None:
    """Print a prediction as a table."""
    table = Table()
    table.add_column("stage")
    for column in ("seconds", "lower", "upper"):
        table.add_column(column, justify="right")
    for stage in prediction["stages"]:
        table.add_row(stage["stage"], *_figures(stage))
    table.add_section()
    table.add_row("total", *_figures(prediction["total"]), style="bold")
    console.print(table)
    basis = prediction["basis"]
    console.print(
        f"basis: {basis['rung']}, {basis['measurements']} measurements, fit {basis['fit_id']}, {basis['bounds']}"
    )
    for kind in ("assumed", "extrapolated"):
        for sentence in basis[kind]:
            console.print(f"{kind}: {sentence}", markup=False)


def _figures(row: dict[str, float]) -> list[str]:
    return [f"{row[name]:.2f}" for name in ("seconds", "lower_seconds", "upper_seconds")]
