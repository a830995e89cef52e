"""The rows of the published tables as lines of the reference file; see build_reference.py.

A row that stands in several tables is taken from the first of ``TABLES``. Nothing is invented: an empty cell stays
absent, and so does a value that the source does not bound by events of its own (see ``stages_of`` and ``excluded``).
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.stages import PARTS_OF, Part, Stage

Row = dict[str, str]

__all__ = ["TABLES", "measurement", "rows_of"]

TABLES = (
    "n1_startups",
    "n1_cudagraph_sizes",
    "other_nodes_iterations",
    "load_formats",
    "compile_cache",
    "other_nodes_avg",
    "n1_startups_avg",
    "cpu_and_load",
    "n1_v011_startups",
    "vllm_versions",
)
PART_COLUMNS = {
    Part.IMPORTS: "llm_imports",
    Part.PLATFORM_DETECTION: "detect_platform",
    Part.MODEL_INSPECTION: "get_model_info",
    Part.WORKER_INIT: "worker_init",
    Part.TOKENIZER_INIT: "tokenizer_init",
    Part.MODEL_INIT: "model_init",
    Part.WEIGHT_LOADING: "load_weights",
    Part.DYNAMO_TRANSFORM: "dynamo_transform_time",
    Part.GRAPH_COMPILE: "graph_compile_general_shape",
    Part.GRAPH_LOAD: "graph_compile_cached",
    Part.KV_CACHE_PROFILING: "kv_cache_profiling",
    Part.CUDA_GRAPH_CAPTURE: "graph_capturing",
}
BOOTSTRAP = PARTS_OF[Stage.FRAMEWORK_BOOTSTRAP]
VERSION = "0.10.1.1"
DEFAULT_CUDAGRAPH_SIZES = 67  # 1, 2, 4 and every multiple of 8 up to 512, on all three machines with VERSION.

# Campaigns on one machine that do not predict each other have a node label each. Against the rest of the same machine,
# same models, warm, the median over models: figures 9 to 15 spend 10 % more on bootstrap and 9 to 13 % more on KV
# profiling (n3 also 19 % more on graph load); figure-rest 0 to 17 % more on Dynamo and 10 % less to 24 % more on KV
# profiling, by model; the early ones 8 % less on Dynamo and 18 % less on graph load; a container 12 % less on Dynamo.
# What shares a label agrees within 5 % in the median on Dynamo, graph load, KV profiling and capture.
FIGURE_REST = "figures/figure-rest"
FIGURES = re.compile(r"^(figures/)?figure-(9|1[0-5])\b")
EARLY = re.compile(r"node[57]/(examples/)?(model_size|batch_size)$")
WHOLE_SECONDS = re.compile(
    r"figure-11/cpu1|node[57]/(examples/)?(model_size|batch_size|versions)$|t1/(model_size2|ssd2)$"
    r"|node7/(docker_container|tmpfs|pytorch_versions|quantization)$"
)
PER_RUN = "its five runs (figure-11: three of them) stand in the tables one by one"
EXCLUDED_SOURCES = {
    "figures/figure-rest/avg_comparison_results.json": PER_RUN,
    "experiments/node7/examples/model_size2/avg_comparison_results.json": PER_RUN,
    "figures/figure-10/gpu1/avg_comparison_results.json": PER_RUN,
    "figures/figure-11/cpu1/avg_comparison_results.json": PER_RUN,
}


def excluded(row: Row) -> str | None:
    """Return why ``row`` is left out, or None where it is taken."""
    if row.get("schema") == "older":
        return "no bootstrap, compilation inside KV profiling, and nothing confirms that it ran on two GPUs"
    if row["experiment"].endswith("/versions") and row["graph_compile_general_shape"]:
        return "a mean over compiling and cached runs whose rebuilt total counts both"
    if (row["experiment"], row["model"]) == ("t1/ssd2", "qwen-1.8b"):
        return "the stages of the mean sum to 0.2 s more than its rebuilt total"
    return EXCLUDED_SOURCES.get(row["source"])


def rows_of(tables: Path) -> Iterator[Row]:
    """Yield every row that is taken, once."""
    seen = set()
    for table in TABLES:
        with (tables / f"{table}.csv").open(newline="") as file:
            for cells in csv.DictReader(file):
                row = normalised(cells, table)
                key = row["source"], row["label"]
                if key not in seen and excluded(row) is None:
                    yield row
                seen.add(key)


def normalised(row: Row, table: str) -> Row:
    """Give the rows of all tables the same columns."""
    row["table"] = table
    if table == "vllm_versions":
        label = row["source"].rpartition("/")[2]
        row |= {"node": "n1", "experiment": "figure-1", "label": label, "actual_total_time": row["total_startup"]}
    if "source" not in row:
        run = row["iteration"]
        folder = {"avg": "avg_", "uncached": "uncached/"}.get(run, f"iterations/{run}/")
        row["source"] = f"{row['experiment']}/{folder}comparison_results.json"
    found = re.search(r"iterations/(\d)/|/(uncached)/|/(avg)_", row["source"])
    row["iteration"] = next(filter(None, found.groups())) if found else "1"
    return row


def measurement(row: Row, weight_bytes: dict[str, int]) -> dict[str, Any]:
    """Return one line of the file."""
    parts = parts_of(row)
    return {
        "model": model_key(row),
        "node": node_of(row),
        "total_seconds": seconds(row, "actual_total_time"),
        "stages": stages_of(row, parts),
        "parts": parts,
        "hardware": hardware_of(row),
        "engine": engine_of(row),
        "cache": cache_of(row, parts, weight_bytes.get(row["model"])),
        "facts": facts_of(row),
    }


def seconds(row: Row, column: str) -> float | None:
    """Return a cell, without the tail of its floating-point sum; None where it is empty or not in this table."""
    return round(float(text), 6) if (text := row.get(column)) else None


def parts_of(row: Row) -> dict[Part, float]:
    """Return the observed parts; those of the bootstrap only where all four are known (see stages_of)."""
    parts = {part: value for part, column in PART_COLUMNS.items() if (value := seconds(row, column)) is not None}
    if not parts.keys() >= set(BOOTSTRAP) or EARLY.search(row["experiment"]):
        parts = {part: value for part, value in parts.items() if part not in BOOTSTRAP}
    return parts


def stages_of(row: Row, parts: dict[Part, float]) -> dict[Stage, float]:
    """Return the observed stages.

    A zero stands in the stage columns where nothing was logged, so a column counts only with its parts. In the early
    campaigns 0.4 to 6.3 s, from model to model, lie outside a bootstrap in whole seconds: its bounds are not those of
    the other campaigns, so it is not taken. Without Inductor's time, Dynamo's alone is not the stage torch_compile.
    """
    compiled = [parts[part] for part in PARTS_OF[Stage.TORCH_COMPILE] if part in parts]
    known = {
        Stage.FRAMEWORK_BOOTSTRAP: seconds(row, "framework_bootstrap") if Part.IMPORTS in parts else None,
        Stage.TOKENIZER_INIT: parts.get(Part.TOKENIZER_INIT),
        Stage.MODEL_LOADING: seconds(row, "model_loading") if Part.WEIGHT_LOADING in parts else None,
        Stage.TORCH_COMPILE: 0.0 if compile_is_off(row) else round(sum(compiled), 6) if len(compiled) > 1 else None,
        Stage.KV_CACHE_PROFILING: parts.get(Part.KV_CACHE_PROFILING),
        Stage.CUDA_GRAPH_CAPTURE: parts.get(Part.CUDA_GRAPH_CAPTURE),
    }
    return {stage: value for stage, value in known.items() if value is not None}


def compile_is_off(row: Row) -> bool:
    """Tell whether TORCH_COMPILE_DISABLE=1 was set."""
    return row.get("run") == "compile_disabled"


def model_key(row: Row) -> str:
    """Return the key of the model; a quantised variant has its own."""
    variant = row["value"] if row.get("factor") == "quantization" and row["value"] != "none" else None
    return f"{row['model']}-{variant}" if variant else row["model"]


def node_of(row: Row) -> str:
    """Return the node label."""
    if row["experiment"] == FIGURE_REST:
        return f"{row['node']}/figure-rest"
    if FIGURES.search(row["experiment"]):
        return f"{row['node']}/figures"
    if EARLY.search(row["experiment"]):
        return f"{row['node']}/early"
    return f"{row['node']}/container" if row.get("value") == "container" else row["node"]


def hardware_of(row: Row) -> dict[str, Any]:
    """Return what one startup changes of its node."""
    if row.get("factor") == "cpu_workload":
        return {"cpu_busy_fraction": float(row["value"]) / 100}
    return {"storage": "tmpfs"} if row.get("value") == "tmpfs" else {}


def engine_of(row: Row) -> dict[str, Any]:
    """Return the engine and its arguments.

    With TORCH_COMPILE_DISABLE=1 the graphs are captured all the same, hence a level 0 with capture sizes.
    """
    engine: dict[str, Any] = {"version": row.get("vllm_version") or VERSION, "tensor_parallel_size": 1}
    engine |= {"enforce_eager": False, "load_format": row.get("load_format") or "auto"}
    if engine["version"] == VERSION:
        engine["num_cudagraph_sizes"] = cudagraph_sizes(row)
    if compile_is_off(row):
        engine["optimization_level"] = 0
    if found := re.search(r"max_model_len_(\d+)", row["label"]):
        engine["max_model_len"] = int(found[1])
    return {field: value for field, value in engine.items() if value is not None}


def cudagraph_sizes(row: Row) -> int | None:
    """Return how many batch sizes were captured; None where neither table nor label tell what the engine chose."""
    if count := row.get("n_captured_batch_sizes"):
        return int(count)
    if found := re.search(r"cuda-graph-sizes((?:_\d+)+)", row["label"]):
        return found[1].count("_")
    return None if row["model"] == "gpt-oss-20b" else DEFAULT_CUDAGRAPH_SIZES  # The engine raises it for gpt-oss.


def cache_of(row: Row, parts: dict[Part, float], weight_bytes: int | None) -> dict[str, str]:
    """Return the caches as the startup found them.

    VERSION keeps no cache of model inspections, so each of its startups pays the process; so did any other version
    whose inspection was timed.
    """
    cache: dict[str, str | None] = {"weights": weights_of(row, parts, weight_bytes)}
    if (row.get("run") or "").startswith("cache_disabled"):
        cache["compile"] = "disabled"
    elif Part.GRAPH_COMPILE in parts or Part.GRAPH_LOAD in parts:
        cache["compile"] = "cold" if Part.GRAPH_COMPILE in parts else "warm"
    if Part.MODEL_INSPECTION in parts or not row.get("vllm_version"):
        cache["model_inspection"] = "cold"
    elif "served from a cache" in row.get("note", ""):
        cache["model_inspection"] = "warm"
    return {field: state for field, state in cache.items() if state is not None}


def weights_of(row: Row, parts: dict[Part, float], weight_bytes: int | None) -> str | None:
    """Return where the weights lay: the tables' own inference, or its rule (under 1 and from 5 GB/s) applied here."""
    if "weights_state" in row:
        return None if row["weights_state"] == "mixed" else row["weights_state"]
    if not (loading := parts.get(Part.WEIGHT_LOADING)) or not weight_bytes:
        return None
    return "page_cache" if weight_bytes / loading >= 5e9 else "disk" if weight_bytes / loading < 1e9 else None


def facts_of(row: Row) -> dict[str, Any]:
    """Return where the row comes from, and what a fit must know of it."""
    facts = {field: row[field] for field in ("experiment", "iteration", "table", "label", "source")}
    facts |= {"machine": row["node"]}
    facts |= {field: row[field] for field in ("run", "factor", "value", "release") if row.get(field)}
    if row["iteration"] == "avg":
        facts["aggregate"] = "mean of five runs"
    if WHOLE_SECONDS.search(row["experiment"]):
        facts["stamps"] = "whole seconds"
    if compile_is_off(row):
        facts["environment"] = "TORCH_COMPILE_DISABLE=1"
    return facts
