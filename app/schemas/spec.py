"""The spec: all that is known of a startup before it happens."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, StrictBool, StringConstraints

from app.schemas.base import NUMBER, Bytes, Count, Fraction, FreeJson, Label, Name, Strict

__all__ = [
    "CacheSpec",
    "CompileCache",
    "EngineSpec",
    "HardwareSpec",
    "InspectionCache",
    "KernelCache",
    "ModelRunner",
    "ModelSpec",
    "Spec",
    "Storage",
    "WeightsState",
    "named",
]


class WeightsState(StrEnum):
    """Where the weights lie when the startup begins."""

    NETWORK = "network"
    DISK = "disk"
    PAGE_CACHE = "page_cache"
    GPU = "gpu"


class CompileCache(StrEnum):
    """The state of the torch.compile cache: empty, filled, or switched off."""

    COLD = "cold"
    WARM = "warm"
    DISABLED = "disabled"


class InspectionCache(StrEnum):
    """The state of the model-inspection cache (vLLM 0.11 and later)."""

    COLD = "cold"
    WARM = "warm"


class KernelCache(StrEnum):
    """The state of the cache of kernels that the engine builds on first use (vLLM 0.17 and later)."""

    COLD = "cold"
    PARTIAL = "partial"
    WARM = "warm"


class Storage(StrEnum):
    """The kind of storage that the weights lie on."""

    TMPFS = "tmpfs"
    NVME = "nvme"
    SSD = "ssd"
    HDD = "hdd"
    NETWORK = "network"


class ModelRunner(StrEnum):
    """Which of vLLM's model runners runs the model."""

    V1 = "v1"
    V2 = "v2"


def named(field: str, schema: type[BaseModel]) -> BeforeValidator:
    """Accept a bare string as the short form of an object with only ``field``."""
    return BeforeValidator(
        lambda value: {field: value} if isinstance(value, str) else value, json_schema_input_type=schema | Name
    )


class ModelSpec(Strict):
    """A language model. A name alone is enough where a measurement or the reference set has its facts."""

    name: Name = Field(examples=["meta-llama/Llama-3.1-8B"])
    """Hub id or any name the fleet uses; matched without regard to case."""
    revision: Name | None = None
    """Hub revision; left out, it matches any."""
    weight_bytes: Bytes | None = Field(None, examples=[16060522496])
    """Bytes of the weight files as they lie on storage."""
    unloaded_weight_bytes: Bytes | None = None
    """Of these, bytes that the engine skips: an output head that is stored although it is tied to the embeddings."""
    num_parameters: Annotated[int, Field(ge=0, le=10**14), NUMBER] | None = None
    """Number of parameters; used with dtype and quantization where weight_bytes is not known."""
    num_weight_files: Count | None = None
    """Number of weight files (shards)."""
    num_layers: Annotated[int, Field(ge=0, le=10_000), NUMBER] | None = Field(None, examples=[32])
    """Decoder layers of every kind."""
    num_attention_layers: Annotated[int, Field(ge=0, le=10_000), NUMBER] | None = None
    """Layers with attention; all of them where not given."""
    num_mamba_layers: Annotated[int, Field(ge=0, le=10_000), NUMBER] | None = None
    """Layers with a Mamba or other state-space mixer; 0 where not given."""
    num_moe_layers: Annotated[int, Field(ge=0, le=10_000), NUMBER] | None = None
    """Layers whose feed-forward block is a mixture of experts."""
    hidden_size: Count | None = None
    """Width of the hidden state."""
    num_attention_heads: Count | None = None
    """Query heads."""
    num_key_value_heads: Count | None = None
    """Key and value heads."""
    head_dim: Count | None = None
    """Width of one head; hidden_size over num_attention_heads where not given."""
    intermediate_size: Count | None = None
    """Width of the feed-forward block (of one expert in a mixture)."""
    vocab_size: Count | None = None
    """Entries of the vocabulary."""
    tie_word_embeddings: StrictBool | None = None
    """Whether the output head is the table of embeddings, as in the config."""
    num_experts: Count | None = None
    """Routed experts a layer; null for a dense model."""
    num_experts_per_token: Count | None = None
    """Routed experts that one token uses."""
    architecture: Name | None = None
    """First entry of the config's architectures."""
    dtype: Label | None = None
    """Data type of the weights, as the config names it (bfloat16)."""
    quantization: Label | None = None
    """Quantization method (fp8, awq, gptq, mxfp4, …); null where there is none."""
    tokenizer_bytes: Bytes | None = None
    """Bytes of the tokenizer's files."""
    compiled_graph_bytes: Bytes | None = None
    """Bytes of Inductor's generated graph files (first + last + middle x (layers - 2)); known after a first start."""
    config: FreeJson | None = None
    """A raw Hugging Face config.json in place of single fields; single fields win."""


class HardwareSpec(Strict):
    """The machine. A GPU's name alone is enough."""

    gpu: Name = Field(examples=["NVIDIA H100 NVL"])
    """GPU name as NVML or people write it."""
    gpu_count: Annotated[int, Field(ge=1, le=1024), NUMBER] | None = None
    """GPUs that the engine uses."""
    gpu_memory_bytes: Bytes | None = None
    """Memory of one GPU."""
    cpu: Name | None = Field(None, examples=["AMD EPYC 9354"])
    """CPU name as /proc/cpuinfo or people write it."""
    cpu_cores: Annotated[int, Field(ge=1, le=100_000), NUMBER] | None = None
    """Physical cores of the machine."""
    cpu_quota_cores: Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False), NUMBER] | None = None
    """Cores that the engine may use (cgroup quota and affinity); null without a limit."""
    cpu_busy_fraction: Fraction | None = None
    """Share of the cores that other work keeps busy."""
    memory_bytes: Bytes | None = None
    """Main memory of the machine."""
    storage: Storage | None = None
    """Storage that the weights lie on."""
    node: Name | None = None
    """Opaque label, for fleets whose equal machines are not equal."""


class EngineSpec(Strict):
    """The engine and its arguments."""

    version: Annotated[str, StringConstraints(max_length=64, pattern=r"^\d+(\.\d+)*([.+-]?[A-Za-z0-9]+)*$")] | None = (
        Field(None, examples=["0.10.1.1"])
    )
    """vLLM version."""
    tensor_parallel_size: Annotated[int, Field(ge=1, le=1024), NUMBER] | None = None
    """Ranks of tensor parallelism; 1 where not given."""
    pipeline_parallel_size: Annotated[int, Field(ge=1, le=1024), NUMBER] | None = None
    """Ranks of pipeline parallelism; 1 where not given."""
    enforce_eager: StrictBool | None = None
    """No torch.compile and no CUDA graphs; false where not given."""
    optimization_level: Annotated[int, Field(ge=0, le=3), NUMBER] | None = None
    """vLLM's -O level; null for the version's default."""
    load_format: Label | None = None
    """Weight loader (auto, safetensors, dummy, runai_streamer, tensorizer, …); auto where not given."""
    num_cudagraph_sizes: Annotated[int, Field(ge=0, le=10_000), NUMBER] | None = None
    """Batch sizes that CUDA graphs are captured for; the version's rule where not given."""
    num_cudagraphs: Annotated[int, Field(ge=0, le=100_000), NUMBER] | None = None
    """CUDA graphs captured over all modes, where the resolved configuration tells; else the version's rule."""
    max_num_seqs: Annotated[int, Field(ge=1, le=1_000_000), NUMBER] | None = None
    """Sequences in one batch at most."""
    max_num_batched_tokens: Annotated[int, Field(ge=1, le=100_000_000), NUMBER] | None = None
    """Tokens in one batch at most: the size of the profiling run."""
    max_model_len: Annotated[int, Field(ge=1, le=100_000_000), NUMBER] | None = None
    """Longest sequence, tokens."""
    model_runner: ModelRunner | None = None
    """Which of vLLM's two model runners is in use."""


class CacheSpec(Strict):
    """The caches when the startup begins; null is unknown and is answered with what this hardware has shown."""

    weights: WeightsState | None = None
    """Where the weights lie."""
    weights_cached_fraction: Fraction | None = None
    """Share of the weight bytes that is in the page cache."""
    compile: CompileCache | None = None
    """State of the torch.compile cache."""
    model_inspection: InspectionCache | None = None
    """State of the model-inspection cache."""
    kernels: KernelCache | None = None
    """State of Triton's kernel cache: warm where it holds all that the engine needs, partial where it lacks some (they
    differ by model runner and vocabulary), cold where it lacks more than it holds, as it does in a new container."""


def _or_empty(schema: type[BaseModel]) -> BeforeValidator:
    """Accept null as an empty object."""
    return BeforeValidator(lambda value: schema() if value is None else value, json_schema_input_type=schema | None)


class Spec(Strict):
    """All that is known before a startup: model, hardware, engine, cache."""

    model: Annotated[ModelSpec, named("name", ModelSpec)]
    """The language model, or just its name."""
    hardware: Annotated[HardwareSpec, named("gpu", HardwareSpec)]
    """The machine, or just its GPU's name."""
    engine: Annotated[EngineSpec, _or_empty(EngineSpec)] = EngineSpec()
    """The engine and its arguments."""
    cache: Annotated[CacheSpec, _or_empty(CacheSpec)] = CacheSpec()
    """The caches when the startup begins."""

    @classmethod
    def of(cls, model: Any, hardware: Any, **others: Any) -> "Spec":
        """Build a spec from plain JSON values: a shorthand for scripts and tests."""
        return cls.model_validate({"model": model, "hardware": hardware, **others})
