"""What tensorizer takes to load weights that lie in memory, on this machine's GPU.

    python -m bench.tensorizer_cost FOLDER

FOLDER lies on tmpfs (/dev/shm) and takes the largest model, 30 GB. Needs torch with CUDA and tensorizer. Writes random
weights of well-known shapes in the engine's layout, loads each three times in a process of its own (PyTorch keeps
page-locked memory for the next), and fits the median seconds by what the predictor says that they are made of.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from app.prediction.model_bytes import page_locked_bytes

REPEATS = 3


@dataclass(frozen=True)
class Shape:
    """A decoder's shape: widths, layers, and whether it has a gate and an output head of its own."""

    hidden: int
    layers: int
    key_value: int
    feed_forward: int
    vocabulary: int
    gated: bool = True
    tied: bool = False

    def tensors(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the tensors as the engine holds them: query, key and value in one, gate and up in one."""
        yield "embeddings", (self.vocabulary, self.hidden)
        for layer in range(self.layers):
            yield f"layer{layer}_qkv", (self.hidden + 2 * self.key_value, self.hidden)
            yield f"layer{layer}_out", (self.hidden, self.hidden)
            yield f"layer{layer}_up", ((1 + self.gated) * self.feed_forward, self.hidden)
            yield f"layer{layer}_down", (self.hidden, self.feed_forward)
        if not self.tied:
            yield "head", (self.vocabulary, self.hidden)

    def page_locked_bytes(self) -> float:
        """Return what the predictor takes the loader to lock."""
        facts: dict[str, Any] = {
            "hidden_size": self.hidden,
            "intermediate_size": self.feed_forward,
            "vocab_size": self.vocabulary,
            "tie_word_embeddings": self.tied,
            "architecture": "LlamaForCausalLM" if self.gated else "FalconForCausalLM",
            "dtype": "bfloat16",
            "quantization": None,
        }
        return page_locked_bytes(facts, 1)


SHAPES = {
    "qwen-0.5b": Shape(1024, 24, 1024, 2816, 151936, tied=True),
    "llama3.2-3b": Shape(3072, 28, 1024, 8192, 128256, tied=True),
    "qwen3-4b": Shape(2560, 36, 1024, 9728, 151936, tied=True),
    "yi-6b": Shape(4096, 32, 512, 11008, 64000),
    "llama2-7b": Shape(4096, 32, 4096, 11008, 32000),
    "falcon-7b": Shape(4544, 32, 64, 18176, 65024, gated=False, tied=True),
    "mistral-7b": Shape(4096, 32, 1024, 14336, 32000),
    "llama3.1-8b": Shape(4096, 32, 1024, 14336, 128256),
    "gemma-7b": Shape(3072, 28, 4096, 24576, 256000, tied=True),
    "llama2-13b": Shape(5120, 40, 5120, 13824, 32000),
    "qwen2.5-14b": Shape(5120, 48, 1024, 13824, 152064),
}


def module(shape: Shape) -> Any:
    """Return the model with uninitialised weights on the GPU."""
    import torch

    torch_module = torch.nn.Module()
    for name, size in shape.tensors():
        weights = torch.empty(size, dtype=torch.bfloat16, device="cuda")
        torch_module.register_parameter(name, torch.nn.Parameter(weights, requires_grad=False))
    torch.cuda.synchronize()
    return torch_module


def write(shape: Shape, path: str) -> None:
    """Write the model as tensorizer reads it."""
    from tensorizer import TensorSerializer

    serializer = TensorSerializer(path)
    serializer.write_module(module(shape))
    serializer.close()


def read(shape: Shape, path: str) -> None:
    """Print the seconds that loading takes."""
    import torch
    from tensorizer import TensorDeserializer

    target = module(shape)
    begun = time.perf_counter()
    deserializer = TensorDeserializer(path, dtype=torch.bfloat16, device="cuda", lazy_load=True)
    deserializer.load_into_module(target)
    torch.cuda.synchronize()
    print(json.dumps(time.perf_counter() - begun))
    deserializer.close()


def in_a_process(what: str, name: str, path: Path) -> str:
    """Run one step in a process of its own and return what it printed."""
    command = [sys.executable, "-m", "bench.tensorizer_cost", what, name, str(path)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def measured(folder: Path) -> dict[str, float]:
    """Return the median seconds of each model."""
    seconds = {}
    path = folder / "model.tensors"
    for name in SHAPES:
        in_a_process("write", name, path)
        seconds[name] = median(json.loads(in_a_process("read", name, path)) for _ in range(REPEATS))
        path.unlink()
    return seconds


def fitted(terms: Sequence[Sequence[float]], seconds: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the coefficients of least squares on relative errors, and those errors."""
    design, truth = np.array(terms), np.array(seconds)
    coefficients = np.linalg.lstsq(design / truth[:, None], np.ones(len(truth)), rcond=None)[0]
    return coefficients.tolist(), (design @ coefficients / truth - 1.0).tolist()


def main(arguments: Sequence[str]) -> None:
    """Measure, or make one step of it."""
    if len(arguments) == 3:
        {"write": write, "read": read}[arguments[0]](SHAPES[arguments[1]], arguments[2])
        return
    seconds = measured(Path(arguments[0]))
    sizes = {name: sum(2 * rows * columns for _, (rows, columns) in SHAPES[name].tensors()) / 1e9 for name in SHAPES}
    locked = {name: SHAPES[name].page_locked_bytes() / 1e9 for name in SHAPES}
    for what, terms in (
        ("bytes alone", [(sizes[name], 1.0) for name in SHAPES]),
        ("bytes and page-locked bytes", [(sizes[name], 1.0, locked[name]) for name in SHAPES]),
    ):
        coefficients, errors = fitted(terms, list(seconds.values()))
        print(f"{what}: {', '.join(f'{c:.3f}' for c in coefficients)} s per GB, s, s per GB locked")
        for name, error in zip(SHAPES, errors, strict=True):
            print(
                f"  {name:12} {sizes[name]:6.2f} GB {locked[name]:5.2f} GB locked {seconds[name]:5.2f} s {error:+6.1%}"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
