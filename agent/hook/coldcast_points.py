"""What the hook wraps: the functions that bound the parts of a startup, by module, as data.

The names hold from vLLM 0.10 to 0.33; where one moved, both homes are listed, and the one that a version lacks is
never imported there. None of them is ever traced by Dynamo, whose list of traced files is part of the compile key.
"""

from __future__ import annotations

_RUNNER = [
    ("load_model", "runner_load"),
    ("profile_run", "profile_run"),
    ("profile_cudagraph_memory", "graph_estimate"),
    ("capture_model", "graph_capture"),
]
_WORKER = [
    ("init_device", "device_init"),
    ("load_model", "model_loading"),
    ("determine_available_memory", "kv_profiling"),
    ("initialize_from_config", "kv_allocation"),
    ("compile_or_warm_up_model", "warm_up"),
]


def _methods(owner: str, methods: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(owner + "." + method, event) for method, event in methods]


POINTS: dict[str, list[tuple[str, str]]] = {
    "vllm.platforms": [("resolve_current_platform_cls_qualname", "platform_detection")],
    "vllm.entrypoints.openai.cli_args": [("make_arg_parser", "arguments")],
    "vllm.entrypoints.common.cli_args": [("make_arg_parser", "arguments")],
    "vllm.utils.argparse_utils": [("FlexibleArgumentParser.parse_args", "arguments")],
    "vllm.engine.arg_utils": [("EngineArgs.create_engine_config", "engine_config")],
    "vllm.model_executor.models.registry": [
        ("_LazyRegisteredModel.inspect_model_cls", "model_inspection"),
        ("_run_in_subprocess", "inspection_subprocess"),
    ],
    "vllm.transformers_utils.tokenizer_group": [("init_tokenizer_from_configs", "tokenizer")],
    "vllm.transformers_utils.tokenizer": [
        ("init_tokenizer_from_configs", "tokenizer"),
        ("get_tokenizer", "tokenizer"),
        ("cached_get_tokenizer", "tokenizer"),
    ],
    "vllm.tokenizers.registry": [("get_tokenizer", "tokenizer"), ("cached_get_tokenizer", "tokenizer")],
    "vllm.renderers.registry": [("renderer_from_config", "tokenizer")],
    "vllm.v1.structured_output": [("StructuredOutputManager.__init__", "engine_tokenizer")],
    "vllm.v1.engine.async_llm": [("AsyncLLM.__init__", "front_end")],
    "vllm.v1.engine.core": [
        ("EngineCoreProc.__init__", "engine_process"),
        ("EngineCore.__init__", "engine_init"),
        ("EngineCore._initialize_kv_caches", "kv_caches"),
    ],
    "vllm.v1.executor.multiproc_executor": [("MultiprocExecutor._init_executor", "executor_init")],
    "vllm.v1.executor.ray_distributed_executor": [("RayDistributedExecutor._init_executor", "executor_init")],
    "vllm.v1.executor.ray_executor": [("RayDistributedExecutor._init_executor", "executor_init")],
    "vllm.v1.executor.ray_executor_v2": [("RayExecutorV2._init_executor", "executor_init")],
    "vllm.worker.worker_base": [("WorkerWrapperBase.init_worker", "worker_init")],
    "vllm.v1.worker.worker_base": [("WorkerWrapperBase.init_worker", "worker_init")],
    "vllm.v1.worker.gpu_worker": _methods("Worker", _WORKER),
    "vllm.v1.worker.cpu_worker": _methods("CPUWorker", _WORKER),
    "vllm.v1.worker.xpu_worker": _methods("XPUWorker", _WORKER),
    "vllm.v1.worker.gpu_model_runner": _methods("GPUModelRunner", _RUNNER),
    "vllm.v1.worker.cpu_model_runner": _methods("CPUModelRunner", _RUNNER),
    "vllm.v1.worker.gpu.model_runner": _methods("GPUModelRunner", _RUNNER),
    "vllm.v1.worker.cpu.model_runner": _methods("CPUModelRunner", _RUNNER),
    "vllm.model_executor.model_loader.utils": [
        ("initialize_model", "model_init"),
        ("process_weights_after_loading", "weight_postprocess"),
    ],
    "vllm.model_executor.model_loader.default_loader": [("DefaultModelLoader.load_weights", "weight_loading")],
    "vllm.model_executor.model_loader.dummy_loader": [("DummyModelLoader.load_weights", "weight_loading")],
    "vllm.model_executor.model_loader.runai_streamer_loader": [
        ("RunaiModelStreamerLoader.load_weights", "weight_loading")
    ],
    "vllm.model_executor.model_loader.tensorizer_loader": [("TensorizerLoader.load_weights", "weight_loading")],
    "vllm.model_executor.model_loader.sharded_state_loader": [("ShardedStateLoader.load_weights", "weight_loading")],
    "vllm.model_executor.model_loader.bitsandbytes_loader": [
        ("BitsAndBytesModelLoader.load_weights", "weight_loading")
    ],
    "vllm.model_executor.model_loader.gguf_loader": [("GGUFModelLoader.load_weights", "weight_loading")],
    "vllm.compilation.monitor": [
        ("start_monitoring_torch_compile", "compile_start"),
        ("monitor_torch_compile", "compile"),
    ],
    "vllm.compilation.backends": [
        ("VllmBackend.__call__", "backend"),
        ("CompilerManager.compile", "graph"),
        ("CompilerManager.load", "graph_lookup"),
    ],
    "vllm.compilation.decorators": [("_try_load_aot_compiled_fn", "aot_load")],
    "torch._inductor.compile_fx": [("compile_fx", "inductor")],
    "torch._dynamo.aot_compile": [("AOTCompiledFunction.save_compiled_function", "aot_save")],
    "vllm.model_executor.warmup.kernel_warmup": [("kernel_warmup", "kernel_warmup")],
    "vllm.tracing.otel": [("instrument_otel", "upstream")],
    "ray._private.worker": [("init", "ray_init")],
    "vllm.logger": [],  # Nothing to wrap: log records are watched from here on.
}

CONTEXT_MANAGERS = frozenset(["monitor_torch_compile"])
"""Functions that return a context manager: what is timed is its block."""

OPTIONAL = frozenset(
    [
        "profile_cudagraph_memory",
        "monitor_torch_compile",
        "start_monitoring_torch_compile",
        "_try_load_aot_compiled_fn",
        "AOTCompiledFunction.save_compiled_function",
    ]
)
"""Points, or their last names, that only some versions have in a module that all have."""

DETAILED_IMPORTS = frozenset(["torch", "transformers", "vllm"])
"""Imports that are recorded even inside another import."""

LAST_EVENTS = frozenset(["engine_init", "warm_up"])
"""Once one of these has ended and nothing is open any more, the process has started and the hook retires from it."""

LOG_LINES = (
    r"(\[[\w ]+\] )?("
    r"Loading weights took|Initializing model took|Model loading took|Dynamo bytecode transform time"
    r"|Compiling a graph for|Directly load the compiled graph|Directly load AOT compilation|saved AOT compiled function"
    r"|torch\.compile (took|takes)|torch\.compile and initial|Initial profiling|Graph capturing finished"
    r"|init engine \(|Compiling model again|Cannot load aot)"
)
"""The stock log lines that carry durations or cache hits, matched at the start of the format string."""
READY_LINE = "Application startup complete."
