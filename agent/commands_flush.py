"""``coldcast-agent flush``: sends what is spooled."""

import os

import typer

from agent.client import Reporter
from agent.settings import AgentSettings
from app.errors import SettingsError

__all__ = ["flush"]


def flush() -> None:
    """Send the measurements that wait in the spool. Ends with status 1 while some still wait."""
    try:
        reporter = Reporter(AgentSettings.of(os.environ))
    except SettingsError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    flushed = reporter.flush()
    typer.echo(
        f"sent {flushed.sent}, refused {flushed.refused}, waiting {flushed.waiting}, dropped so far {flushed.dropped}"
    )
    if flushed.refused:
        typer.echo(f"The refused ones lie in {reporter.spool.folder / 'refused'}, each beside its problem.", err=True)
    if flushed.waiting:
        typer.echo(f"Some still wait: {flushed.problem or 'run this again'}.", err=True)
        raise typer.Exit(1)
