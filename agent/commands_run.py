"""``coldcast-agent run``: what production wraps around its engine."""

import os
from pathlib import Path
from typing import Annotated

import typer

from agent.launcher import Launch

__all__ = ["run"]


def run(
    command: Annotated[list[str], typer.Argument(help="The engine's own command, after --.", metavar="-- COMMAND…")],
    timeout_seconds: Annotated[
        float, typer.Option(help="When a startup counts as timed out; the engine itself goes on.", min=1.0)
    ] = 7200.0,
    health_url: Annotated[
        str | None, typer.Option(help="Where the engine is healthy, where its command line does not tell.")
    ] = None,
    events_dir: Annotated[Path | None, typer.Option(help="Keep the hook's raw events in this folder.")] = None,
) -> None:
    """Start an engine, measure its startup, report it, and stay as its thin parent.

    Standard streams, signals and the exit code pass through. Whatever fails in the agent or at the service, the engine
    starts.
    """
    launch = Launch(command, os.environ, timeout_seconds=timeout_seconds, health_url=health_url, events_dir=events_dir)
    raise typer.Exit(launch.run())
