"""Writes the events of one process of the engine as JSON lines, and knows when to leave it.

Nothing here may raise into the engine: the first failure retires the hook from its process.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import coldcast_facts
from coldcast_facts import clock
from coldcast_points import LAST_EVENTS

_Function = TypeVar("_Function", bound=Callable[..., Any])

MOST_LINES = 20_000  # A startup writes some hundreds; this bounds a process that never retires.


def on_main_thread() -> bool:
    """Tell whether this is the main thread, which a startup waits for."""
    return threading.current_thread() is threading.main_thread()


class Recorder:
    """Writes the events of this process; silent until vLLM is imported, so that helper processes leave no file."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.active = True
        self.spent = 0.0
        """CPU seconds that the hook itself has taken in this process; what others take meanwhile is not its doing."""
        self._live = False
        self._encode: Callable[..., str] = str
        self._file = -1
        self._lines = 0
        self._keys = itertools.count()
        self._open = 0
        self._has_started = False
        self._held: list[dict[str, Any]] = []
        self._on_retire: list[Callable[[], None]] = []

    def guarded(self, function: _Function) -> _Function:
        """Return ``function`` so that it counts as the hook's own time and its failure retires the hook."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not self.active:
                return None
            start = time.thread_time()
            try:
                return function(*args, **kwargs)
            except Exception as error:
                self._fail(error)
                return None
            finally:
                self.spent += time.thread_time() - start

        return call  # type: ignore[return-value]  # functools.wraps keeps the signature, which mypy cannot follow.

    def go_live(self) -> None:
        """Write the events that were held back, and from now on each as it comes."""
        import json  # Not before: a helper process that never goes live is spared it.

        self._encode = json.dumps
        self._live = True
        self._append_held()

    def write(self, event: dict[str, Any]) -> None:
        """Append one event as one line; hold it back while the process is not live."""
        self._lines += 1
        if self._lines > MOST_LINES:
            return
        self._held.append(event)
        if self._live:
            self._append_held()

    def _append_held(self) -> None:
        held, self._held = self._held, []
        for one in held:
            self._append(one)

    def _append(self, event: dict[str, Any]) -> None:
        if self._file < 0:
            path = os.path.join(self.folder, f"{os.getpid()}.jsonl")
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        event["spent"] = round(self.spent, 6)
        os.write(self._file, self._encode(event, default=str).encode() + b"\n")

    def begin(self, name: str, where: str) -> int:
        """Record that something begins; return what `end` wants."""
        self._open += 1
        key = next(self._keys)
        self.write(
            {"event": "begin", "key": key, "name": name, "where": where, "main": on_main_thread(), "at": clock()}
        )
        return key

    def end(self, key: int, name: str, note: dict[str, Any], error: BaseException | None) -> None:
        """Record that it ends, with what was learned from its result or with its error."""
        self._open -= 1
        event: dict[str, Any] = {"event": "end", "key": key, "at": clock()}
        if note:
            event["note"] = note
        if error is not None:
            event["error"] = f"{type(error).__name__}: {str(error)[:2000]}"
        self.write(event)
        self._has_started = self._has_started or (name in LAST_EVENTS and error is None)
        if self._has_started and self._open <= 0:
            self.retire()

    def retire(self) -> None:
        """Leave this process as if the hook had never been there, but for the thin wrappers."""
        if self.active:
            self.write({"event": "retired", "at": clock()})
        self._quit()

    def on_retire(self, action: Callable[[], None]) -> None:
        """Call ``action`` when the hook leaves."""
        self._on_retire.append(action)

    def after_fork(self) -> None:
        """Start afresh in a forked child, which inherits the wrappers; its file begins with its first own event."""
        self._lines, self._open, self.spent = 0, 0, 0.0
        self._has_started = False
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._held = [coldcast_facts.process_event(clock(), forked=True)]

    def _fail(self, error: Exception) -> None:
        try:
            self.write({"event": "hook_failed", "at": clock(), "error": f"{type(error).__name__}: {error}"})
        except OSError:
            self._live = False
        self._quit()

    def _quit(self) -> None:
        self.active = False
        for action in self._on_retire:
            action()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
