"""Every route against its own OpenAPI document: generated requests, valid and not, and the answers it promises."""

import schemathesis
from fastapi import FastAPI
from hypothesis import Phase, settings
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from app.main import create_app
from app.settings import Settings

# Only its document is read, so no database needs to answer.
schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(Settings(database_url="postgresql://nowhere/")))


@schema.parametrize()
@settings(max_examples=25, phases=[Phase.explicit, Phase.generate])
def test_answers_are_as_documented(app: FastAPI, case: schemathesis.Case) -> None:
    if case.path == "/refits":  # Nobody refits here: waiting would only pass the time.
        case.query = {**(case.query or {}), "wait_seconds": 0}
    # What fits the schema may still name what nobody knows; in a batch each invalid item is answered in its place.
    excluded = [positive_data_acceptance]
    if case.path.endswith("/batch") or case.path == "/refits":
        excluded.append(negative_data_rejection)
    case.call_and_validate(app=app, excluded_checks=excluded, timeout=120)  # A batch over the limit is megabytes.
