"""Log format: one line per record, as key=value text or as JSON."""

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
        """Escape line breaks, so that names sent by callers can't forge log lines."""
        return super().formatMessage(record).replace("\r", "\\r").replace("\n", "\\n")


class _Json(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def lines_for(kind: Literal["text", "json"]) -> logging.Formatter:
    """The formatter of a log format."""
    return _Json() if kind == "json" else _Lines("%(asctime)s %(levelname)s %(name)s %(message)s")


def start_logging(settings: LogSettings) -> None:
    """Log to standard error."""
    # No line names a thread, a process or a source line: finding those would take half the time of a record.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # noqa: SLF001 - as Python's logging documentation recommends
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(lines_for(settings.format))
    logging.basicConfig(level=settings.level.upper(), handlers=[handler], force=True)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
