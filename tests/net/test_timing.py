"""The clock of decisions."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from linkwise.net.timing import LOG_SECONDS, LogLimit, SteadyClock, Timing

if TYPE_CHECKING:
    import pytest


def clock_readings(*readings: tuple[float, float]) -> list[float]:
    """What it says as the clock on the wall and the time that passes say these, the first when it is made."""
    days, passings = (iter(column) for column in zip(*readings, strict=True))
    clock = SteadyClock(days.__next__, passings.__next__)
    return [clock() for _ in readings[1:]]


def test_time_goes_on_when_the_clock_is_set_back() -> None:
    assert clock_readings((5000.0, 0.0), (5001.0, 1.0), (1402.0, 2.0), (1412.0, 12.0)) == [5001.0, 5002.0, 5012.0]


def test_a_clock_that_is_set_ahead_is_believed() -> None:
    assert clock_readings((5000.0, 0.0), (8600.0, 1.0), (8601.0, 2.0)) == [8600.0, 8601.0]


def test_a_warning_is_logged_once_a_minute_with_the_number_of_those_left_out(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    limit = LogLimit(logging.getLogger("test"), Timing(clock=lambda: now[0]))
    for seconds in (0.0, 1.0, 2.0, LOG_SECONDS + 1.0, LOG_SECONDS + 2.0):
        now[0] = seconds
        limit.warning("filter", "refused reason=%r", "not now")
        limit.warning(f"at {seconds}", "another subject")
    lines = [record.getMessage() for record in caplog.records if "reason" in record.getMessage()]
    assert lines == ["refused reason='not now'", "refused reason='not now' and 2 more in the last 61 s"]
    assert sum("another subject" in record.getMessage() for record in caplog.records) == 5
