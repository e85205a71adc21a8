"""pytest plugin for safety failures: a device allocated twice, a shared device overcommitted, a grant lost or duplicated.

A second run must not hide them. The plugin keeps their reports in pytest's cache, and a run with --last-failed fails with
these reports before it starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["UnsafeError", "pytest_configure", "pytest_runtest_makereport"]

_REPORTS: Final = "linkwise/unsafe"
_PROPERTY: Final = "unsafe"
"""the property of a test's report: workers of pytest-xdist send it to the process that has the cache"""


class UnsafeError(AssertionError):
    """What must never be was seen once; that it is not seen again proves nothing."""


class _Reports:
    """Reports of safety failures of the whole run, in the process that started it."""

    def __init__(self, config: pytest.Config) -> None:
        self._cache, self._again = config.cache, config.getoption("lf")

    def pytest_sessionstart(self) -> None:
        """End if this run repeats one with a safety failure, else start without reports."""
        found: list[str] = self._cache.get(_REPORTS, [])
        if found and self._again:
            pytest.exit("\n".join(["safety failures are not retried:", *found]), returncode=1)
        self._cache.set(_REPORTS, [])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the reports of a test, from whichever process it ran in."""
        found = [f"{report.nodeid}: {text}" for name, text in report.user_properties if name == _PROPERTY]
        if found and report.failed:
            self._cache.set(_REPORTS, [*self._cache.get(_REPORTS, []), *found])


def pytest_configure(config: pytest.Config) -> None:
    """Collect in the process that started the run, not in its workers."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Reports(config))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Mark the report of a test that failed so."""
    report = yield
    if call.excinfo and isinstance(call.excinfo.value, UnsafeError):
        report.user_properties.append((_PROPERTY, str(call.excinfo.value)))
    return report
