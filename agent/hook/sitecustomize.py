"""Arms Coldcast's hook in a Python process that starts with COLDCAST_HOOK_DIR set, and does nothing in any other.

Python imports ``sitecustomize`` at the start of every interpreter whose PYTHONPATH holds this folder. Only one module
can have that name, so this one runs whichever it hides.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import sys


def _arm(here: str) -> None:
    folder = os.environ.get("COLDCAST_HOOK_DIR")
    if folder is None:
        return
    # Whatever goes wrong here costs a measurement and must never cost a startup.
    with contextlib.suppress(Exception):
        import coldcast_hook

        coldcast_hook.arm(folder)
    # The environment arms the children; the engine itself sees the path that it would have without the hook.
    added = {here}
    if os.environ.get("PYTHONPATH") == here + os.pathsep:
        added.add(os.getcwd())  # A Ray worker that would have no PYTHONPATH: what is left of it means this folder.
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") not in added]


def _run_hidden(here: str) -> None:
    visible = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", visible)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_here = os.path.dirname(os.path.abspath(__file__))
_arm(_here)
_run_hidden(_here)
