"""The commands of the agent: ``coldcast-agent --help``."""

import logging

import typer

from agent.commands_flush import flush
from agent.commands_parse import parse
from agent.commands_profile import profile
from agent.commands_run import run
from agent.commands_show import show

__all__ = ["main"]

app = typer.Typer(
    help="Measures how real vLLM engines start, and reports it to a Coldcast service.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
# What follows the engine's command belongs to it, whatever it looks like.
_ENGINE_COMMAND = {"allow_interspersed_args": False}
app.command(context_settings=_ENGINE_COMMAND)(run)
app.command()(profile)
app.command()(parse)
app.command(context_settings=_ENGINE_COMMAND)(show)
app.command()(flush)


def main() -> None:
    """Run the command that the command line names."""
    # On standard error, and warnings only: what the engine prints stays the engine's.
    logging.basicConfig(level=logging.WARNING, format="coldcast-agent %(levelname)s %(message)s")
    app()


if __name__ == "__main__":
    main()
