"""Metrics in Prometheus' format."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from app.champion import Champion
from app.database.catalogue import predicted_measurements
from app.database.engine import Sessions, database_errors
from app.errors import DatabaseUnavailable
from app.live import live_errors
from app.schemas.fits import LiveError

__all__ = ["make_registry"]

LIVE_SECONDS = 60.0  # Live error reads thousands of rows: often enough for an alert, rare enough for a scrape.


def make_registry(champion: Champion, sessions: Sessions) -> CollectorRegistry:
    """Return a registry with the champion's age and how its predictions fare; request metrics join it."""
    registry = CollectorRegistry()
    registry.register(_ChampionCollector(champion, sessions))
    return registry


class _ChampionCollector(Collector):
    def __init__(self, champion: Champion, sessions: Sessions) -> None:
        self._champion, self._sessions = champion, sessions
        self._live: list[LiveError] = []
        self._live_at = float("-inf")

    def describe(self) -> Iterator[Metric]:
        """Name no metric beforehand, so that registering asks no database."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield the champion's number and age, the database's state, and the live error."""
        yield GaugeMetricFamily("coldcast_fit_id", "The fit that answers.", self._champion.fit_id or 0)
        if fitted_at := self._champion.fitted_at:
            age = (datetime.now(UTC) - fitted_at).total_seconds()
            yield GaugeMetricFamily("coldcast_fit_age_seconds", "Age of the fit that answers.", age)
        self._refresh_live()
        reachable = float(self._champion.database_ok)
        yield GaugeMetricFamily("coldcast_database_reachable", "Whether Postgres answered last.", reachable)
        yield from _live_metrics(self._live)

    def _refresh_live(self) -> None:
        if time.monotonic() - self._live_at < LIVE_SECONDS:
            return
        self._live_at = time.monotonic()
        try:
            with database_errors(), self._sessions() as session:
                self._live = live_errors(predicted_measurements(session))
        except DatabaseUnavailable:  # The last figures stand; coldcast_database_reachable tells.
            self._champion.database_ok = False


def _live_metrics(live: list[LiveError]) -> Iterator[Metric]:
    labels = ["gpu", "engine_version", "stage"]
    error = GaugeMetricFamily("coldcast_live_error_ratio", "Mean absolute error over measured.", labels=labels)
    bias = GaugeMetricFamily("coldcast_live_bias_seconds", "Mean of predicted - measured.", labels=labels)
    coverage = GaugeMetricFamily("coldcast_live_coverage_ratio", "Share inside the 90 % bounds.", labels=labels)
    drifting = GaugeMetricFamily("coldcast_drifting", "1 where coverage is too low to be chance.", labels=labels)
    for row in live:
        values = [row.gpu, row.engine_version, row.stage or "total"]
        if row.mean_absolute_percentage_error is not None:
            error.add_metric(values, row.mean_absolute_percentage_error)
        bias.add_metric(values, row.bias_seconds)
        coverage.add_metric(values, row.coverage)
        drifting.add_metric(values, float(row.drifting))
    yield from (error, bias, coverage, drifting)
