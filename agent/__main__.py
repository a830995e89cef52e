"""The commands of the agent: ``coldcast-agent --help``."""

import importlib
import logging
import sys
from collections.abc import Sequence
from typing import Any

import typer

__all__ = ["main"]

_COMMANDS: dict[str, dict[str, Any]] = {
    # What follows the engine's command belongs to it, whatever it looks like.
    "run": {"allow_interspersed_args": False},
    "profile": {},
    "parse": {},
    "show": {"allow_interspersed_args": False},
    "flush": {},
}
"""Each command's name, which its module agent.commands_<name> and the function therein have too, and its settings."""


def main() -> None:
    """Run the command that the command line names."""
    # On standard error, and warnings only: what the engine prints stays the engine's.
    logging.basicConfig(level=logging.WARNING, format="coldcast-agent %(levelname)s %(message)s")
    _app(sys.argv[1:])()


def _app(words: Sequence[str]) -> typer.Typer:
    """Return the application with the command that ``words`` begin with, or with all of them for the help.

    ``run`` stands between a node and its engine, so it must neither wait for nor fail with what the others import.
    """
    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    app.callback(help="Measures how real vLLM engines start, and reports it to a Coldcast service.")(_nothing)
    named = [name for name in words[:1] if name in _COMMANDS]
    for name in named or _COMMANDS:
        command = getattr(importlib.import_module(f"agent.commands_{name}"), name)
        app.command(context_settings=_COMMANDS[name])(command)
    return app


def _nothing() -> None:
    """Make the application one of commands, even where it has only one."""


if __name__ == "__main__":
    main()
