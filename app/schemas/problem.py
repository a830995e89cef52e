"""Problems: what every error looks like on the wire (RFC 9457), and how pydantic's errors become one."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from app.errors import ColdcastError, FieldError, InvalidInput

__all__ = ["PROBLEM_TYPE_PREFIX", "FieldProblem", "OrProblem", "Problem", "invalid_input", "problem_of"]

PROBLEM_TYPE_PREFIX = "urn:coldcast:problem:"
_MAX_FIELDS = 50  # A body of ten thousand mistakes needs no list of all of them.
_MAX_STEP = 256
_ADVICE = {
    "missing": "is required",
    "extra_forbidden": "is not a field that this version knows: check its spelling or leave it out",
    "finite_number": "must be a finite number",
    "string_unicode": "must be valid Unicode",
    "model_attributes_type": "must be a JSON object, sent with content type application/json",
}


class FieldProblem(BaseModel):
    """One field at fault."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    pointer: str
    """JSON pointer (RFC 6901) to the field, from the root of the body."""
    detail: str
    """What is wrong with it, and what to send instead."""


class Problem(BaseModel):
    """An error, as RFC 9457 lays it down."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    type: str = Field(examples=["urn:coldcast:problem:invalid-input"])
    """Stable name of the kind of problem."""
    title: str
    """The kind of problem in words."""
    status: int
    """HTTP status."""
    detail: str
    """What went wrong here and what to do."""
    errors: list[FieldProblem] = []
    """The fields at fault."""
    candidates: list[str] = []
    """The names that an ambiguous one could mean."""

    _item_id: str | None = PrivateAttr(None)

    @property
    def item_id(self) -> str | None:
        """The id of the item of a batch that this problem stands for, where it has a readable one."""
        return self._item_id


def problem_of(error: ColdcastError) -> Problem:
    """Return the problem that says ``error`` on the wire."""
    return Problem(
        type=PROBLEM_TYPE_PREFIX + error.type,
        title=error.title,
        status=error.status,
        detail=error.detail,
        errors=[FieldProblem(pointer=e.pointer, detail=e.detail) for e in error.errors],
        candidates=list(error.candidates),
    )


def invalid_input(errors: ValidationError | Sequence[Mapping[str, Any]]) -> InvalidInput:
    """Turn pydantic's errors into one that names each field and what to do about it."""
    rows = errors.errors(include_url=False, include_input=False) if isinstance(errors, ValidationError) else errors
    fields = [FieldError(_pointer(row), _advice(row)) for row in rows[:_MAX_FIELDS]]
    first = "; ".join(f"{f.pointer or 'the body'} {f.detail}" for f in fields[:3])
    more = f" (and {len(rows) - 3} more)" if len(rows) > 3 else ""
    return InvalidInput(f"Correct and send again: {first}{more}.", errors=fields)


def _pointer(row: Mapping[str, Any]) -> str:
    location = [*row["loc"], *row.get("ctx", {}).get("path", ())]
    return "".join(f"/{_step(step)}" for step in location)


def _step(step: str | int) -> str:
    """Escape a step of a pointer; it is the sender's, so it may be of any length and hold lone surrogates."""
    text = str(step)[:_MAX_STEP].encode(errors="backslashreplace").decode()
    return text.replace("~", "~0").replace("/", "~1")


def _advice(row: Mapping[str, Any]) -> str:
    message: str = row["msg"].removeprefix("Value error, ")
    return _ADVICE.get(row["type"], message[:1].lower() + message[1:])


def _keep_problem(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    try:
        return handler(value)
    except ValidationError as error:
        problem = problem_of(invalid_input(error))
        if isinstance(value, dict) and isinstance(item_id := value.get("id"), str) and item_id.isprintable():
            problem._item_id = item_id[:128]
        return problem


Item = TypeVar("Item")
OrProblem = Annotated[Item, WrapValidator(_keep_problem)]
"""An item of a batch that stands alone: validation leaves its Problem in its place instead of failing the batch."""
