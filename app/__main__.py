"""The console script `coldcast`.

The commands that learn or serve import what they need themselves: it takes seconds, and neither `--help` nor `predict`
needs it.
"""

import json
import os
import sys
import threading
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from app.commands.logs import configure_logs
from app.commands.predict import ask, read_spec, show
from app.commands.signals import Stopped, stopping_on_signals
from app.errors import ColdcastError
from app.schemas.spec import CompileCache, WeightsState
from app.settings import Settings

__all__ = ["main"]

app = typer.Typer(
    help="Coldcast forecasts how long a vLLM engine will take to start, stage by stage.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _console() -> Console:
    """Progress and errors go to standard error, so that standard output holds only answers."""
    return Console(stderr=True, highlight=False)


def _settings() -> Settings:
    return Settings.from_environment(os.environ)


@app.command()
def serve(
    api_only: Annotated[
        bool, typer.Option("--api-only", help="The API alone: `coldcast migrate` and `coldcast refit` run elsewhere.")
    ] = False,
) -> None:
    """Serve the API, with refits beside it and a Postgres of its own where DATABASE_URL is unset."""
    from app.commands.serve import serve as serve_all

    serve_all(_settings(), _console(), api_only=api_only)


@app.command()
def migrate() -> None:
    """Bring the tables up to date, import the reference measurements, make the first fit."""
    from app.commands.database import prepare, sessions

    with sessions(_settings()) as opened:
        prepare(opened, _console())


@app.command()
def refit(
    every: Annotated[float | None, typer.Option(min=1, help="Go on, one refit in so many seconds.")] = None,
    until_stdin_closes: Annotated[bool, typer.Option("--until-stdin-closes", hidden=True)] = False,
) -> None:
    """Refit once and say what came of it, or go on with --every."""
    from app.commands.database import database, sessions
    from app.refit import refit_every, refit_once

    settings = _settings()
    if every is not None:
        stop = threading.Event()
        if until_stdin_closes:
            threading.Thread(target=_set_when_stdin_closes, args=[stop], daemon=True).start()
        with database(settings) as running, sessions(running) as opened:
            refit_every(opened, running.listen_url or running.database_url or "", every, stop)
        return
    console = _console()
    with sessions(settings) as opened, console.status("Refitting …"):
        report = refit_once(opened)
    if report is None:
        raise ColdcastError("Another process refits at the moment: try again when it is done.")
    typer.echo(f"{report.outcome.value}: {report.reason} (fit {report.fit_id})")


def _set_when_stdin_closes(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


@app.command(name="import")
def import_files(
    files: Annotated[list[Path], typer.Argument(help="Files of measurements: JSON or JSON lines.")],
) -> None:
    """Store measurements from files; all of a file, or on an error none of it."""
    from app.commands.database import sessions
    from app.importing import import_measurements
    from app.reference import parse_file

    console = _console()
    with sessions(_settings()) as opened:
        for file in files:
            with console.status(f"Importing {file} …"):
                imported = import_measurements(opened, parse_file(file), reference=False)
            typer.echo(
                f"{file}: {imported.created} new, {imported.unchanged} known, {len(imported.conflicts)} conflicts"
            )
            for measurement_id in imported.conflicts:
                console.print(f"{file}: the id {measurement_id} is taken by other content", markup=False)


@app.command()
def predict(
    model: Annotated[str | None, typer.Argument(help="Model name or hub id.")] = None,
    gpu: Annotated[str | None, typer.Argument(help="GPU name, as NVML or people write it.")] = None,
    weights: Annotated[WeightsState | None, typer.Option(help="Where the weights lie.")] = None,
    compile_cache: Annotated[CompileCache | None, typer.Option("--compile", help="State of the compile cache.")] = None,
    engine_version: Annotated[str | None, typer.Option(help="vLLM version.")] = None,
    spec: Annotated[
        Path | None, typer.Option(help="A whole spec as JSON, from a file or - for standard input.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the service's answer as JSON.")] = False,
    url: Annotated[
        str, typer.Option(envvar="COLDCAST_URL", help="Where the service answers.")
    ] = "http://127.0.0.1:8000",
) -> None:
    """Ask a running service how long a startup will take."""
    if spec is None and (model is None or gpu is None):
        raise typer.BadParameter("give MODEL and GPU, or --spec")
    cache = {"weights": weights, "compile": compile_cache}
    engine = {"version": engine_version}
    question = read_spec(spec) if spec else {"model": model, "hardware": gpu, "engine": engine, "cache": cache}
    prediction = ask(url, question)
    if as_json:
        typer.echo(json.dumps(prediction, indent=2))
    else:
        show(prediction, Console(highlight=False))


def main() -> NoReturn:
    """Run the command line; an error that was foreseen is one line on standard error and exit code 1."""
    configure_logs()
    try:
        with stopping_on_signals():
            app(standalone_mode=True)
    except ColdcastError as error:
        typer.echo(f"coldcast: {error}", err=True)
        raise SystemExit(1) from None
    except Stopped as signal:  # As a shell says that a process died of a signal.
        raise SystemExit(128 + signal.args[0]) from None
    raise SystemExit(0)


if __name__ == "__main__":
    main()
