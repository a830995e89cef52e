"""Every error that Coldcast raises on purpose, as one tree.

ColdcastError
  InvalidBody              400  the body is no JSON
  InvalidInput             422  a field is missing, malformed or out of range
  UnknownModel             422  a model that nobody has measured, without the facts to predict it from
  AmbiguousHardware        422  a hardware name that fits several kinds
  NotFound                 404  nothing has this id
  Conflict                 409  the id is taken by other content
  BodyTooLarge             413  the body is over the limit of its route
  NotReady                 503  no champion is loaded yet
  DatabaseUnavailable      503  Postgres does not answer
  UnknownFitFormat         500  a stored fit of a format version that this program does not know
  SettingsError            -    the environment holds a value that cannot be used
  DataDirectoryBusy        -    another service holds the data directory

Each class carries its HTTP status, a stable problem type and a default sentence; an instance may carry the fields that
are at fault. ``app.api.problems`` turns any of them into ``application/problem+json``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

__all__ = [
    "AmbiguousHardware",
    "BodyTooLarge",
    "ColdcastError",
    "Conflict",
    "DataDirectoryBusy",
    "DatabaseUnavailable",
    "FieldError",
    "InvalidBody",
    "InvalidInput",
    "NotFound",
    "NotReady",
    "SettingsError",
    "UnknownFitFormat",
    "UnknownModel",
]


@dataclass(frozen=True)
class FieldError:
    """One field at fault: a JSON pointer (RFC 6901) into the body, and what to do about it."""

    pointer: str
    detail: str


@dataclass
class ColdcastError(Exception):
    """Something went wrong; the message says what to do."""

    detail: str = ""
    errors: Sequence[FieldError] = field(default_factory=tuple)
    candidates: Sequence[str] = field(default_factory=tuple)

    status: ClassVar[int] = 500
    type: ClassVar[str] = "internal-error"
    title: ClassVar[str] = "The service failed"

    def __post_init__(self) -> None:
        self.detail = self.detail or (type(self).__doc__ or "")
        super().__init__(self.detail)

    def __str__(self) -> str:
        return self.detail


class InvalidBody(ColdcastError):
    """The body is not JSON: send a JSON object with content type application/json."""

    status = 400
    type = "invalid-body"
    title = "The body is not JSON"


class InvalidInput(ColdcastError):
    """The request is not valid: correct the fields listed under errors."""

    status = 422
    type = "invalid-input"
    title = "The request is not valid"


class UnknownModel(ColdcastError):
    """Nobody has measured this model: send its facts (weight_bytes and num_layers at least) or its config."""

    status = 422
    type = "unknown-model"
    title = "The model is not known"


class AmbiguousHardware(ColdcastError):
    """The hardware name fits several kinds: send one of the candidates."""

    status = 422
    type = "ambiguous-hardware"
    title = "The hardware name fits several kinds"


class NotFound(ColdcastError):
    """Nothing has this id: list the collection to see what is there."""

    status = 404
    type = "not-found"
    title = "Not found"


class Conflict(ColdcastError):
    """The id is taken by a measurement with other content: choose a new id for a new startup."""

    status = 409
    type = "conflict"
    title = "The id is taken"


class BodyTooLarge(ColdcastError):
    """The body is over this route's limit: send less, or split it into several requests."""

    status = 413
    type = "body-too-large"
    title = "The body is too large"


class NotReady(ColdcastError):
    """No fit is loaded yet: run `coldcast migrate`, which imports the reference measurements and fits them."""

    status = 503
    type = "not-ready"
    title = "No fit is loaded"


class DatabaseUnavailable(ColdcastError):
    """The database does not answer: try again in a few seconds; predictions go on meanwhile."""

    status = 503
    type = "database-unavailable"
    title = "The database does not answer"


class UnknownFitFormat(ColdcastError):
    """The stored fit has a format version that this program does not know: refit, or run the version that made it."""

    type = "unknown-fit-format"
    title = "The stored fit cannot be read"


class SettingsError(ColdcastError):
    """The environment holds a value that cannot be used."""


class DataDirectoryBusy(ColdcastError):
    """Another service holds this data directory: stop it, or set COLDCAST_DATA_DIR to another folder."""
