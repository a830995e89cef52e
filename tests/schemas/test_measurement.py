"""The measurement: its stages, its digest, what it refuses."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.schemas.measurement import Measurement, MeasurementBatch, canonical_digest
from app.schemas.problem import Problem
from app.stages import PARTS_OF, SIX_STAGES, Part, Stage
from tests.factories import SIX, make_measurement

seconds = st.floats(0, 1000)


@given(stages=st.fixed_dictionaries({stage.value: seconds for stage in SIX_STAGES}), rest=seconds)
def test_seven_stages_sum_to_the_total(stages: dict[str, float], rest: float) -> None:
    total = sum(stages.values()) + rest
    measurement = Measurement.model_validate(make_measurement(total_seconds=total, stages=stages))
    assert list(measurement.stage_seconds) == list(Stage)
    assert sum(measurement.stage_seconds.values()) == pytest.approx(total)


@given(stages=st.dictionaries(st.sampled_from([s.value for s in SIX_STAGES]), seconds, max_size=5))
def test_other_is_derived_only_where_all_six_are_there(stages: dict[str, float]) -> None:
    measurement = Measurement.model_validate(make_measurement(total_seconds=6000, stages=stages))
    assert {stage.value: s for stage, s in measurement.stage_seconds.items()} == stages


@given(
    stages=st.dictionaries(st.sampled_from([s.value for s in SIX_STAGES]), st.floats(0, 100)),
    total=st.floats(0, 600),
)
def test_a_sum_is_refused_exactly_above_the_slack(stages: dict[str, float], total: float) -> None:
    wire = make_measurement(total_seconds=total, stages=stages)
    excess = sum(stages.values()) - total - max(0.5, 0.01 * total)
    if excess > 1e-6:
        with pytest.raises(ValidationError, match="the stages sum to"):
            Measurement.model_validate(wire)
    elif excess < -1e-6:
        Measurement.model_validate(wire)


def test_stages_and_parts_have_a_field_each() -> None:
    everything = {part.value: 1.0 for part in Part}
    measurement = Measurement.model_validate(make_measurement(total_seconds=100, stages={}, parts=everything))
    assert set(measurement.part_seconds) == set(Part)
    assert {part for parts in PARTS_OF.values() for part in parts} == set(Part)


def test_unaccounted_never_makes_a_sum_too_large() -> None:
    Measurement.model_validate(make_measurement(total_seconds=27.0, parts={"unaccounted": 20.0}))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=5))
def test_the_digest_is_of_the_content_alone(data: dict[str, Any]) -> None:
    digest = canonical_digest(data)
    assert canonical_digest(dict(reversed(data.items()))) == digest
    assert canonical_digest(json.loads(json.dumps(data))) == digest
    assert canonical_digest({**data, "one more field": 1}) != digest
    assert len(digest) == 64


def test_whole_floats_and_integers_have_one_digest() -> None:
    assert canonical_digest({"a": 30, "b": [1.0, -0.0]}) == canonical_digest({"a": 30.0, "b": [1, 0]})
    assert canonical_digest({"a": 30}) != canonical_digest({"a": "30"})
    assert canonical_digest({"a": 1}) != canonical_digest({"a": True})
    assert canonical_digest({"a": None}) != canonical_digest({})


def test_unknown_fields_by_their_path() -> None:
    wire = make_measurement(stages={**SIX, "x": 1}, parts={"y": 2}, z={"deep": 3})
    wire["spec"]["model"]["new"] = None
    unknown = Measurement.model_validate(wire).unknown_fields()
    assert unknown == {"z": {"deep": 3}, "stages.x": 1, "parts.y": 2, "spec.model.new": None}


def test_each_item_of_a_batch_stands_alone() -> None:
    good = make_measurement()
    bad = [{"id": "kept"}, {"id": "a\x00"}, {"id": "x" * 200}, 7, None, {"id": 7}]
    items = MeasurementBatch.model_validate({"measurements": [good, *bad]}).measurements
    assert isinstance(items[0], Measurement)
    problems = [item for item in items if isinstance(item, Problem)]
    assert [problem.item_id for problem in problems] == ["kept", None, "x" * 128, None, None, None]
    assert all(problem.status == 422 for problem in problems)
