"""Xid events: errors that the NVIDIA driver reports about a GPU, awaited and collected between two discoveries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.drivers.device_facts import Failure
from linkwise.vendors.nvidia.xid import HARMLESS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from linkwise.drivers.nvml.devices import Gpu
    from linkwise.drivers.nvml.library import Library

__all__ = ["XidEvents"]

_XID: Final = 0x8
"""nvmlEventTypeXidCriticalError"""
_TIMEOUT: Final = 10
_MOST: Final = 256
"""events of one discovery; a GPU that reports more keeps the rest for the next one"""


class XidEvents:
    """Subscription to the Xid events of all GPUs; without support for events there are none."""

    def __init__(self, library: Library, harmless: Collection[int] = HARMLESS) -> None:
        self._library: Final = library
        self._harmless: Final = harmless
        """events after which a GPU works on"""
        self._set: Final[Any] = library.call("nvmlEventSetCreate")
        self._watched: set[str] = set()
        self._found: dict[str, int] = {}

    @property
    def works(self) -> bool:
        """Whether there are GPUs that report events."""
        return not isinstance(self._set, Failure) and bool(self._watched)

    def wait(self, milliseconds: int) -> dict[str, int] | None:
        """Wait for an event that makes a GPU unhealthy; those that arrived, by UUID, or None if events can't be awaited.

        They stay to be collected. An event that names no GPU has an empty UUID.
        """
        if not self.works:
            return None
        failure = self._receive(milliseconds)
        if failure is not None and failure.code != _TIMEOUT:
            return None
        return dict(self._found)

    def collect(self) -> dict[str, int]:
        """The last critical Xid of each GPU since the last call, by UUID; empty for events that name no GPU."""
        for _ in range(_MOST if self.works else 0):
            if self._receive(0) is not None:  # a timeout: there are no more
                break
        found, self._found = self._found, {}
        return found

    def watch(self, gpus: Iterable[Gpu]) -> None:
        """Subscribe to the events of GPUs that are new; one that came back must be subscribed to again."""
        if isinstance(self._set, Failure):
            return
        present = {gpu.device.id: gpu for gpu in gpus if gpu.device.healthy}
        for id_, gpu in present.items():
            if id_ not in self._watched:
                self._library.call("nvmlDeviceRegisterEvents", gpu.handle, _XID, self._set)
        self._watched = set(present)

    def close(self) -> None:
        """Free the subscription."""
        if not isinstance(self._set, Failure):
            self._library.call("nvmlEventSetFree", self._set)

    def _receive(self, milliseconds: int) -> Failure | None:
        """Take one event; the error if there is none."""
        event = self._library.call("nvmlEventSetWait_v2", self._set, milliseconds)
        if isinstance(event, Failure):
            return event
        if event.eventType == _XID and event.eventData not in self._harmless:
            uuid = self._library.text("nvmlDeviceGetUUID", event.device) if event.device else ""
            self._found["" if isinstance(uuid, Failure) else uuid] = int(event.eventData)
        return None
