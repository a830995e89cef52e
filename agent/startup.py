"""One startup under measurement: what was known before it, the hook around it, and the measurement it ends in."""

import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.assemble import assemble, read_events
from agent.health import HealthCheck
from agent.probes import Facts, probe_all
from agent.probes.command_line import parse_command, read_config
from agent.probes.kernel_caches import kernel_state, kernels_built
from agent.report import UNKNOWN, Failure, build_measurement

__all__ = ["Startup", "clock", "health_check"]

HOOK = Path(__file__).parent / "hook"


def clock() -> float:
    """Return the seconds since boot, on the clock that the hook uses too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def health_check(command: Sequence[str], environment: Mapping[str, str]) -> HealthCheck | None:
    """Return where the engine of ``command`` will answer; None where it serves nothing.

    Raises ``OSError`` or ``ValueError`` where its command line or its ``--config`` file does not say.
    """
    return HealthCheck.of_options(read_config(parse_command(command, environment)).options)


@dataclass
class Startup:
    """One startup; `prepare` it before the engine is started, mark it `spawned`, and ask for its `measurement`."""

    command: Sequence[str]
    environment: dict[str, str]
    """The engine's environment: the given one, with the hook armed."""
    facts: Facts
    folder: Path
    """Where the engine's processes write their events."""
    id: str
    started_at: datetime
    spawned_at: float

    @classmethod
    def prepare(cls, command: Sequence[str], environment: Mapping[str, str]) -> "Startup":
        """Read what has to be read before the engine starts, and make the folder for its events."""
        facts = probe_all(command, environment)
        folder = Path(tempfile.mkdtemp(prefix="coldcast-"))
        return cls(
            command=command,
            environment=_armed(environment, folder),
            facts=facts,
            folder=folder,
            id=str(uuid.uuid4()),
            started_at=datetime.now(UTC),
            spawned_at=clock(),
        )

    def spawned(self) -> None:
        """Note the time: to be called right before the engine is started."""
        self.started_at, self.spawned_at = datetime.now(UTC), clock()

    def measurement(self, outcome: str, ended_at: float, exit_code: int | None = None) -> dict[str, Any] | None:
        """Return the measurement of a startup that ended, well or not, at ``ended_at`` (seconds since boot).

        None for one that failed without a trace of an engine: what ran was none.
        """
        assembled = assemble(read_events(self.folder), spawned_at=self.spawned_at, healthy_at=ended_at)
        model = self.facts.spec.get("model", {}).get("name", UNKNOWN)
        if outcome != "ready" and model == UNKNOWN and not assembled.engine:
            return None
        failure = None
        if outcome == "ready":
            assembled.cache |= self._kernels()
        else:
            failure = Failure(assembled.failed_in, assembled.last_error)
            assembled.notes = [*assembled.notes, *([] if exit_code is None else [f"the engine ended with {exit_code}"])]
        self.facts.facts["startup"] = assembled.facts
        return build_measurement(
            self.facts,
            assembled,
            id=self.id,
            started_at=self.started_at,
            total_seconds=ended_at - self.spawned_at,
            outcome=outcome,
            failure=failure,
        )

    def _kernels(self) -> dict[str, str]:
        """Return in which state the kernel cache was, by what the engine added to it; nothing where nobody can tell."""
        before = self.facts.facts.get("kernel_caches", {}).get("kernels")
        if not before:  # The probe failed, as counting would now.
            return {}
        state = kernel_state(before, kernels_built(self.environment))
        return {"kernels": state} if state else {}

    def keep_events(self, folder: Path, ended_at: float) -> None:
        """Copy the raw events to ``folder``, with the launcher's own two moments beside them."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        moments = {"spawned_at": self.spawned_at, "healthy_at": ended_at}
        (folder / "launcher.json").write_text(json.dumps(moments))

    def discard(self) -> None:
        """Remove the folder of events."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _armed(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return ``environment`` with the hook armed, and without the service's key, which is none of the engine's."""
    path = [str(HOOK), *filter(None, [environment.get("PYTHONPATH")])]
    armed = {name: value for name, value in environment.items() if name != "COLDCAST_API_KEY"}
    return armed | {"COLDCAST_HOOK_DIR": str(folder), "PYTHONPATH": os.pathsep.join(path)}
