"""Allocator of a simulated node: the device manager of its kubelet, served by the node agent's own code.

As a kubelet does, it serves the containers of a pod one after the other. Devices of ordinary init containers are used
again by the containers after them; for the others it asks which ids are preferred, and then what the container is given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.errors import InputError
from linkwise.node.allocation import Listed, Refused
from linkwise.node.container import needs_of
from linkwise.node.device_ids import share_ids
from linkwise.node.visibility import siblings_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.settings import Visibility
    from linkwise.model.views import PodView
    from linkwise.node.allocation import Allocated, Allocations, Correction
    from linkwise.node.container import HostOptions
    from linkwise.vendors.container_needs import Variables

__all__ = ["NodeAllocator"]

VISIBILITY: Final[Visibility] = "group"
"""the agent's default"""


@dataclass(frozen=True, slots=True)
class _Served:
    """What a container has."""

    ids: tuple[str, ...]
    environment: Variables = ()


@dataclass(slots=True)
class NodeAllocator:
    """The devices of one node under one resource."""

    allocations: Allocations
    host: HostOptions | None = None
    """None if another plugin serves the devices: what containers are given is not known then"""
    _served: dict[str, dict[str, _Served]] = field(default_factory=dict)
    """by pod UID and container"""

    def admit(self, uid: str, now: float) -> str:
        """Allocate devices to the containers of an observed pod; returns why that is not possible, or an empty text."""
        reusable: list[str] = []
        for claim in [claim for claim in self.allocations.claims() if claim.pod.uid == uid]:
            served = self._serve(claim.amount, reusable, now)
            if isinstance(served, Refused):
                self.release(uid)
                return served.sentence
            self._served.setdefault(uid, {})[claim.container] = served
            own = set(served.ids)
            reusable = [identifier for identifier in reusable if identifier not in own]
            reusable += served.ids if claim.init else ()
        return ""

    def observe(self, pod: PodView) -> bool:
        """Observe a pod that has devices; returns whether its record may have changed."""
        own = [claim for claim in self.allocations.claims() if claim.pod.uid == pod.uid]
        if all(claim.pod.annotations == pod.annotations or claim.pod.version > pod.version for claim in own):
            return False
        self.allocations.observe(pod)
        return True

    def settle(self, now: float) -> tuple[Correction, ...]:
        """Compare what the containers have with the records, as the agent does; returns the records to correct."""
        listed = []
        for claim in self.allocations.claims():
            served = self._served.get(claim.pod.uid, {}).get(claim.container)
            if served and not claim.init:  # kubelets do not list ordinary init containers
                listed.append(Listed(claim.pod.namespace, claim.pod.name, claim.container, served.ids))
        return self.allocations.settle(listed, now)

    def serves(self, uid: str) -> bool:
        """Whether a pod has devices."""
        return uid in self._served

    def release(self, uid: str) -> None:
        """Forget a pod whose containers have stopped, or that is rejected."""
        self._served.pop(uid, None)
        self.allocations.forget(uid)

    def environment(self, uid: str, container: str) -> dict[str, str]:
        """The variables that a container was given."""
        served = self._served.get(uid, {}).get(container)
        return dict(served.environment) if served else {}

    def _serve(self, size: int, reusable: Sequence[str], now: float) -> _Served | Refused:
        """The calls for one container."""
        ids = self._choose(size, reusable)
        answer = ids if isinstance(ids, Refused) else self.allocations.allocate(ids, now)
        if isinstance(answer, Refused):
            return answer
        try:
            return _Served(answer.ids, self._environment_of(answer))
        except InputError as error:
            return Refused(str(error))

    def _choose(self, size: int, reusable: Sequence[str]) -> tuple[str, ...] | Refused:
        kept = tuple(reusable[:size])
        if len(kept) == size:
            return kept
        used = {identifier for pod in self._served.values() for each in pod.values() for identifier in each.ids}
        used.difference_update(kept)
        available = [identifier for identifier in self._healthy_ids() if identifier not in used]
        if len(available) < size:
            return Refused(
                f"requested number of devices unavailable for {self.allocations.resource}. "
                f"Requested: {size}, Available: {len(available)}"
            )
        return self.allocations.preferred(available, kept, size)

    def _healthy_ids(self) -> list[str]:
        healthy = [device for device in self.allocations.devices.values() if device.healthy]
        if not self.allocations.shared:
            return [device.id for device in healthy]
        return [identifier for device in healthy for identifier in share_ids(device)]

    def _environment_of(self, answer: Allocated) -> Variables:
        if self.host is None:
            return ()
        devices, shared = self.allocations.devices, self.allocations.shared
        return needs_of(answer, devices, siblings_of(answer, devices, VISIBILITY), self.host, shared=shared).environment
