"""Importing: the shipped reference set, once, and a release's corrections."""

from sqlalchemy import func, select, update

from app.database.engine import Sessions
from app.database.tables import MeasurementRow
from app.importing import import_measurements, import_reference
from app.reference import load_reference
from app.schemas.measurement import Measurement
from tests.factories import make_measurement, store


def reference_rows(sessions: Sessions) -> int:
    with sessions() as session:
        return session.scalar(select(func.count()).where(MeasurementRow.reference)) or 0


def test_the_reference_set_is_imported_once(sessions: Sessions) -> None:
    imported = import_reference(sessions)
    assert (imported.created, imported.unchanged) == (0, len(load_reference()))
    assert list(imported.conflicts) == []
    assert reference_rows(sessions) == len(load_reference())


def test_what_a_release_no_longer_ships_goes(sessions: Sessions) -> None:
    own = store(sessions, make_measurement(), make_measurement())
    with sessions.begin() as session:
        session.execute(update(MeasurementRow).where(MeasurementRow.id == own[0]).values(reference=True))
    import_reference(sessions)
    assert reference_rows(sessions) == len(load_reference())
    with sessions() as session:
        assert session.scalars(select(MeasurementRow.id).where(MeasurementRow.id.in_(own))).all() == [own[1]]


def test_conflicts_are_told_and_the_rest_is_stored(sessions: Sessions) -> None:
    first, second = make_measurement(), make_measurement()
    store(sessions, first)
    wires = [{**first, "total_seconds": 31.0}, second, second, {**second, "total_seconds": 99.0}]
    imported = import_measurements(sessions, [Measurement.model_validate(w) for w in wires], reference=False)
    assert (imported.created, imported.unchanged) == (1, 1)
    assert list(imported.conflicts) == [first["id"], second["id"]]
