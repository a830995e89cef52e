#!/usr/bin/env python
"""Write agents' measurements as a file in the format of the reference: build_dataset.py FOLDER --citation … --output …

FOLDER holds the startups of one machine, one measurement a file as it crosses the wire; its names become the labels,
in their order. Startups that were not ready are left out. Such a file is imported with ``coldcast import``.
"""

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.reference.dataset import Dataset

Wire = Mapping[str, Any]


def read(folder: Path) -> dict[str, Wire]:
    """Return the measurements of ready startups by their label."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    return {label: wire for label, wire in found.items() if wire["outcome"] == "ready"}


def models_of(measurements: Sequence[Wire]) -> dict[str, Any]:
    """Return each model with its facts. ValueError where two measurements of one model tell different ones."""
    models: dict[str, Any] = {}
    for wire in measurements:
        spec = wire["spec"]["model"]
        if models.setdefault(spec["name"], {"spec": spec})["spec"] != spec:
            raise ValueError(f"the measurements tell different facts of {spec['name']}")
    return dict(sorted(models.items()))


def hardware_of(measurements: Sequence[Wire], node: str) -> dict[str, Any]:
    """Return what all measurements say of the machine alike, under the label ``node``."""
    first, *others = ({**wire["spec"]["hardware"], "node": node} for wire in measurements)
    return {field: value for field, value in first.items() if all(other.get(field) == value for other in others)}


def row(label: str, wire: Wire, machine: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return one measurement as a row of the file."""
    spec, node = wire["spec"], machine["node"]
    triton = wire["facts"].get("kernel_caches", {}).get("triton", {})
    return {
        "model": spec["model"]["name"],
        "node": node,
        "started_at": wire["started_at"],
        "total_seconds": wire["total_seconds"],
        "stages": wire["stages"],
        "parts": wire["parts"],
        "hardware": {field: value for field, value in spec["hardware"].items() if field not in machine},
        "engine": spec["engine"],
        "cache": spec["cache"],
        "facts": {
            "table": "startups",
            "label": label,
            "machine": node.partition("/")[0],
            "triton_cache_files": triton.get("files"),
            "hook_seconds": wire["facts"].get("hook_seconds"),
            **facts,
        },
    }


def build(folder: Path, *, citation: str, node: str, experiment: str, runs: Mapping[str, str]) -> str:
    """Return the text of the file: one line a measurement, after a head for people to read."""
    measurements = read(folder)
    machine = hardware_of(list(measurements.values()), node)
    repeats: Counter[str] = Counter()
    lines = []
    for label, wire in measurements.items():
        spec = json.dumps({**wire["spec"], "hardware": None}, sort_keys=True)
        repeats[spec] += 1
        facts = {"experiment": experiment, "iteration": str(repeats[spec]), "source": experiment}
        marked = {"run": runs[label]} if label in runs else {}
        lines.append(json.dumps(row(label, wire, machine, facts | marked), separators=(",", ":")))
    head = {
        "format_version": 1,
        "citation": citation,
        "published_at": max(wire["started_at"] for wire in measurements.values()),
        "models": models_of(list(measurements.values())),
        "nodes": {node: machine},
    }
    text = json.dumps(head, indent=1).removesuffix("\n}") + ',\n "measurements": [\n' + ",\n".join(lines) + "\n]}\n"
    Dataset.model_validate_json(text)
    return text


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="one measurement a file, as it crosses the wire")
    parser.add_argument("--citation", required=True, help="where the numbers come from")
    parser.add_argument("--node", required=True, help="label of the machine: MACHINE or MACHINE/CAMPAIGN")
    parser.add_argument("--experiment", required=True, help="name of the campaign")
    parser.add_argument("--run", action="append", default=[], metavar="LABEL=WHAT", help="mark a startup's facts.run")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    runs = dict(mark.split("=", 1) for mark in options.run)
    text = build(options.folder, citation=options.citation, node=options.node, experiment=options.experiment, runs=runs)
    options.output.write_text(text)


if __name__ == "__main__":
    main()
