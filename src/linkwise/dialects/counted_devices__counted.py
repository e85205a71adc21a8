"""Devices of which a node reports only how many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.dialects.dialect import where_node
from linkwise.dialects.pod_resources__quantity import whole_quantity
from linkwise.errors import InputError
from linkwise.model.verdict__problem import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.views import NodeView

__all__ = ["counted", "unhealthy"]

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
