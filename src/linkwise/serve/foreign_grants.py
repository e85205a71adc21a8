"""Detects grants written by a second Linkwise service; two of them would double-book devices."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from linkwise.dialects.linkwise.dialect import GRANT, Linkwise
from linkwise.model.views import PodView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.broker import BrokerView
    from linkwise.broker.watch_events import WatchEvent

__all__ = ["ForeignGrants"]

log = logging.getLogger(__name__)

STARTUP_GRACE: Final = 60.0  # seconds; writes of a killed predecessor may still arrive
NOTE_SECONDS: Final = 600.0  # how long /readyz reports a foreign grant
_LINKWISE: Final = Linkwise()


class ForeignGrants:
    """Inspects watch events before the broker observes them."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._last = ("", 0.0)

    def restart(self, now: float) -> None:
        """Note that this replica leads from now on; writes of its predecessor may still be delivered."""
        self._started = now

    def look(self, broker: BrokerView, events: Iterable[WatchEvent], now: float) -> None:
        """Report pods that were bound with a Linkwise grant this service did not write."""
        for pod in events:
            if not isinstance(pod, PodView) or not pod.node or GRANT not in pod.annotations:
                continue
            foreign = broker.entry(pod.uid) is None and not broker.is_settled(pod.uid)
            # A grant names the UID and the node of its pod, so what a user put into a manifest is not taken for one.
            if foreign and now - self._started >= STARTUP_GRACE and _LINKWISE.held(pod).grant:
                name = f"{pod.namespace}/{pod.name}"
                log.warning("foreign grant pod=%s node=%s: is a second Linkwise service running?", name, pod.node)
                self._last = (name, now)

    def note(self, now: float) -> str:
        """The note for /readyz about the last foreign grant; empty if there was none recently."""
        name, at = self._last
        if not name or not 0 <= now - at < NOTE_SECONDS:
            return ""
        return (
            f"devices of pod {name} were allocated by another Linkwise service: its replicas must have leader.enabled and the same"
            " Lease, or devices are allocated twice"
        )
