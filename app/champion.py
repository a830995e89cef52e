"""The champion in memory: what `/predict` answers from without asking the database."""

from dataclasses import dataclass
from datetime import datetime

import structlog
from sqlalchemy.orm import Session

from app.database import fits
from app.database.engine import Sessions, database_errors
from app.errors import DatabaseUnavailable, NotReady, UnknownFitFormat
from app.prediction.fit import Fit
from app.prediction.predictor import Predictor

__all__ = ["Champion"]

log = structlog.get_logger()


@dataclass
class Champion:
    """Holds the predictor that answers now; :meth:`reload` swaps it in one assignment, so readers need no lock."""

    sessions: Sessions
    database_ok: bool = False
    _fit_id: int | None = None
    _fitted_at: datetime | None = None
    _predictor: Predictor | None = None

    @property
    def fit_id(self) -> int | None:
        """The fit that answers now, or None before the first."""
        return self._fit_id

    @property
    def fitted_at(self) -> datetime | None:
        """When the fit that answers now was made, or None before the first."""
        return self._fitted_at

    @property
    def loaded(self) -> bool:
        """Whether a fit answers."""
        return self._predictor is not None

    def predictor(self) -> Predictor:
        """Return the predictor that answers now.

        Raises:
            NotReady: no fit is loaded yet.
        """
        if self._predictor is None:
            raise NotReady
        return self._predictor

    def reload(self) -> None:
        """Load the champion if it has changed; on any failure keep the one that answers and say so in the log."""
        try:
            with database_errors(), self.sessions() as session:
                self._swap(session)
            self.database_ok = True
        except DatabaseUnavailable as error:
            self.database_ok = False
            log.warning("database_unavailable", error=str(error.__cause__))
        except UnknownFitFormat as error:
            log.error("champion_unreadable", error=str(error))

    def _swap(self, session: Session) -> None:
        newest = fits.champion_id(session)
        if newest is None or newest == self._fit_id:
            return
        row = fits.find_fit(session, newest)
        self._predictor = Predictor(Fit.from_json(row.content), fit_id=row.id, fitted_at=row.fitted_at)
        self._fit_id, self._fitted_at = row.id, row.fitted_at
        log.info("champion_loaded", fit_id=row.id)
