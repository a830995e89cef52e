"""Importing measurements: the shipped reference set, and files of one's own."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.database.engine import Sessions
from app.database.measurements import StoredMeasurement, digests, insert_many, remove_reference_except
from app.reference import load_reference
from app.schemas.measurement import Measurement

__all__ = ["Imported", "import_measurements", "import_reference"]


@dataclass(frozen=True)
class Imported:
    """What came of an import."""

    created: int
    unchanged: int
    conflicts: Sequence[str]


def import_reference(sessions: Sessions) -> Imported:
    """Store the shipped reference measurements; their ids come from their content, so repeats change nothing.

    Those of an older release that the shipped set no longer holds are removed: a correction must not stand beside what
    it corrects.
    """
    shipped = load_reference()
    imported = import_measurements(sessions, shipped, reference=True)
    with sessions.begin() as session:
        remove_reference_except(session, {(m.source, m.id) for m in shipped})
    return imported


def import_measurements(sessions: Sessions, measurements: Sequence[Measurement], *, reference: bool) -> Imported:
    """Store ``measurements`` in one transaction: all of them, or on an error none."""
    first = {(m.source, m.id): m for m in reversed(measurements)}
    stored = [StoredMeasurement(m, m.sent, reference=reference) for m in first.values()]
    with sessions.begin() as session:
        created = insert_many(session, stored)
        known = digests(session, list(first))
    conflicts = [m.id for m in measurements if known[m.source, m.id] != m.digest]
    return Imported(len(created), len(measurements) - len(created) - len(conflicts), conflicts)
