"""Dialects of device plugins that only count whole devices and write nothing on pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from linkwise.dialects.dialect import Dialect, Held, where_node, where_pod
from linkwise.dialects.pod_resources import by_container, whole_quantity
from linkwise.errors import InputError
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.device import Device
from linkwise.model.inventory import NodeFacts
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.dialects.dialect import Writing
    from linkwise.model.views import NodeView, PodView

__all__ = ["ByCount", "counted", "unhealthy"]


class ByCount(Dialect):
    """Whole devices of one resource; which of them a pod has is not on record in such a dialect.

    A subclass needs `name`, `vendor` and `resource`; `resources`, `whole_devices` and `domains` follow from these.
    """

    resource: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """Derive what the subclass leaves out."""
        own = vars(cls)
        if "resource" in own:
            cls.resources = own.get("resources", (cls.resource,))
            cls.whole_devices = own.get("whole_devices", frozenset({cls.resource}))
            cls.domains = own.get("domains", frozenset({cls.resource.partition("/")[0]}))

    def ask(self, pod: PodView) -> Ask | Problem | None:
        """Whole devices, by container."""
        try:
            counts = by_container(pod, self.resource)
        except ValueError as error:
            return Problem(where_pod(pod), self.resource, str(error))
        names = dict.fromkeys(container.name for container in pod.containers if container.name in counts)
        containers = tuple(ContainerAsk(name, counts[name]) for name in names)
        return Ask(self.resource, containers, pod.namespace) if containers else None

    def held(self, pod: PodView) -> Held:
        """Nothing: there is no record on pods."""
        del pod
        return Held(None)

    def write(self, writing: Writing) -> dict[str, str]:
        """Nothing: the vendor's tools read nothing from pods."""
        del writing
        return {}

    def node(self, view: NodeView, objects: Mapping[str, Mapping[str, object]]) -> NodeFacts | None:
        """Devices by number, and how many of them are not allocatable."""
        del objects
        problems: list[Problem] = []
        capacity = counted(view, self.resource, view.capacity, problems)
        labels = unhealthy(view, self.resource, capacity, problems)
        if not (capacity or problems):
            return None
        devices = tuple(Device(f"#{index}", index) for index in range(capacity))
        return NodeFacts(self.name, devices, labels=labels, problems=tuple(problems))


MAX_COUNTED: Final = 1024
"""more than any node has; a plugin that reports more is broken"""


def counted(view: NodeView, resource: str, amounts: Mapping[str, str], problems: list[Problem]) -> int:
    """Number of devices in the node's capacity or allocatable; 0 and a problem if it is invalid."""
    try:
        count = whole_quantity(amounts.get(resource, "0"))
    except InputError as error:
        problems.append(Problem(where_node(view), resource, f"{error}; check the device plugin of this node"))
        return 0
    if count > MAX_COUNTED:
        sentence = f"more than {MAX_COUNTED} devices are reported, none is counted; check the device plugin"
        problems.append(Problem(where_node(view), resource, sentence))
        return 0
    return count


def unhealthy(view: NodeView, resource: str, capacity: int, problems: list[Problem]) -> dict[str, str]:
    """Number of devices that kubelet does not allocate, as a label; it does not report which they are."""
    if not capacity or resource not in view.allocatable:
        return {}
    before = len(problems)
    allocatable = counted(view, resource, view.allocatable, problems)
    if allocatable > capacity:
        sentence = f"{allocatable} are allocatable but the capacity is {capacity}; check the device plugin"
        problems.append(Problem(where_node(view), resource, sentence))
    if len(problems) > before or allocatable == capacity:
        return {}
    return {"unhealthy": str(capacity - allocatable)}
