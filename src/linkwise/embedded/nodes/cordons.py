"""Cordoned devices of simulated nodes: kubelets report them as not allocatable, as they do for Linkwise's agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.dialects.linkwise.cordon import CORDONED

if TYPE_CHECKING:
    from linkwise.embedded.nodes.device_reports import DeviceReports
    from linkwise.embedded.storage.watches import WatchEvent

__all__ = ["CordonedDevices"]

_MARK: Final = f'"{CORDONED}"'.encode()


class CordonedDevices:
    """Updates the allocatable devices of nodes whose cordons change; pass it the watch events of nodes."""

    def __init__(self, reports: DeviceReports) -> None:
        self._reports = reports
        self._known: dict[str, str] = {}

    def on_node(self, event: WatchEvent) -> None:
        """Apply the cordons of a node."""
        name = event.stored.name
        if event.type == "DELETED":
            self._known.pop(name, None)
        elif _MARK in event.stored.data or name in self._known:
            text = (event.object["metadata"].get("annotations") or {}).get(CORDONED, "")
            if text != self._known.get(name, ""):
                self._known[name] = text
                self._reports.update_allocatable(name)
            if not text:
                self._known.pop(name, None)
