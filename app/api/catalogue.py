"""What is known: models, hardware, stages."""

from fastapi import APIRouter

from app.api.dependencies import SessionDependency
from app.api.problems import problem_responses
from app.database import catalogue as queries
from app.schemas.records import HardwareList, ModelList, StageInfo, StageList
from app.stages import PARTS_OF, STAGES, Stage

router = APIRouter(tags=["catalogue"])

_DESCRIPTIONS = {
    Stage.FRAMEWORK_BOOTSTRAP: "Imports, platform, model inspection, starting workers: CPU, processes in series.",
    Stage.TOKENIZER_INIT: "Loading the tokenizer: its bytes, CPU.",
    Stage.MODEL_LOADING: "Building the model and reading its weights: bytes over the bandwidth of where they lie.",
    Stage.TORCH_COMPILE: "Dynamo and Inductor, or loading the compiled graph: layers, graph bytes, cache state, CPU.",
    Stage.KV_CACHE_PROFILING: "The profiling run, without compilation: weight bytes, batched tokens, GPU.",
    Stage.CUDA_GRAPH_CAPTURE: "Capturing CUDA graphs: graphs, layers, weight bytes, GPU.",
    Stage.OTHER: "The rest, so that the seven sum to the total: KV allocation, kernel warm-up, server start.",
}


@router.get("/models", responses=problem_responses(503))
def list_models(session: SessionDependency) -> ModelList:
    """List the models that have been measured; a prediction needs no more than their name."""
    return queries.known_models(session)


@router.get("/hardware", responses=problem_responses(503))
def list_hardware(session: SessionDependency) -> HardwareList:
    """List the hardware that has been measured."""
    return queries.known_hardware(session)


@router.get("/stages")
async def list_stages() -> StageList:
    """List the seven stages in the order in which they happen, with their parts."""
    return StageList(
        stages=[
            StageInfo(stage=stage, parts=list(PARTS_OF[stage]), description=_DESCRIPTIONS[stage]) for stage in STAGES
        ]
    )
