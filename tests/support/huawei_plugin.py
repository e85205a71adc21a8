"""Double of Huawei's device plugin with `-volcanoType=true`: which chips it mounts for a call of Allocate.

Source: contract ascend, section 4. The plugin finds the pod of a call by its annotations alone: the oldest
`predicate-time` among the pods of the node that have as many chips on record as the kubelet allocates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["CONSUMED", "AnnotatedPod", "HuaweiPlugin", "NoPodError"]

CONSUMED: Final = 18446744073709551615
TRIES: Final = 3
PAUSE: Final = 1.0  # seconds


class NoPodError(Exception):
    """No pod of the node fits the call; the kubelet refuses the pod."""


class AnnotatedPod(Protocol):
    """A pod of the node that is not being deleted."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """As the API server has them."""
        ...


@dataclass(slots=True)
class HuaweiPlugin:
    """The allocation of one node.

    Args:
        resource: such as `huawei.com/Ascend910`.
        count: chips of the node.
        pods: pods of the node that request the resource and are not being deleted.
        annotate: writes annotations of a pod.
        pause: waits for that many seconds.
    """

    resource: str
    count: int
    pods: Callable[[], Sequence[AnnotatedPod]]
    annotate: Callable[[AnnotatedPod, Mapping[str, str]], None]
    pause: Callable[[float], None]
    mapped: dict[str, str] = field(default_factory=dict)
    """the chip that is mounted for each id of the kubelet"""

    def allocate(self, ids: Sequence[str]) -> list[str]:
        """The chips to mount; the kubelet's own only if it allocates the whole node."""
        if len(ids) == self.count:
            return sorted(ids, key=_number)
        for attempt in range(TRIES):
            waiting = [pod for pod in self.pods() if self._fits(pod, len(ids))]
            if waiting:
                pod = min(waiting, key=_time)
                return self._serve(pod, ids)
            if attempt < TRIES - 1:
                self.pause(PAUSE)
        raise NoPodError("not get valid pod")

    def _serve(self, pod: AnnotatedPod, ids: Sequence[str]) -> list[str]:
        chips = pod.annotations[self.resource].split(",")
        self.mapped |= dict(zip(sorted(ids, key=_number), chips, strict=True))
        self.annotate(
            pod,
            {
                "predicate-time": str(CONSUMED),
                "huawei.com/AscendReal": ",".join(chips),
                "huawei.com/kltDev": ",".join(sorted(ids, key=_number)),
            },
        )
        return chips

    def _fits(self, pod: AnnotatedPod, size: int) -> bool:
        names = pod.annotations.get(self.resource, "")
        return bool(names) and len(names.split(",")) == size and _time(pod) != CONSUMED


def _time(pod: AnnotatedPod) -> int:
    text = pod.annotations.get("predicate-time", "")
    return int(text) if text.isdecimal() else CONSUMED


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])
