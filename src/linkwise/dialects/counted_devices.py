"""What vendors have in common whose plugins count whole devices and write nothing on pods.

Devices of which a node reports only how many there are.
"""
# Joined from by_count, counted: one docstring for all.

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from linkwise.dialects.dialect import Dialect, Held, where_node, where_pod
from linkwise.dialects.pod_resources import by_container, whole_quantity
from linkwise.errors import InputError
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.dialects.dialect import Writing
    from linkwise.model.views import NodeView, PodView

__all__ = ["ByCount", "counted", "unhealthy"]


class ByCount(Dialect):
    """Whole devices of one resource; which of them a pod was given is not told in such words."""

    resource: ClassVar[str]

    def owns(self, resource: str) -> bool:
        """The one resource."""
        return resource == self.resource

    def ask(self, pod: PodView) -> Ask | Problem | None:
        """Whole devices, by container."""
        if pod.claims or self.resource in pod.hosted_by_claims:
            return None
        try:
            counts = by_container(pod, self.resource)
        except ValueError as error:
            return Problem(where_pod(pod), self.resource, f"{error}; ask for whole devices, such as 2")
        names = dict.fromkeys(found.name for found in pod.containers if found.name in counts)
        wanted = tuple(ContainerAsk(name, counts[name]) for name in names)
        return Ask(self.resource, wanted, pod.namespace) if wanted else None

    def held(self, pod: PodView) -> Held:
        """Nothing: it is not written on pods."""
        del pod
        return Held(None)

    def write(self, writing: Writing) -> dict[str, str]:
        """Nothing: the vendor's tools read nothing from pods."""
        del writing
        return {}


MAX_COUNTED: Final = 1024
"""more than any node has; a plugin that reports more is broken"""


def counted(view: NodeView, resource: str, amounts: Mapping[str, str], problems: list[Problem]) -> int:
    """How many the node's capacity or allocatable names; 0 and a problem if that makes no sense."""
    try:
        count = whole_quantity(amounts.get(resource, "0"))
    except InputError as error:
        problems.append(Problem(where_node(view), resource, f"{error}; look at the device plugin of this node"))
        return 0
    if count > MAX_COUNTED:
        sentence = f"more than {MAX_COUNTED} devices are reported, none is counted; look at the device plugin"
        problems.append(Problem(where_node(view), resource, sentence))
        return 0
    return count


def unhealthy(view: NodeView, resource: str, capacity: int, problems: list[Problem]) -> dict[str, str]:
    """How many devices kubelet does not hand out; which ones these are is not told."""
    if not capacity or resource not in view.allocatable:
        return {}
    told = len(problems)
    allocatable = counted(view, resource, view.allocatable, problems)
    if allocatable > capacity:
        sentence = f"{allocatable} are allocatable but the capacity is {capacity}; look at the device plugin"
        problems.append(Problem(where_node(view), resource, sentence))
    if len(problems) > told or allocatable == capacity:
        return {}
    return {"unhealthy": str(capacity - allocatable)}
