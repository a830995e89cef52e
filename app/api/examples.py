"""The worked examples of the OpenAPI pages; each runs as it stands on a fresh install."""

from fastapi.openapi.models import Example

__all__ = ["BATCH_MEASUREMENTS", "BATCH_SPECS", "MEASUREMENT", "SPEC"]

_LLAMA = {
    "name": "meta-llama/Llama-3.1-8B",
    "weight_bytes": 16060522496,
    "num_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "architecture": "LlamaForCausalLM",
    "dtype": "bfloat16",
    "tokenizer_bytes": 9085657,
}
_NODE = {"gpu": "NVIDIA H100 NVL", "gpu_count": 1, "cpu": "AMD EPYC 9354", "cpu_cores": 32}
_ENGINE = {"version": "0.10.1.1", "max_num_seqs": 256, "max_model_len": 4096}
_CACHE = {"weights": "page_cache", "compile": "warm"}
_SHORT = {"model": "meta-llama/Llama-3.1-8B", "hardware": "NVIDIA H100 NVL"}
_FULL = {"model": _LLAMA, "hardware": _NODE, "engine": _ENGINE, "cache": _CACHE}
_MEASUREMENT = {
    "id": "0192f0c1-7d3c-7c5e-9a54-3d1b7c2a9f10",
    "started_at": "2026-11-30T12:00:00Z",
    "outcome": "ready",
    "total_seconds": 29.4,
    "stages": {
        "framework_bootstrap": 8.0,
        "tokenizer_init": 0.4,
        "model_loading": 6.1,
        "torch_compile": 10.5,
        "kv_cache_profiling": 1.6,
        "cuda_graph_capture": 1.2,
    },
    "parts": {"weight_loading": 5.9},
    "spec": {**_FULL, "hardware": {**_NODE, "node": "example-node"}},
    "source": "example",
    "agent_version": "0.1.0",
    "facts": {},
}
_FAILED = {
    "id": "0192f0c1-7d3c-7c5e-9a54-3d1b7c2a9f11",
    "started_at": "2026-11-30T12:05:00Z",
    "outcome": "failed",
    "total_seconds": 14.2,
    "spec": _SHORT,
    "source": "example",
    "facts": {"stage": "model_loading", "last_error": "CUDA out of memory"},
}

SPEC: dict[str, Example] = {
    "short": {"summary": "A name and a GPU", "value": _SHORT},
    "full": {"summary": "Everything that is known", "value": _FULL},
    "config": {
        "summary": "A model that nobody has measured, by its Hugging Face config",
        "value": {
            "model": {
                "name": "my-org/my-model",
                "config": {
                    "architectures": ["LlamaForCausalLM"],
                    "hidden_size": 2048,
                    "intermediate_size": 8192,
                    "num_hidden_layers": 16,
                    "num_attention_heads": 32,
                    "num_key_value_heads": 8,
                    "vocab_size": 128256,
                    "torch_dtype": "bfloat16",
                },
            },
            "hardware": "NVIDIA L40S",
        },
    },
}
BATCH_SPECS: dict[str, Example] = {"two": {"summary": "Two specs", "value": {"specs": [_SHORT, _FULL]}}}
MEASUREMENT: dict[str, Example] = {
    "ready": {"summary": "A startup that became healthy", "value": _MEASUREMENT},
    "failed": {"summary": "A startup that failed", "value": _FAILED},
}
BATCH_MEASUREMENTS: dict[str, Example] = {
    "two": {"summary": "Two startups", "value": {"measurements": [_MEASUREMENT, _FAILED]}}
}
