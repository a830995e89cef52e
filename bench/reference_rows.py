"""The reference measurements as the benchmark selects them."""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from app.prediction.observation import Observation
from app.reference import load_reference
from app.schemas.measurement import Measurement, Outcome
from bench.methods import TOTAL

__all__ = [
    "CASE0",
    "FIGURE_REST",
    "FITTED",
    "GPU1",
    "H200",
    "MODEL_SIZE2",
    "N3",
    "PREDICTED",
    "Row",
    "h200_rows",
    "load_rows",
    "of_experiment",
    "paper_rows",
]

FIGURE_REST = "figures/figure-rest"
MODEL_SIZE2 = "node7/examples/model_size2"
CASE0 = "figure-13/case0"
GPU1 = "figure-10/gpu1"
N3 = "t1/model_size2"
H200 = "h200"

# The paper's own split of MODEL_SIZE2 into models to fit and models to predict.
FITTED = (
    *("falcon-7b", "llama2-7b-hf", "llama2-13b-hf", "yi-6b", "yi-9b"),
    *("qwen-0.5b", "qwen-1.8b", "qwen-4b", "qwen-14b"),
)
PREDICTED = ("falcon-11b", "gemma-7b", "mistral-7b", "llama3-3b", "qwen-7b")

QUANTIZED = re.compile(r"-(awq|gptq|bitsandbytes)$")


@dataclass(frozen=True)
class Row:
    """One reference measurement, and its place in the list of them."""

    index: int
    measurement: Measurement

    @cached_property
    def observation(self) -> Observation:
        """The measurement as the mathematics sees it: shipped with the service."""
        return Observation.of(self.measurement, reference=True)

    @property
    def model(self) -> str:
        """The model's name; quantized variants go with their base. Two names are two models, if of equal shape."""
        return QUANTIZED.sub("", self.measurement.spec.model.name)

    @property
    def node(self) -> str:
        """The machine (n1, n2, n3, h200), whatever campaign the row is of."""
        return str(self.measurement.facts["machine"])

    @property
    def host(self) -> str:
        """The node's label: machine and campaign."""
        return str(self.measurement.spec.hardware.node)

    @property
    def experiment(self) -> str:
        """The campaign that the row was measured in."""
        return str(self.measurement.facts["experiment"])

    @property
    def iteration(self) -> str:
        """Which run it is (1 to 5, or uncached for a first one), or avg for the mean of five."""
        return str(self.measurement.facts["iteration"])

    @cached_property
    def seconds(self) -> dict[str, float]:
        """The measured total and the stages that were observed."""
        return {
            TOTAL: self.measurement.total_seconds,
            **{str(name): s for name, s in self.measurement.stage_seconds.items()},
        }

    @property
    def observed(self) -> set[str]:
        """The total, as published, and the stages that were measured: not ``other`` where the total was rebuilt."""
        return {TOTAL, *map(str, self.observation.stages)}


@lru_cache
def load_rows() -> tuple[Row, ...]:
    """Return the reference measurements that ended ready."""
    ready = [measurement for measurement in load_reference() if measurement.outcome is Outcome.READY]
    return tuple(Row(index, measurement) for index, measurement in enumerate(ready))


def paper_rows() -> list[Row]:
    """Return the rows of the publication: all that protocols A to H learn from and ask for."""
    return [row for row in load_rows() if row.node != H200]


def h200_rows() -> list[Row]:
    """Return the project's own startups on H200s, host by host, in the order in which they were made."""
    return [row for row in load_rows() if row.node == H200]


def of_experiment(*names: str, runs: str = "") -> list[Row]:
    """Return the rows of the publication whose experiment's path ends so; with ``runs`` ("345"), only those runs."""
    return [row for row in paper_rows() if row.experiment.endswith(names) and (not runs or row.iteration in set(runs))]
