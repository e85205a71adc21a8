"""The names of all resources that a pod can ask for, by the dialect whose word it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.dialects import aliyun, amd
from linkwise.dialects.ascend import node as ascend_node
from linkwise.dialects.koordinator import quantities as koordinator_amounts
from linkwise.dialects.nvidia import dialect as nvidia

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NATIVE", "RESOURCES", "is_native"]

# One line a dialect. Parts of Ascend chips are patterns, not names: no list can hold them.
RESOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "nvidia": (nvidia.RESOURCE, nvidia.OLD_RESOURCE),
    "koordinator": tuple(sorted(koordinator_amounts.OWNED)),
    "ascend": tuple(ascend_node.PROFILES),
    "aliyun": (aliyun.MEMORY, aliyun.COUNT),
    "amd": (amd.RESOURCE,),
}


def is_native(name: str) -> bool:
    """Whether kube-scheduler takes the name for one of Kubernetes' own, and refuses it in managedResources."""
    return "/" not in name or "kubernetes.io/" in name


NATIVE: Final = tuple(name for names in RESOURCES.values() for name in names if is_native(name))
"""names that managedResources can't have"""
