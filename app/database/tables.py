"""The tables. Enums are stored as text with a check, so that adding a value needs no type change."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    Float,
    ForeignKey,
    Identity,
    Index,
    MetaData,
    Text,
    func,
)
from sqlalchemy.dialects.postgresql import JSON, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from app.schemas.fits import FitStatus, RefitOutcome
from app.schemas.measurement import Outcome
from app.schemas.records import MeasurementStatus

__all__ = ["Base", "ChampionRow", "FitRow", "LeaseRow", "MeasurementRow", "RefitRow"]


class Base(DeclarativeBase):
    """The metadata, with one naming convention so that migrations can name what they change."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_N_label)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy reads it from the class)
        datetime: DateTime(timezone=True),
        dict[str, Any]: JSONB,
        list[dict[str, Any]]: JSONB,
        float: Float,
        str: Text,
    }


def _one_of(column: str, values: type[StrEnum]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({', '.join(repr(str(v.value)) for v in values)})", name=f"{column}_known")


class MeasurementRow(Base):
    """One measurement, as reported, and what the champion predicted for it before it was stored."""

    __tablename__ = "measurements"
    __table_args__ = (
        _one_of("outcome", Outcome),
        _one_of("status", MeasurementStatus),
        Index("ix_measurements_received_at_id_source", "received_at", "id", "source"),
        Index("ix_measurements_model_key", "model_key"),  # More would not fit an entry's 2,704 bytes.
    )

    source: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str]
    received_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    started_at: Mapped[datetime]
    outcome: Mapped[str]
    status: Mapped[str]
    status_reason: Mapped[str | None]
    total_seconds: Mapped[float]
    reference: Mapped[bool]
    reporter: Mapped[str]
    model_key: Mapped[str]
    gpu_key: Mapped[str]
    hardware_key: Mapped[str]
    engine_version: Mapped[str | None]
    engine_minor: Mapped[str]
    content: Mapped[dict[str, Any]] = mapped_column(JSON)  # As text: JSONB would rewrite numbers and order.
    prediction: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))  # Not a JSON null.


class FitRow(Base):
    """What one refit learned; never changed once it is published."""

    __tablename__ = "fits"
    __table_args__ = (_one_of("status", FitStatus),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    fitted_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    status: Mapped[str]
    reason: Mapped[str]
    fingerprint: Mapped[str]
    measurements: Mapped[int]
    content: Mapped[dict[str, Any]] = mapped_column(JSON)
    scores: Mapped[dict[str, Any]]
    left_out: Mapped[list[dict[str, Any]]]


class ChampionRow(Base):
    """Which fit answers now: one row."""

    __tablename__ = "champion"
    __table_args__ = (CheckConstraint("one", name="one_row"),)

    one: Mapped[bool] = mapped_column(primary_key=True, default=True)
    fit_id: Mapped[int] = mapped_column(BigInteger, ForeignKey("fits.id"))
    pinned: Mapped[bool]
    changed_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class LeaseRow(Base):
    """Who may refit, and until when."""

    __tablename__ = "leases"

    name: Mapped[str] = mapped_column(primary_key=True)
    holder: Mapped[str]
    expires_at: Mapped[datetime]


class RefitRow(Base):
    """A refit that somebody asked for, and what came of it."""

    __tablename__ = "refits"
    __table_args__ = (_one_of("outcome", RefitOutcome),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    requested_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    finished_at: Mapped[datetime | None]
    outcome: Mapped[str | None]
    reason: Mapped[str | None]
    fit_id: Mapped[int | None] = mapped_column(BigInteger, ForeignKey("fits.id"))
