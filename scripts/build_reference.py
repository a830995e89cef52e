#!/usr/bin/env python
"""Rebuild app/reference/measurements.json from the published tables: build_reference.py --tables DIR.

DIR holds the numbers of the publication as CSV files, with notes on what they mean. ``reference_tables`` says which
rows are taken and how each is read; ``reference.toml`` holds what the tables do not say of their machines and models.
"""

import argparse
import csv
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reference_tables import measurement, rows_of

from app.reference.dataset import Dataset

SCRIPTS = Path(__file__).resolve().parent
OUTPUT = SCRIPTS.parent / "app" / "reference" / "measurements.json"


def models_of(tables: Path, extra: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return every model of the tables and of reference.toml, by its key."""
    features = {row["model"]: row for row in read(tables / "model_features.csv")}
    weight_bytes = {row["model"]: int(row["weight_bytes"]) for row in read(tables / "model_weight_bytes.csv")}
    return {key: model_of(key, dict(facts), features, weight_bytes) for key, facts in sorted(extra.items())}


def model_of(key: str, facts: dict[str, Any], features: dict[str, Any], weight_bytes: dict[str, int]) -> dict[str, Any]:
    """Return one model: the facts of the tables, and over them those of reference.toml.

    A variant has the shape and tokenizer of the model it is based on, but bytes and graph of its own.
    """
    hub_ids, base = facts.pop("hub_ids", []), facts.pop("based_on", None)
    shape = shape_of(features.get(base or key))
    shape |= {"compiled_graph_bytes": None} if base else {"weight_bytes": weight_bytes.get(key), "dtype": "bfloat16"}
    spec = {"name": key, **{field: value for field, value in shape.items() if value is not None}, **facts}
    return {"hub_ids": hub_ids, "spec": spec}


def shape_of(row: dict[str, str] | None) -> dict[str, Any]:
    """Return the facts of a row of model_features.csv: sizes in billions, tokenizers in 2^20 bytes, graphs in 1024."""
    if row is None:
        return {}
    counts = {
        "num_layers": "layers",
        "hidden_size": "hidden_size",
        "num_attention_heads": "num_attention_heads",
        "num_key_value_heads": "num_key_value_heads",
        "intermediate_size": "ffn_dim",
        "vocab_size": "vocab_size",
        "num_experts": "n_experts",
        "num_experts_per_token": "n_active_experts",
    }
    return {
        "num_parameters": round(float(row["size"]) * 1e9),
        **{field: int(row[column]) for field, column in counts.items() if row[column]},
        "tokenizer_bytes": round(float(row["tokenizer_size"]) * 2**20),
        "compiled_graph_bytes": int(row["compiled_graph_sizes"]) * 1024,
    }


def read(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file."""
    with path.open(newline="") as file:
        yield from csv.DictReader(file)


def build(tables: Path) -> str:
    """Return the text of the reference file: one line a measurement, after a head for people to read."""
    outside = tomllib.loads((SCRIPTS / "reference.toml").read_text())
    models = models_of(tables, outside["models"])
    bytes_of = {key: model["spec"].get("weight_bytes") for key, model in models.items()}
    lines = [json.dumps(measurement(row, bytes_of), separators=(",", ":")) for row in rows_of(tables)]
    head = json.dumps({**outside["publication"], "models": models, "nodes": outside["nodes"]}, indent=1)
    text = head.removesuffix("\n}") + ',\n "measurements": [\n' + ",\n".join(lines) + "\n]}\n"
    Dataset.model_validate_json(text)
    return text


def main() -> None:
    """Write the reference file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tables", type=Path, required=True, help="folder of the published tables (CSV)")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="file to write (default: the shipped one)")
    arguments = parser.parse_args()
    arguments.output.write_text(build(arguments.tables))


if __name__ == "__main__":
    main()
