"""Queries on measurements: once each, in pages without gaps, and what a fit reads."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.database.engine import Sessions
from app.database.measurements import (
    AGREEMENT_SHARE,
    PER_GROUP,
    Filters,
    StoredMeasurement,
    digests,
    insert_many,
    insert_measurement,
    list_measurements,
    release_agreed,
    working_set,
)
from app.database.tables import MeasurementRow
from app.errors import Conflict
from app.schemas.measurement import Measurement, Outcome
from app.schemas.records import MeasurementStatus
from tests.concurrency import at_once
from tests.factories import make_measurement, make_model, make_spec, store

QUARANTINED = MeasurementStatus.QUARANTINED


def stored(wire: dict[str, Any]) -> StoredMeasurement:
    measurement = Measurement.model_validate(wire)
    return StoredMeasurement(measurement, measurement.sent)


def pages(session: Session, filters: Filters, limit: int) -> list[str]:
    """Return the ids on all pages, one after the other."""
    ids, cursor = [], None
    while True:
        rows, cursor = list_measurements(session, filters, cursor, limit)
        ids += [row.id for row in rows]
        assert len(rows) == limit or cursor is None
        if cursor is None:
            return ids


def test_the_same_again_changes_nothing(session: Session) -> None:
    wire = make_measurement()
    first, created = insert_measurement(session, stored(wire))
    assert created
    again, created = insert_measurement(session, stored(dict(reversed(wire.items()))))
    assert not created
    assert again.received_at == first.received_at


def test_other_content_is_a_conflict_and_the_first_stays(session: Session) -> None:
    wire = make_measurement(total_seconds=30.0)
    insert_measurement(session, stored(wire))
    with pytest.raises(Conflict):
        insert_measurement(session, stored({**wire, "total_seconds": 31.0}))
    assert insert_measurement(session, stored(wire))[0].total_seconds == 30.0


def test_ids_are_scoped_to_their_reporter(session: Session) -> None:
    wire = make_measurement()
    assert insert_measurement(session, stored({**wire, "source": "a"}))[1]
    assert insert_measurement(session, stored({**wire, "source": "b"}))[1]


def test_batches_in_opposite_order_do_not_deadlock(own_sessions: Sessions) -> None:
    batch = [stored(make_measurement()) for _ in range(2500)]

    def insert(items: list[StoredMeasurement]) -> int:
        with own_sessions.begin() as session:
            return len(insert_many(session, items))

    created = at_once([lambda: insert(batch), lambda: insert(batch[::-1]), lambda: insert(batch)])
    assert sum(created) == len(batch)
    with own_sessions() as session:
        assert len(digests(session, [(s.measurement.source, s.measurement.id) for s in batch])) == len(batch)


def test_the_longest_names_can_be_stored(session: Session) -> None:
    # Every fourth plane's characters take four bytes and do not compress: an index entry holds 2,704 bytes at most.
    text = "".join(chr(0x20000 + (i * 7919) % 40_000) for i in range(1024))
    model = make_model(name=text[:256], revision=text[256:512], dtype=text[512:576], quantization=text[576:640])
    hardware = {"gpu": text[300:556], "cpu": text[600:856], "node": text[700:956]}
    wire = make_measurement(id="x" * 128, source=text[900:964], spec=make_spec(model=model, hardware=hardware))
    assert insert_measurement(session, stored(wire))[1]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=10), inner, max_size=3
        )
    ),
    max_leaves=10,
)


@given(facts=st.dictionaries(st.text(st.characters(codec="ascii", min_codepoint=32), max_size=8), JSON, max_size=4))
def test_what_was_accepted_comes_back_as_it_was(sessions: Sessions, facts: dict[str, Any]) -> None:
    wire = make_measurement(facts=facts, new_field=facts)
    measurement = Measurement.model_validate(wire)
    store(sessions, wire)
    with sessions() as session:
        row = session.scalars(select(MeasurementRow).where(MeasurementRow.id == wire["id"])).one()
    read = Measurement.model_validate(row.content)
    assert read.facts == facts
    assert read.digest == row.digest == measurement.digest


@settings(max_examples=30)
@given(limit=st.integers(1, 9), number=st.integers(0, 20))
def test_pages_have_no_gap_and_no_repeat(sessions: Sessions, limit: int, number: int) -> None:
    name = f"paged/{limit}-{number}"
    filters = Filters(model=name)
    with sessions() as session:
        before = pages(session, filters, limit)
    ids = store(sessions, *(make_measurement(spec=make_spec(model=make_model(name=name))) for _ in range(number)))
    with sessions() as session:
        assert pages(session, filters, limit) == ids[::-1] + before


def test_pages_over_rows_of_one_moment(session: Session) -> None:
    moment = datetime(2026, 11, 1, tzinfo=UTC)
    wires = [make_measurement(id=f"same-{i % 4}", source=f"s{i // 4}") for i in range(12)]
    insert_many(session, [stored(wire) for wire in wires])
    for row in session.scalars(select(MeasurementRow).where(MeasurementRow.source.in_(["s0", "s1", "s2"]))):
        row.received_at = moment
    session.flush()
    for limit in (1, 5, 11, 12, 13):
        found = []
        cursor = None
        while True:
            rows, cursor = list_measurements(session, Filters(), cursor, limit)
            found += [(row.id, row.source) for row in rows if row.received_at == moment]
            if cursor is None or (rows and rows[-1].received_at < moment):
                break
        assert found == sorted(((w["id"], w["source"]) for w in wires), reverse=True)


def test_a_new_row_between_two_pages_moves_nothing(sessions: Sessions) -> None:
    filters = Filters(engine_version="9.9.9")
    spec = make_spec(engine={"version": "9.9.9"})
    ids = store(sessions, *(make_measurement(spec=spec) for _ in range(4)))
    with sessions() as session:
        first, cursor = list_measurements(session, filters, None, 2)
    store(sessions, make_measurement(spec=spec))
    with sessions() as session:
        second, _ = list_measurements(session, filters, cursor, 2)
    assert [row.id for row in [*first, *second]] == ids[::-1]


def test_each_filter(sessions: Sessions) -> None:
    spec = make_spec(model=make_model(name="Filter/Model"), hardware="NVIDIA Filter 9", engine={"version": "8.7.6"})
    (wanted,) = store(sessions, make_measurement(spec=spec, outcome="failed"), status=QUARANTINED)
    with sessions() as session:
        received_at = session.scalar(select(MeasurementRow.received_at).where(MeasurementRow.id == wanted))
        assert received_at is not None
        for filters in [
            Filters(model="filter/MODEL"),
            Filters(gpu="filter 9"),
            Filters(engine_version="8.7.6"),
            Filters(outcome=Outcome.FAILED),
            Filters(status=QUARANTINED),
            Filters(since=received_at),
        ]:
            assert [row.id for row in list_measurements(session, filters, None, 10)[0]] == [wanted], filters
        assert list_measurements(session, Filters(since=received_at + timedelta(seconds=1)), None, 10)[0] == []
        assert list_measurements(session, Filters(model="filter/model", gpu="h100 nvl"), None, 10)[0] == []


def test_a_fit_reads_ready_accepted_measurements_with_the_reference_first(sessions: Sessions) -> None:
    (good,) = store(sessions, make_measurement())
    store(sessions, make_measurement(outcome="failed"), make_measurement(outcome="timed_out"))
    store(sessions, make_measurement(), status=QUARANTINED)
    with sessions() as session:
        rows = working_set(session)
    assert [row.id for row in rows if not row.reference] == [good]
    assert rows[-1].id == good
    assert len(rows) > 500


def test_a_fit_reads_the_newest_of_each_group(sessions: Sessions) -> None:
    wires = [make_measurement() for _ in range(PER_GROUP + 3)]
    other = make_measurement(spec=make_spec(engine={"version": "0.11.0"}))
    with sessions.begin() as session:
        insert_many(session, [stored(wire) for wire in wires])
        insert_many(session, [stored(other)])
        newest = session.scalars(
            select(MeasurementRow.id).where(~MeasurementRow.reference).order_by(MeasurementRow.received_at.desc())
        ).all()
        read = {row.id for row in working_set(session) if not row.reference}
    assert read == set(newest[: PER_GROUP + 1])
    assert other["id"] in read


def test_two_other_reporters_release_a_quarantined_measurement(sessions: Sessions) -> None:
    def on_node(node: str, seconds: float, **others: Any) -> dict[str, Any]:
        spec = make_spec(hardware={"gpu": "NVIDIA H100 NVL", "node": node}, **others)
        return make_measurement(total_seconds=seconds, stages={}, spec=spec)

    def released() -> bool:
        with sessions.begin() as session:
            count = release_agreed(session)
            row = session.scalars(select(MeasurementRow).where(MeasurementRow.id == suspect)).one()
            assert bool(count) == (row.status == "accepted")
            return bool(count)

    (suspect,) = store(sessions, on_node("a", 100.0), status=QUARANTINED)
    assert not released()
    store(sessions, on_node("a", 100.0), on_node("a", 101.0))  # The reporter itself does not count,
    store(sessions, on_node("b", 100.0), on_node("b", 101.0))  # another counts once,
    store(sessions, on_node("c", 100.0 * (1 + AGREEMENT_SHARE) + 1))  # and only where it agrees,
    store(sessions, on_node("d", 100.0, model=make_model(name="other/model")))  # on the same model.
    assert not released()
    store(sessions, on_node("e", 100.0 * (1 + AGREEMENT_SHARE) - 0.1), status=QUARANTINED)
    assert released()
