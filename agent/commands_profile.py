"""``coldcast-agent profile``: measures the startups of models one after the other, and stops each engine again."""

import os
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from agent.child import hold_signals
from agent.client import Reporter
from agent.profiling import Conditions, Interrupted, Plan, Profiled, measure, read_matrix
from agent.settings import AgentSettings
from app.errors import SettingsError
from app.stages import SIX_STAGES

__all__ = ["profile"]


def profile(
    models: Annotated[list[str] | None, typer.Argument(metavar="MODEL…", help="Hub ids or folders.")] = None,
    repeat: Annotated[int, typer.Option(help="How often to start each.", min=1)] = 1,
    cold: Annotated[
        bool, typer.Option("--cold", help="Give every startup empty caches, and its weights out of the page cache.")
    ] = False,
    engine_args: Annotated[str, typer.Option(help="Further arguments of vllm serve, as one text.")] = "",
    matrix: Annotated[
        Path | None, typer.Option(help="YAML list of rows with model, engine_args and environment.")
    ] = None,
    executable: Annotated[str, typer.Option(help="The engine's command, as far as the word serve.")] = "vllm",
    timeout_seconds: Annotated[float, typer.Option(help="When a startup is given up.", min=1.0)] = 7200.0,
    is_reported: Annotated[bool, typer.Option("--report/--no-report", help="Send the measurements.")] = True,
) -> None:
    """Measure startups: start an engine, wait until it is healthy, stop it, again; a table at the end."""
    try:
        plans = _plans(models or [], shlex.split(engine_args), matrix, repeat)
        reporter = Reporter(AgentSettings.of(os.environ)) if is_reported else None
    except (OSError, ValueError, SettingsError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    logs = Path(tempfile.mkdtemp(prefix="coldcast-logs-"))
    conditions = Conditions(tuple(shlex.split(executable)), cold, timeout_seconds, logs)
    console = Console()
    done = _measure_all(plans, conditions, reporter, console)
    console.print(_table(done))
    for line in _remarks(done):
        typer.echo(line)
    if len(done) < len(plans) or any(profiled.measurement["outcome"] != "ready" for profiled in done):
        typer.echo(f"Not every startup ended well; the engines' logs are in {logs}.", err=True)
        raise typer.Exit(1)
    shutil.rmtree(logs)


def _measure_all(
    plans: list[Plan], conditions: Conditions, reporter: Reporter | None, console: Console
) -> list[Profiled]:
    """Return what was measured until the end, or until something or somebody stopped it."""
    done: list[Profiled] = []
    hold_signals()
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(plans))
        for plan in plans:
            progress.update(task, description=plan.model)
            try:
                done.append(measure(plan, os.environ, conditions, number=len(done)))
            except (OSError, Interrupted) as error:
                console.print(f"Stopped: {error}")
                return done
            progress.advance(task)
            if reporter is not None:
                reporter.send(done[-1].measurement)
    return done


def _plans(models: list[str], engine_args: list[str], matrix: Path | None, repeat: int) -> list[Plan]:
    if matrix is not None:
        plans = read_matrix(matrix, models, engine_args)
    elif models:
        plans = [Plan(model, tuple(engine_args)) for model in models]
    else:
        raise ValueError("Name a model, or a matrix file with --matrix.")
    return [plan for plan in plans for _ in range(repeat)]


def _table(done: list[Profiled]) -> Table:
    table = Table(title="Seconds of each stage", title_justify="left")
    for heading in ("model", "outcome", "weights", "compile", "inspection", "kernels"):
        table.add_column(heading)
    for stage in (*SIX_STAGES, "other", "total"):
        table.add_column(str(stage).replace("_", " "), justify="right")
    for profiled in done:
        table.add_row(*_row(profiled))
    return table


def _row(profiled: Profiled) -> list[str]:
    measurement = profiled.measurement
    cache = measurement["spec"].get("cache", {})
    stages = [measurement["stages"].get(stage.value) for stage in SIX_STAGES]
    known = [seconds for seconds in stages if seconds is not None]
    other = measurement["total_seconds"] - sum(known) if len(known) == len(stages) else None
    states = [str(cache.get(name) or "unknown") for name in ("weights", "compile", "model_inspection", "kernels")]
    seconds = ["-" if value is None else f"{value:.2f}" for value in (*stages, other, measurement["total_seconds"])]
    return [measurement["spec"]["model"]["name"], measurement["outcome"], *states, *seconds]


def _remarks(done: list[Profiled]) -> list[str]:
    """Say of each startup what its table row cannot: what was evicted, what it died of, what is not whole."""
    remarks = []
    for number, profiled in enumerate(done, start=1):
        facts = profiled.measurement["facts"]
        said = [profiled.eviction, facts.get("last_error"), *facts.get("notes", [])]
        remarks += [f"Startup {number}: {remark}" for remark in said if remark]
    return remarks
