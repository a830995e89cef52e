"""A startup's log in vLLM's format, with values of our own, and the wrappers that logs come in."""

import json
from collections.abc import Callable, Iterator

CONFIG = (
    "model='acme/Owl-3B', speculative_config=None, tokenizer='acme/Owl-3B', revision=None, dtype=torch.bfloat16, "
    "max_seq_len=4096, load_format=auto, tensor_parallel_size=1, pipeline_parallel_size=1, quantization=None, "
    "enforce_eager=False, compilation_config={'mode': 3, 'cudagraph_capture_sizes': [1, 2, 4, 8]}"
)
API, ENGINE = "(APIServer pid=11)", "(EngineCore pid=22)"


def record(second: int, text: str, *, process: str = ENGINE, level: str = "INFO", file: str = "core.py") -> str:
    """One record of vLLM's logger, ``second`` seconds after 10:00 on 1 March."""
    minutes, seconds = divmod(second, 60)
    stamp = f"03-01 10:{minutes:02}:{seconds:02}"
    return f"{process} {level} {stamp} [{file}:7] {text}".lstrip()


def banner() -> list[str]:
    return [record(0, "  █▄█▀ █     █  version 0.24.0", process=API)]


def loading(process: str = ENGINE, *, weights: str = "3.25", model: str = "5.500000") -> list[str]:
    return [
        record(10, "Starting to load model acme/Owl-3B...", process=process, file="gpu_model_runner.py"),
        record(14, f"Loading weights took {weights} seconds", process=process),
        record(16, f"Model loading took 6.10 GiB memory and {model} seconds", process=process),
    ]


def compiling() -> list[str]:
    return [
        record(20, "Dynamo bytecode transform time: 4.00 s"),
        record(27, "Cache the graph of compile range (1, 8192) for later use"),
        record(31, "Compiling a graph for compile range (1, 8192) takes 9.50 s"),
        record(34, "torch.compile took 15.25 s in total"),
        record(35, "Initial profiling/warmup run took 0.50 s"),
    ]


def finishing() -> list[str]:
    return [
        record(36, "Available KV cache memory: 60.50 GiB"),
        record(36, "GPU KV cache size: 100,000 tokens"),
        f"{ENGINE} Capturing CUDA graphs (PIECEWISE): 100%|███| 4/4 [00:01<00:00,  3.00it/s]",
        f"{ENGINE} Capturing CUDA graphs (FULL): 100%|███| 3/3 [00:01<00:00,  3.00it/s]",
        record(40, "Graph capturing finished in 3 secs, took 0.75 GiB"),
        record(41, "init engine (profile, create kv cache, warmup model) took 24.75 s (compilation: 15.25 s)"),
    ]


def serving() -> list[str]:
    return [
        record(43, "Starting vLLM server on http://0.0.0.0:8000", process=API),
        f"{API} INFO:     Application startup complete.",
    ]


def startup() -> list[str]:
    """A whole healthy startup of vLLM 0.24 with a cold compile cache."""
    engine = [record(8, f"Initializing a V1 LLM engine (v0.24.0) with config: {CONFIG}")]
    return [*banner(), *engine, *loading(), *compiling(), *finishing(), *serving()]


def _cri(lines: list[str]) -> Iterator[str]:
    """A container runtime's prefix; long lines come in pieces."""
    for number, line in enumerate(lines):
        head = f"2026-03-01T12:00:{number:02}.123456789Z stdout"
        pieces = [line[at : at + 90] for at in range(0, len(line), 90)] or [""]
        yield from (f"{head} P {piece}" for piece in pieces[:-1])
        yield f"{head} F {pieces[-1]}"


def _docker_json(lines: list[str]) -> Iterator[str]:
    for line in lines:
        pieces = [line[at : at + 90] for at in range(0, len(line), 90)] or [""]
        for piece in [*pieces[:-1], pieces[-1] + "\n"]:
            yield json.dumps({"log": piece, "stream": "stderr", "time": "2026-03-01T09:00:00.5Z"})


def _logger_json(lines: list[str]) -> Iterator[str]:
    """A JSON formatter in the engine itself; progress bars and uvicorn's lines stay plain."""
    for line in lines:
        tag, _, rest = line.partition(") ")
        level, _, rest = rest.partition(" ")
        if ".py:" not in line:
            yield line
            continue
        name, pid = tag.strip("(").split(" pid=")
        yield json.dumps(
            {
                "asctime": rest[:14],
                "levelname": level,
                "vllm_process_name": name,
                "process": int(pid),
                "message": rest.partition("] ")[2],
            }
        )


def _prefixed(prefix: str) -> Callable[[list[str]], Iterator[str]]:
    return lambda lines: (prefix + line for line in lines)


WRAPPERS: dict[str, Callable[[list[str]], Iterator[str]]] = {
    "none": iter,
    "docker logs -t": _prefixed("2026-03-01T09:00:00.000000001Z "),
    "docker compose": _prefixed("owl-1  | "),
    "bracketed name": _prefixed("[owl]   | "),
    "kubectl --prefix": _prefixed("[pod/owl-0/owl] "),
    "kubernetes CRI": _cri,
    "docker json-file": _docker_json,
    "JSON formatter": _logger_json,
    "JSON in CRI": lambda lines: _cri(list(_logger_json(lines))),
    "journald": _prefixed("Mar  1 11:00:00 node7 owl.sh[911]: "),
    "grep -n over journald": lambda lines: (
        f"{number}:Mar  1 11:00:00 node7 owl.sh[911]: {line}" for number, line in enumerate(lines, 1)
    ),
    "another time zone": _prefixed("2026-03-01 12:00:00.250 | "),
    "TorchServe": _prefixed("2026-03-01T10:00:00,102 [INFO ] W-1-owl_1.0-stdout MODEL_LOG - "),
    "boxes": lambda lines: (f"│ {line:<160} │" for line in lines),
    "ANSI colours": lambda lines: (
        f"\x1b[1;36m{line.replace(') ', f'){chr(27)}[0;0m ', 1).replace('INFO', f'{chr(27)}[32mINFO{chr(27)}[0m', 1)}"
        for line in lines
    ),
    "colours without the escape": lambda lines: (f"[1;36m{line.replace(') ', ')[0;0m ', 1)}" for line in lines),
    "quoted": _prefixed("> "),
    "tabs and carriage returns": lambda lines: (f"{line}\t\r" for line in lines),
}
