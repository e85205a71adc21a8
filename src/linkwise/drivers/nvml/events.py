"""Xid events: errors that the NVIDIA driver reports about a GPU, collected between two discoveries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.drivers.nvml.library import Failure, Library

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.drivers.nvml.devices import Gpu

__all__ = ["XidEvents"]

_XID: Final = 0x8
"""nvmlEventTypeXidCriticalError"""

# Errors of the application, after which the GPU works on: the list of NVIDIA's device plugin.
_OF_APPLICATIONS: Final = frozenset({13, 31, 43, 45, 68, 109})
_MOST: Final = 256
"""events of one discovery; a GPU that reports more keeps the rest for the next one"""


class XidEvents:
    """Subscription to the Xid events of all GPUs; without support for events there are none."""

    def __init__(self, library: Library) -> None:
        self._library: Final = library
        self._set: Final[Any] = library.call("nvmlEventSetCreate")
        self._watched: set[str] = set()

    def collect(self) -> dict[str, int]:
        """The last critical Xid of each GPU since the last call, by UUID; empty for events that name no GPU."""
        if isinstance(self._set, Failure) or not self._watched:
            return {}
        found: dict[str, int] = {}
        for _ in range(_MOST):
            event = self._library.call("nvmlEventSetWait_v2", self._set, 0)
            if isinstance(event, Failure):  # a timeout: there are no more
                break
            if event.eventType == _XID and event.eventData not in _OF_APPLICATIONS:
                uuid = self._library.text("nvmlDeviceGetUUID", event.device) if event.device else ""
                found["" if isinstance(uuid, Failure) else uuid] = int(event.eventData)
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
