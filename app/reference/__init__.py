"""The reference measurements: published startups, shipped so that a fresh install already answers.

``measurements.json`` is written by ``scripts/build_reference.py``, which names the tables and what it leaves out;
``h200.json`` and ``h200_b.json`` by ``scripts/build_dataset.py`` from the agent's own measurements.
"""

from app.reference.dataset import aliases, load_reference, models
from app.reference.files import parse_file

__all__ = ["aliases", "load_reference", "models", "parse_file"]
