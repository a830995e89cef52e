"""Puts timing around the functions that bound the parts of a startup."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import coldcast_facts
from coldcast_facts import clock
from coldcast_points import CONTEXT_MANAGERS, OPTIONAL, POINTS
from coldcast_ray import carrying
from coldcast_recorder import Recorder


class Wrapping:
    """Puts timing around functions of modules that have just been executed."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._begin = recorder.guarded(recorder.begin)
        self._end = recorder.guarded(self._note_and_end)

    def module(self, module: Any, late: bool = False) -> None:
        """Wrap the points of ``module``, and record which it has and which it lacks."""
        name = module.__name__
        wrapped, missing = [], []
        for path, event in POINTS[name]:
            if self._point(module, path, event):
                wrapped.append(event)
            elif path not in OPTIONAL and path.rpartition(".")[2] not in OPTIONAL:
                missing.append(event)
        if not wrapped and not missing:
            return
        self.recorder.write(
            {"event": "module", "name": name, "wrapped": wrapped, "missing": missing, "late": late, "at": clock()}
        )

    def _point(self, module: Any, path: str, event: str) -> bool:
        owner_name, _, attribute = path.rpartition(".")
        owner = getattr(module, owner_name, None) if owner_name else module
        if owner is None or not hasattr(owner, attribute):
            return False
        function = vars(owner).get(attribute)
        if function is None:
            return True  # Inherited: the class that defines it has the wrapper.
        where = module.__name__ + "." + path
        if isinstance(function, (staticmethod, classmethod)):
            return False
        if event == "upstream":
            wrapper = self._span_factory(function)
        elif event == "ray_init":
            wrapper = carrying(function, self.recorder)
        elif attribute in CONTEXT_MANAGERS:
            wrapper = self._context(event, where, function)
        elif hasattr(function, "cache_parameters"):
            parameters = function.cache_parameters()
            timed = self._timed(event, where, function.__wrapped__)
            wrapper = functools.lru_cache(maxsize=parameters["maxsize"], typed=parameters["typed"])(timed)
        else:
            wrapper = self._timed(event, where, function)
        setattr(owner, attribute, wrapper)
        return True

    def _note_and_end(
        self, key: int, name: str, args: Any = (), result: Any = None, error: BaseException | None = None
    ) -> None:
        note = coldcast_facts.note(name, args, result) if error is None else {}
        self.recorder.end(key, name, note, error)

    def _timed(self, event: str, where: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            key = self._begin(event, where)
            try:
                result = function(*args, **kwargs)
            except BaseException as error:
                self._end(key, event, error=error)
                if error.__traceback__ is not None:  # The engine's own frames alone, as it would print them.
                    error.__traceback__ = error.__traceback__.tb_next
                raise
            self._end(key, event, args, result)
            return result

        return timed

    def _context(self, event: str, where: str, function: Callable[..., Any]) -> Callable[..., Any]:
        wrapping = self

        class Timed:
            def __init__(self, manager: Any, args: Any) -> None:
                self.manager, self.args = manager, args

            def __enter__(self) -> Any:
                self.key = wrapping._begin(event, where)
                return self.manager.__enter__()

            def __exit__(self, *failure: Any) -> Any:
                handled = self.manager.__exit__(*failure)
                wrapping._end(self.key, event, self.args, error=failure[1])
                return handled

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Timed:
            return Timed(function(*args, **kwargs), args)

        return timed

    def _span_factory(self, instrument: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap upstream's own decorator, so that whatever spans a version has are received for nothing."""

        @functools.wraps(instrument)
        def instrumented(func: Any, span_name: str, *args: Any, **kwargs: Any) -> Any:
            inner = instrument(func, span_name, *args, **kwargs)
            return self._timed("upstream", span_name or func.__qualname__, inner)

        return instrumented
