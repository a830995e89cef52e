"""What one process of the engine told of its startup, and its stages from that. Pure."""

import re
from collections.abc import Iterator

from agent.stage_log.clock import Moment, elapsed
from agent.stage_log.events import Event, Keep
from agent.stage_log.wrappers import Process
from app.stages import PARTS_OF, Part, Stage

__all__ = ["ESTIMATE_ENDS", "Rank"]

_COMPILE_PARTS = PARTS_OF[Stage.TORCH_COMPILE]
_CAPTURED = frozenset((Part.CUDA_GRAPH_CAPTURE.value, "graph_capture_gib"))
ESTIMATE_ENDS = frozenset(("kv_available", "kv_skipped"))
_WHOLE_SECOND = 1.0  # Stock stamps are whole seconds, so a difference of two is off by up to this.


class Rank:
    """One process: the quantities that it printed, and when it passed which point."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.said: dict[str, float] = {}
        self.at: dict[str, Moment] = {}

    def take(self, event: Event, match: re.Match[str], at: Moment) -> None:
        """Take in one line of this process."""
        self.at[event.name] = at
        if event.name in ESTIMATE_ENDS:
            # 0.33 captures graphs for its memory estimate and prints the same line; that was profiling.
            self.said = {quantity: value for quantity, value in self.said.items() if quantity not in _CAPTURED}
        for quantity, value in match.groupdict().items():
            if value is None or (event.name == "weights" and "drafter" in self.at):
                continue
            if event.keep is Keep.SUM:
                self.said[quantity] = self.said.get(quantity, 0.0) + float(value)
            elif event.keep is Keep.LAST or quantity not in self.said:
                self.said[quantity] = float(value)

    def between(self, start: str, *ends: str) -> float | None:
        """Seconds by stamps from one point to the first of ``ends`` that was passed; None where a stamp lacks."""
        end = next((name for name in ends if name in self.at), None)
        if end is None or start not in self.at:
            return None
        seconds = elapsed(self.at[start], self.at[end])
        return None if seconds is None or seconds < 0 else seconds

    def parts(self) -> dict[Part, float]:
        """Seconds of the parts: printed ones, else by stamps where both ends of a part have one."""
        parts = {part: self.said[part.value] for part in Part if part.value in self.said}
        if Part.GRAPH_LOAD not in parts and (seconds := self._untimed_load(parts)) is not None:
            parts[Part.GRAPH_LOAD] = seconds
        if (seconds := self._profiling(self._compile(parts) or 0.0)) is not None:
            parts[Part.KV_CACHE_PROFILING] = seconds
        if (seconds := self.between("autotune_start", "autotune_end")) is not None:
            parts[Part.KERNEL_WARMUP] = seconds
        return parts

    def stages(self) -> dict[Stage, float]:
        """Seconds of the stages."""
        parts = self.parts()
        stages = {
            Stage.TOKENIZER_INIT: parts.get(Part.TOKENIZER_INIT),
            Stage.MODEL_LOADING: self.said.get("model_loading_s", self.between("load_start", "loaded")),
            Stage.TORCH_COMPILE: self._compile(parts),
            Stage.KV_CACHE_PROFILING: parts.get(Part.KV_CACHE_PROFILING),
            Stage.CUDA_GRAPH_CAPTURE: parts.get(Part.CUDA_GRAPH_CAPTURE),
        }
        return {stage: seconds for stage, seconds in stages.items() if seconds is not None}

    def notes(self) -> Iterator[str]:
        """What a reader of this rank's seconds must know."""
        if "memory_profiling_s" not in self.said and Part.KV_CACHE_PROFILING in self.parts():
            yield "kv_cache_profiling is by stamps, from the loaded model to the free memory, without torch_compile"
        if "model_loading_s" not in self.said and Stage.MODEL_LOADING in self.stages():
            yield "model_loading is by stamps"
        if "graph_load" not in self.said and Part.GRAPH_LOAD in self.parts():
            yield "graph_load is the whole of torch.compile without Dynamo: the log prints no seconds of its own for it"
        if "compile_and_warmup_run_s" in self.said:
            yield "torch.compile and the run after it were timed together: torch_compile is the sum of its parts"
        if "kv_skipped" in self.at:
            yield "memory profiling was skipped: the size of the KV cache was given or planned"
        if "drafter" in self.at:
            yield "a drafter was loaded: its weights are not in weight_loading, its compilation is in torch_compile"

    def _compile(self, parts: dict[Part, float]) -> float | None:
        """Seconds of torch.compile: the printed total lacks the cached load before 0.13, and the parts the saving."""
        known = [seconds for part in _COMPILE_PARTS if (seconds := parts.get(part)) is not None]
        total = self.said.get("torch_compile_total_s")
        if total is None:
            return sum(known) if known else None
        return max(total, sum(known))

    def _untimed_load(self, parts: dict[Part, float]) -> float | None:
        """Seconds of a cached load that prints none: all of an AOT load, or by stamps (0.8)."""
        if Part.GRAPH_COMPILE in parts:
            return None
        if "aot_loaded" in self.at and Part.DYNAMO_TRANSFORM not in parts:
            return self.said.get("torch_compile_total_s")
        return self.between("dynamo", "compile_end") if "graph_loaded" in self.at else None

    def _profiling(self, compile_seconds: float) -> float | None:
        """Seconds of the profiling run; torch.compile happens inside it and is taken out."""
        whole = self.said.get("memory_profiling_s")
        if whole is None:
            whole = self.between("loaded", "kv_available", "kv_skipped")
        if whole is None or whole < compile_seconds - _WHOLE_SECOND:
            return None
        return max(0.0, whole - compile_seconds)
