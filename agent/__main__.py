"""The commands of the agent: ``coldcast-agent --help``."""

import logging

import typer

from agent.commands_run import run

__all__ = ["main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command(context_settings={"allow_interspersed_args": False})(run)


@app.callback()
def _agent() -> None:
    """Measures how real vLLM engines start, and reports it to a Coldcast service."""


def main() -> None:
    """Run the command that the command line names."""
    # On standard error, and warnings only: what the engine prints stays the engine's.
    logging.basicConfig(level=logging.WARNING, format="coldcast-agent %(levelname)s %(message)s")
    app()


if __name__ == "__main__":
    main()
