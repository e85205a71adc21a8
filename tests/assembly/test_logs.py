"""What is said in the log."""

from __future__ import annotations

import logging

from linkwise.assembly.logs import lines_for


def test_a_name_with_a_line_break_makes_no_second_line() -> None:
    record = logging.LogRecord("x", logging.INFO, "f", 1, "bind refused node=%s", ("a\nFORGED b\r",), None)
    assert "\n" not in lines_for("json").format(record)
    assert lines_for("text").format(record).endswith("bind refused node=a\\nFORGED b\\r")
