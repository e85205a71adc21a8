"""pytest plugin for safety failures: a device allocated twice, a shared device overcommitted, a grant lost or duplicated.

A second run must not hide them. The plugin keeps their reports in pytest's cache, and a run with --last-failed fails with
these reports before it starts.
"""

from __future__ import annotations

from typing import Final

import pytest

__all__ = ["UnsafeError", "pytest_runtest_makereport", "pytest_sessionstart"]

_STORIES: Final = "linkwise/unsafe"


class UnsafeError(AssertionError):
    """What must never be was seen once; that it is not seen again proves nothing."""


def pytest_sessionstart(session: pytest.Session) -> None:
    """End if this run repeats one that was unsafe, else begin with a clean page."""
    cache = session.config.cache
    stories: list[str] = cache.get(_STORIES, [])
    if stories and session.config.getoption("lf"):
        pytest.exit("\n".join(["what failed is no matter of time, and is not tried again:", *stories]), returncode=1)
    cache.set(_STORIES, [])


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Keep the story of a test that failed so."""
    cache = item.config.cache
    if call.excinfo and isinstance(call.excinfo.value, UnsafeError):
        cache.set(_STORIES, [*cache.get(_STORIES, []), f"{item.nodeid}: {call.excinfo.value}"])
