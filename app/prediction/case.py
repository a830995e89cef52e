"""The case: a spec with every fact filled in, as features and effects read it."""

from dataclasses import dataclass, field

from app.stages import Part, Stage, stage_of

__all__ = ["COMPILED_PARTS", "TENSORIZER", "Case", "HardwareKey"]

COMPILED_PARTS = frozenset((Part.DYNAMO_TRANSFORM, Part.GRAPH_COMPILE, Part.GRAPH_LOAD, Part.KV_CACHE_PROFILING))
"""The parts that the compile cache tells apart: the profiling run is longer where it compiles."""

TENSORIZER = "tensorizer"
"""The load format whose loader has costs of its own."""


@dataclass(frozen=True, slots=True)
class HardwareKey:
    """Identity of hardware, normalised; None where nobody said."""

    gpu: str
    gpu_count: int | None = None
    cpu: str | None = None
    cpu_cores: int | None = None
    storage: str | None = None
    node: str | None = None

    def text(self) -> str:
        """Return the identity as one string, the key of this hardware's effects."""
        fields = (self.gpu, self.gpu_count, self.cpu, self.cpu_cores, self.storage, self.node)
        return "/".join("" if value is None else str(value) for value in fields)


@dataclass(slots=True)
class Case:
    """Every number that a feature reads. Shares lie in 0..1; a state that nobody knows is half of each."""

    model: str
    """Identity of the model."""
    hardware: HardwareKey
    loading: HardwareKey
    """Hardware whose weight loading is meant: the same, unless another entry of an unlabelled kind shows that state."""
    own: bool
    """Whether to read the effects that only the operator's own measurements have."""
    weight_bytes: float
    layers: float
    attention_layers: float
    mamba_layers: float
    moe_layers: float
    experts: float
    tokenizer_bytes: float
    graph_bytes: float
    quantization: str
    architecture: str
    version: tuple[int, ...]
    """Major and minor version of the engine."""
    ranks: float
    """Worker processes: tensor x pipeline parallel."""
    tensor_parallel: float
    compiled: bool
    """Whether torch.compile is on."""
    captured: bool
    """Whether CUDA graphs are captured."""
    capture_sizes: float
    graphs: float
    batched_tokens: float
    load_format: str
    weights: str
    """State of the weights; ``unknown`` where nobody knows."""
    compile: str
    """State of the compile cache; ``off`` without torch.compile."""
    inspection: str
    kernels: str
    """State of the kernel cache; empty where the engine version builds none."""
    second_runner: bool
    """Whether vLLM's second model runner is in use."""
    disk_share: float
    """Share of the weight bytes that is read from disk."""
    network_share: float
    page_share: float
    """Share of the weight bytes that passes through memory at all: 0 where they lie on the GPU."""
    cold_share: float
    """1 where torch.compile compiles."""
    inspection_share: float
    """1 where the model class is inspected in a process of its own."""
    kernel_share: float
    """1 where the engine compiles all its kernels."""
    further_kernel_share: float
    """1 where it compiles some beside those that other models left."""
    busy: float
    """Work of others on the cores, 0..1."""
    quota: float
    """Cores that the engine may use; 0 where nothing limits it."""
    asked_sizes: bool
    """Whether the sizes to capture are other than the version's rule gives."""
    active_bytes: float
    """Weight bytes that one token passes through: all but the experts that it is not routed to."""
    page_locked_bytes: float
    """Bytes of the buffers that tensorizer locks in memory; 0 for other load formats."""
    further_blocks: float
    """Blocks of 4096 beyond the first that a hidden state fills: kernels that reduce it whole split there."""
    assumed: list[str] = field(default_factory=list)

    def cell(self, part: Part) -> str:
        """Return the part together with the condition that makes it another thing: cache state, load format."""
        if part is Part.WEIGHT_LOADING:
            return f"{part}|{self.weights}|{self.load_format}"
        if part is (Part.KERNEL_WARMUP if self.second_runner else Part.KV_CACHE_PROFILING) and self.kernels:
            state = self.compile if part in COMPILED_PARTS else ""
            return "|".join(filter(None, (part, state, f"kernels {self.kernels}")))
        if part in COMPILED_PARTS:
            return f"{part}|{self.compile}"
        if part is Part.MODEL_INSPECTION:
            return f"{part}|{self.inspection}"
        return part.value

    @property
    def stored(self) -> bool:
        """Whether weights are read from a disk or over a network, at least a part of them."""
        return self.disk_share + self.network_share > 0

    @property
    def unusual(self) -> bool:
        """Whether the load format, the quantization or the sizes to capture are not the usual ones."""
        return bool(self.quantization) or self.load_format != "auto" or self.asked_sizes

    @property
    def rare(self) -> bool:
        """Whether it is not an everyday start: unusual, compiling, or in a state that nobody knows."""
        return (
            self.unusual or "unknown" in (self.weights, self.kernels) or self.compile in ("cold", "disabled", "unknown")
        )

    def circumstance(self, part: Part) -> str:
        """Return what the usual error of a part depends on: its cell, and whether the case is unusual."""
        return f"{self.cell(part)}|unusual" if self.unusual else self.cell(part)

    def variant(self, part: Part) -> str | None:
        """Return the part with what is unusual: load format, quantization, sizes to capture; None where nothing is.

        A load format acts on loading alone: else what slowed the campaign that tried it would be taken for its doing.
        """
        asked = "asked_sizes" if self.asked_sizes and part is Part.CUDA_GRAPH_CAPTURE else ""
        loaded = self.load_format if self.load_format != "auto" and stage_of(part) is Stage.MODEL_LOADING else ""
        told = "|".join((loaded, self.quantization, asked))
        return f"{part}|{told}" if told != "||" else None
