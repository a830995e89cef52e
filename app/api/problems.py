"""Every error becomes application/problem+json, in one place."""

from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from psycopg import Error as PsycopgError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from app.database.engine import database_errors
from app.errors import ColdcastError, DatabaseUnavailable, InvalidBody
from app.schemas.problem import PROBLEM_TYPE_PREFIX, Problem, invalid_input, problem_of

__all__ = ["add_problem_handlers", "problem_response", "problem_responses"]

log = structlog.get_logger()

_ADVICE = {
    404: "There is no such route: /docs lists them.",
    405: "This route does not take this method: /docs lists them.",
    415: "Send the body with content type application/json.",
}
_SCHEMA = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_DESCRIPTIONS = {
    400: "The body is no JSON.",
    404: "Nothing has this id.",
    409: "The id is taken by other content.",
    413: "The body is over the limit.",
    422: "Something in the request is not valid or names what nobody knows; `errors` says which field and what to do.",
    503: "The database does not answer, or no fit is loaded yet; `Retry-After` says when to try again.",
}


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of a route's problems; any other error is a problem too."""
    documented: dict[int | str, dict[str, Any]] = {
        status: {"description": _DESCRIPTIONS[status], "content": _SCHEMA} for status in statuses
    }
    return documented | {"default": {"description": "Any other problem.", "content": _SCHEMA}}


def problem_response(error: ColdcastError) -> Response:
    """Return the response that says ``error``."""
    headers = {"Retry-After": "5"} if error.status == 503 else None
    return _response(problem_of(error), headers)


def _response(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    content = problem.model_dump_json(exclude_defaults=True)
    return Response(content, problem.status, headers, media_type="application/problem+json")


def add_problem_handlers(app: FastAPI) -> None:
    """Answer every exception with a problem; only defects are logged with their trace, none shows it."""
    app.add_exception_handler(ColdcastError, _on_coldcast_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(SQLAlchemyError, _on_database_error)
    app.add_exception_handler(PsycopgError, _on_database_error)
    app.add_exception_handler(Exception, _on_defect)


def _on_coldcast_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ColdcastError)  # noqa: S101 (Starlette types handlers by Exception)
    return problem_response(error)


def _on_validation_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    rows = error.errors()
    if any(row["type"] == "json_invalid" for row in rows):
        return problem_response(InvalidBody(f"The body is not JSON: {rows[0]['ctx']['error']}."))
    in_body = [{**row, "loc": row["loc"][1:] if row["loc"][:1] == ("body",) else row["loc"]} for row in rows]
    return problem_response(invalid_input(in_body))


def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    if error.status_code == 400:
        return problem_response(InvalidBody("The body cannot be read as JSON: it is cut off or nested too deep."))
    detail = _ADVICE.get(error.status_code, str(error.detail))
    kind = PROBLEM_TYPE_PREFIX + f"http-{error.status_code}"
    problem = Problem(type=kind, title=str(error.detail), status=error.status_code, detail=detail)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_methods(request))
    return _response(problem, headers)


def _methods(request: Request) -> list[str]:
    """Return the methods of all routes with this path: Starlette names those of the first one only."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    return sorted(
        {m for route in routes if route.matches(request.scope)[0] is not Match.NONE for m in route.methods or ()}
    )


def _on_database_error(request: Request, error: Exception) -> Response:
    try:
        with database_errors():
            raise error
    except DatabaseUnavailable as unavailable:
        log.warning("database_unavailable", path=request.url.path, error=str(error))
        return problem_response(unavailable)
    except (SQLAlchemyError, PsycopgError):
        return _on_defect(request, error)


def _on_defect(request: Request, error: Exception) -> Response:
    log.error("defect", path=request.url.path, exc_info=error)
    detail = "The service failed; nothing was stored. The log of the service has the details."
    return problem_response(ColdcastError(detail))
