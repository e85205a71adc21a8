"""One line a decision: key=value for people, or an object a line for programs."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from linkwise.config.settings import LogSettings

__all__ = ["lines_for", "start_logging"]


class _Lines(logging.Formatter):
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - logging's name
        del datefmt
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """On one line, whatever names callers send."""
        return super().formatMessage(record).replace("\r", "\\r").replace("\n", "\\n")


class _Json(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told)


def lines_for(kind: Literal["text", "json"]) -> logging.Formatter:
    """How a record is put."""
    return _Json() if kind == "json" else _Lines("%(asctime)s %(levelname)s %(name)s %(message)s")


def start_logging(settings: LogSettings) -> None:
    """Send what is said to standard error, and nothing else there."""
    # Nothing that is printed tells threads, processes or lines of code: looking for them takes half the time of a line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # noqa: SLF001 - the way that Python's own documentation names
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(lines_for(settings.format))
    logging.basicConfig(level=settings.level.upper(), handlers=[handler], force=True)
    for chatty in ("asyncio", "uvicorn"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
