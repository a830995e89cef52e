"""Predictions. No route here touches the database."""

from typing import Annotated

from fastapi import APIRouter, Body, Query

from app.api.dependencies import ChampionDependency
from app.api.examples import BATCH_SPECS, SPEC
from app.api.problems import problem_responses
from app.errors import ColdcastError
from app.prediction.predictor import Predictor
from app.schemas.prediction import Prediction, PredictionBatch, SpecBatch
from app.schemas.problem import Problem, problem_of
from app.schemas.spec import Spec

router = APIRouter(tags=["predictions"])


@router.post("/predict", responses=problem_responses(400, 413, 422, 503))
async def predict(
    spec: Annotated[Spec, Body(openapi_examples=SPEC)],
    champion: ChampionDependency,
    explain: Annotated[bool, Query(description="Add to each part the terms that sum to its seconds.")] = False,
) -> Prediction:
    """Predict how long a startup will take, stage by stage."""
    return champion.predictor().predict(spec, explain=explain)


@router.post("/predict/batch", responses=problem_responses(400, 413, 422, 503))
def predict_batch(
    batch: Annotated[SpecBatch, Body(openapi_examples=BATCH_SPECS)], champion: ChampionDependency
) -> PredictionBatch:
    """Predict many startups at once; an invalid spec carries its problem in its place."""
    predictor = champion.predictor()
    return PredictionBatch(predictions=[_predict_or_problem(spec, predictor) for spec in batch.specs])


def _predict_or_problem(spec: Spec | Problem, predictor: Predictor) -> Prediction | Problem:
    if isinstance(spec, Problem):
        return spec
    try:
        return predictor.predict(spec)
    except ColdcastError as error:
        return problem_of(error)
