"""``coldcast-agent parse``: what stock logs tell, as JSON."""

import json
from pathlib import Path
from typing import Annotated

import typer

from agent.stage_log import NotAVllmLog, ParsedLog, parse_lines, read_lines

__all__ = ["parse"]

STANDARD_INPUT = 0


def parse(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG…", help="Logs of vLLM; - reads standard input.")],
) -> None:
    """Print the stage seconds of startups from their stock logs alone: one JSON object a line, for each log."""
    is_fine = True
    for log in logs:
        try:
            found = _parse_file(log)
        except (NotAVllmLog, OSError) as error:
            typer.echo(f"{log}: {error.strerror if isinstance(error, OSError) else error}", err=True)
            is_fine = False
        else:
            typer.echo(json.dumps({"log": str(log), **found.as_json()}))
    if not is_fine:
        raise typer.Exit(1)


def _parse_file(log: Path) -> ParsedLog:
    with open(STANDARD_INPUT if str(log) == "-" else log, "rb", closefd=str(log) != "-") as stream:
        return parse_lines(read_lines(stream))
