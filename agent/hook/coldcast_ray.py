"""Carries the hook into the workers of a Ray cluster that was started before the engine, and so without it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

from coldcast_recorder import Recorder

_HERE = os.path.dirname(os.path.abspath(__file__))


def carrying(init: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    """Return ``ray.init`` so that it adds the hook's variables to those that Ray sets for the job's workers."""
    extended = recorder.guarded(with_hook)

    @functools.wraps(init)
    def carry(*args: Any, **kwargs: Any) -> Any:
        # `ray job submit` brings a runtime environment, and Ray refuses to start where both name a variable.
        if "RAY_JOB_CONFIG_JSON_ENV_VAR" not in os.environ:
            runtime_env = extended(kwargs.get("runtime_env"), recorder.folder)
            if runtime_env is not None:
                kwargs["runtime_env"] = runtime_env
        return init(*args, **kwargs)

    return carry


def with_hook(runtime_env: Mapping[str, Any] | None, folder: str) -> dict[str, Any]:
    """Return ``runtime_env`` with the hook armed; Ray puts the PYTHONPATH in that the worker would have had.

    It counts for other nodes too: without the agent nothing is armed there, and without ``folder`` the hook retires.
    """
    extended = dict(runtime_env or {})
    variables = dict(extended.get("env_vars") or {})
    path = variables.get("PYTHONPATH", "${PYTHONPATH}")
    extended["env_vars"] = {**variables, "PYTHONPATH": _HERE + os.pathsep + path, "COLDCAST_HOOK_DIR": folder}
    return extended
