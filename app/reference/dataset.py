"""The format of the reference files, and the measurements in them.

A file holds models and nodes once and a measurement a line, each naming its model and node, so that a change of one
number is a change of one line. ``measurements.json`` is of the publication; ``h200.json`` and ``h200_b.json`` of the
project's own startups on two machines, of models with the shapes of their namesakes and random weights.

What a fit must know of the rows of the publication, all under ``facts``:

- ``aggregate``: the row is a mean of five runs. Its stages are true means, but its total was rebuilt from them and
  lacks what belongs to no stage: about 0.49 s on n1, 0.53 s on n2 and 0.8 s on n3 (0.2 to 1.4). So ``other`` of such
  a row is too small by that much, and so is the total: neither is learned from (app/prediction/observation.py). On n3
  a part of the loss lies in ``model_loading``, where single runs spend 0.5 to 1.8 s outside its parts.
- ``stamps``: the bootstrap was logged in whole seconds, so its parts are coarse, and a 0.0 among them means less than
  a second. ``other``, which is what is left of the total, is off by as much and taken as unobserved.
- ``run`` = ``cache_disabled_first_run``: the compile cache was off, and this was the first of the startups without it.
  Compilation, KV profiling and capture took 2 to 17 s longer than in the later ones, which share its cache state.
- ``experiment``, ``iteration``, ``table``, ``label``, ``source``: where the row stands in the publication. There is no
  split into training and test rows here; a benchmark selects by these.
- ``machine``: the node without its campaign. Campaigns of one machine that differ have a node label each, so leaving a
  node out means leaving out every row of its machine.

The own rows name ``experiment``, ``iteration``, ``table``, ``label``, ``source`` and ``machine`` likewise, and

- ``run`` = ``first_on_host``: the first startup of the machine, whose libraries were not in the page cache yet.
- ``triton_cache_files``: files in Triton's default cache before the startup. On the first machine, ``cache.kernels``
  was told from how many the next startup found (the last one's from what its runner and vocabulary had built before);
  on the second, from the kernels that were there before and after.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal
from uuid import UUID, uuid5

from pydantic import Field

from app.schemas.base import FreeJson, Name, PastDatetime, Seconds, Strict
from app.schemas.measurement import Measurement, canonical_digest
from app.schemas.spec import CacheSpec, EngineSpec, HardwareSpec, ModelSpec
from app.stages import Part, Stage

__all__ = ["SOURCE", "Dataset", "DatasetModel", "DatasetRow", "aliases", "load_reference", "models", "to_wire"]

SOURCE = "reference"
_FILES = ("measurements.json", "h200.json", "h200_b.json")
# Any fixed UUID does; ids must stay the same from release to release, so never change it.
_NAMESPACE = UUID("6f1c0f0e-3b0a-5d0c-9a5e-1d5a4a5e7c11")


class DatasetModel(Strict):
    """A language model: its facts, and the hub ids of checkpoints with the very same shape."""

    hub_ids: tuple[Name, ...] = ()
    """Public ids that mean this model."""
    spec: ModelSpec
    """Its facts."""


class DatasetRow(Strict):
    """One startup; model and node by their keys."""

    model: Name
    node: Name
    total_seconds: Seconds
    stages: dict[Stage, Seconds]
    parts: dict[Part, Seconds]
    hardware: dict[str, Any] = Field(default_factory=dict)
    """What differs from the node's hardware in this startup."""
    started_at: PastDatetime | None = None
    """When it was started, where that is known."""
    engine: EngineSpec
    cache: CacheSpec
    facts: FreeJson


class Dataset(Strict):
    """The whole file."""

    format_version: Literal[1]
    citation: Name
    """Where the numbers come from."""
    repository: Name | None = None
    """Where they were published, and at which commit."""
    commit: Name | None = None
    published_at: PastDatetime
    """Stands in for the start time where a row has none."""
    models: dict[Name, DatasetModel]
    nodes: dict[Name, HardwareSpec]
    measurements: tuple[DatasetRow, ...]


def to_wire(dataset: Dataset) -> Iterable[dict[str, Any]]:
    """Yield each row as a measurement on the wire: its id is made from its content, so that repeats change nothing.

    KeyError where a row names a model or a node that the file does not hold.
    """
    models = {key: _plain(model.spec) for key, model in dataset.models.items()}
    nodes = {key: _plain(node) for key, node in dataset.nodes.items()}
    for row in dataset.measurements:
        wire = {
            "started_at": (row.started_at or dataset.published_at).isoformat(),
            "outcome": "ready",
            "total_seconds": row.total_seconds,
            "stages": {stage.value: seconds for stage, seconds in row.stages.items()},
            "parts": {part.value: seconds for part, seconds in row.parts.items()},
            "spec": {
                "model": models[row.model],
                "hardware": {**nodes[row.node], **row.hardware},
                "engine": _plain(row.engine),
                "cache": _plain(row.cache),
            },
            "source": SOURCE,
            "facts": row.facts,
        }
        yield {"id": str(uuid5(_NAMESPACE, canonical_digest(wire))), **wire}


def load_reference() -> list[Measurement]:
    """Return the shipped reference measurements, validated, in the order of the files."""
    return [Measurement.model_validate(wire) for dataset in _shipped() for wire in to_wire(dataset)]


@cache
def aliases() -> Mapping[str, str]:
    """Return hub id (lower case) → name of the reference model with the same shape."""
    every = (model for dataset in _shipped() for model in dataset.models.values())
    return MappingProxyType({hub_id.lower(): model.spec.name for model in every for hub_id in model.hub_ids})


@cache
def _shipped() -> tuple[Dataset, ...]:
    return tuple(Dataset.model_validate_json((files("app.reference") / name).read_bytes()) for name in _FILES)


def _plain(schema: Strict) -> dict[str, Any]:
    return schema.model_dump(mode="json", exclude_none=True)


def models() -> list[ModelSpec]:
    """Return the facts of every shipped model, those without a published startup included."""
    return [model.spec for dataset in _shipped() for model in dataset.models.values()]
