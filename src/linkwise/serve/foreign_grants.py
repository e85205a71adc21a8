"""Grants that somebody else gave while this service runs: two that decide give one device twice."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from linkwise.dialects.linkwise.dialect import GRANT
from linkwise.model.views import PodView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.view import BrokerView
    from linkwise.broker.watch_events import WatchEvent

__all__ = ["ForeignGrants"]

log = logging.getLogger(__name__)

AT_FIRST: Final = 60.0  # seconds in which what a service that was killed had sent may still be written
REMEMBERED: Final = 600.0  # seconds for which people are told


class ForeignGrants:
    """Looks at pods before the broker does."""

    def __init__(self, begun: float) -> None:
        self._begun = begun
        self._last = ("", 0.0)

    def look(self, broker: BrokerView, sights: Iterable[WatchEvent], now: float) -> None:
        """Take note of pods that are bound with a record of ours, and to which nothing was promised here."""
        for sight in sights:
            if not isinstance(sight, PodView) or not sight.node or GRANT not in sight.annotations:
                continue
            new = broker.entry(sight.uid) is None and not broker.is_settled(sight.uid)
            if new and now - self._begun >= AT_FIRST:
                name = f"{sight.namespace}/{sight.name}"
                log.warning("grant not ours pod=%s node=%s: does another service run?", name, sight.node)
                self._last = (name, now)

    def note(self, now: float) -> str:
        """What people should know; empty if there was nothing of late."""
        name, at = self._last
        if not name or not 0 <= now - at < REMEMBERED:
            return ""
        return (
            f"pod {name} was given devices by somebody else: run one service for a cluster, or devices are given twice"
        )
