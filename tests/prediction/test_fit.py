import json
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import InvalidInput, UnknownFitFormat
from app.prediction.fit import Fit, fit
from app.prediction.observation import Observation
from app.prediction.predictor import Predictor
from app.schemas.spec import Spec
from app.stages import PARTS_OF, STAGES, Part
from tests.prediction.startups import node, spec, startup


def test_a_fit_survives_its_round_trip_bit_for_bit(reference_fit: Fit) -> None:
    text = json.dumps(reference_fit.to_json(), allow_nan=False)
    again = Fit.from_json(json.loads(text))
    assert json.dumps(again.to_json()) == text
    assert again == reference_fit


def test_another_format_is_refused(reference_fit: Fit) -> None:
    with pytest.raises(UnknownFitFormat):
        Fit.from_json({**reference_fit.to_json(), "format_version": 999})
    with pytest.raises(UnknownFitFormat):
        Fit.from_json({})


def test_order_is_of_no_matter(reference: list[Observation]) -> None:
    some = [*reference[::9], *node(2.0, of=spec(), count=6)]
    shuffled = random.Random(3).sample(some, len(some))
    assert fit(some).to_json() == fit(shuffled).to_json()


def test_nothing_to_fit_is_an_error() -> None:
    with pytest.raises(InvalidInput):
        fit([])
    with pytest.raises(InvalidInput):
        fit([startup("a", of=spec(), total_seconds=math.nan)])


def test_the_same_data_need_no_second_fit() -> None:
    own = node(1.0, of=spec(), count=5)
    first = fit(own)
    assert fit(list(reversed(own)), previous=first) is first
    assert fit(own[:-1], previous=first) is not first


def test_one_observation_is_enough() -> None:
    only = startup("a", of=spec())
    answer = Predictor(fit([only])).predict(only.spec)
    assert answer.total.seconds == pytest.approx(only.total_seconds, rel=0.1)


seconds = st.one_of(st.just(0.0), st.floats(0, 86400), st.floats(0, 1))


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    stages = {stage: s for stage in STAGES if (s := draw(st.one_of(st.none(), seconds))) is not None}
    inner = {part: draw(seconds) for stage in STAGES for part in PARTS_OF[stage] if draw(st.integers(0, 3)) == 0}
    model = draw(st.sampled_from([{"name": "a"}, {"name": "b", "weight_bytes": 0}, {"name": "c", "num_layers": 0}]))
    cache = draw(st.sampled_from([{}, {"weights": "disk"}, {"weights": "gpu", "compile": "cold"}]))
    engine = draw(st.sampled_from([{}, {"enforce_eager": True}, {"version": "0.24.0", "tensor_parallel_size": 8}]))
    of = spec(model, draw(st.sampled_from(["X 1", "Y 2"])), cache=cache, engine=engine)
    return Observation(draw(st.sampled_from("pqr")), of, draw(seconds), stages, inner, draw(st.booleans()))


@settings(max_examples=12, deadline=None)
@given(rows=st.lists(observations(), min_size=1, max_size=8))
def test_weird_values_never_break_a_fit(rows: list[Observation]) -> None:
    made = fit(rows)
    json.dumps(made.to_json(), allow_nan=False)
    for row in rows:
        total = Predictor(made).predict(row.spec).total
        assert 0 <= total.lower_seconds <= total.seconds <= total.upper_seconds < math.inf


def test_wild_values_are_listed(reference: list[Observation]) -> None:
    own = node(1.0, of=spec(), count=10)
    wild = startup("agent/wild", of=spec(), total_seconds=260.0, stages={s: 10 * t for s, t in own[0].stages.items()})
    listed = [row for row in fit([*own, wild]).left_out if row["key"] == "agent/wild"]
    assert {row["part"] for row in listed} & {Part.CUDA_GRAPH_CAPTURE, Part.TOKENIZER_INIT, Part.KV_CACHE_PROFILING}


def test_totals_alone_can_be_fitted() -> None:
    asked = Spec.of({"name": "m", "weight_bytes": 10**10, "num_layers": 32}, {"gpu": "X9"})
    rows = [Observation(key=str(i), spec=asked, total_seconds=50.0 + i) for i in range(3)]
    answer = Predictor(fit(rows)).predict(Spec.of("m", "X9"))
    assert answer.total.seconds == pytest.approx(51.0, rel=0.05)
