from typing import Any

import pytest

from app.prediction.fit import fit
from app.prediction.observation import Observation
from app.prediction.predictor import Predictor
from app.schemas.measurement import Measurement
from app.stages import SIX_STAGES, Stage
from tests.prediction.startups import NODE, STAGE_SECONDS, TOTAL_SECONDS, node, spec


def measured(*, total_seconds: float = TOTAL_SECONDS, **facts: Any) -> Measurement:
    return Measurement.model_validate(
        {
            "id": "a",
            "started_at": "2026-01-01T00:00:00Z",
            "outcome": "ready",
            "total_seconds": total_seconds,
            "stages": {stage.value: seconds for stage, seconds in STAGE_SECONDS.items()},
            "spec": spec(hardware={**NODE, "node": "published"}).model_dump(mode="json"),
            "facts": facts,
        }
    )


@pytest.mark.parametrize(
    ("facts", "total", "tells_of_other"),
    [
        ({}, TOTAL_SECONDS, True),
        ({"aggregate": "mean of five runs"}, None, False),
        ({"stamps": "whole seconds"}, TOTAL_SECONDS, False),
    ],
)
def test_what_the_reference_did_not_clock_is_not_learned(
    facts: dict[str, str], total: float | None, tells_of_other: bool
) -> None:
    learned = Observation.of(measured(**facts), reference=True)
    assert learned.total_seconds == total
    assert (Stage.OTHER in learned.stages) is tells_of_other
    assert set(learned.stages) >= set(SIX_STAGES)


def test_an_agent_s_measurement_counts_whole_whatever_its_facts() -> None:
    assert Observation.of(measured(aggregate="mean of five runs")) == Observation.of(measured())


def test_a_rebuilt_total_makes_no_prediction_shorter() -> None:
    rebuilt = measured(total_seconds=sum(STAGE_SECONDS.values()), aggregate="mean of five runs")
    told = [*node(1.0, of=spec()), Observation.of(rebuilt, reference=True)]
    answer = Predictor(fit(told)).predict(rebuilt.spec)
    assert answer.stages[-1].seconds == pytest.approx(TOTAL_SECONDS - sum(STAGE_SECONDS.values()), rel=0.1)
