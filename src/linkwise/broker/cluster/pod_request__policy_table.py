"""One ask, one policy: which rules an ask is placed by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.dialects.dialect import where_pod
from linkwise.dialects.linkwise.dialect import POLICY, policy_of as wished_policy
from linkwise.model.verdict__problem import Problem
from linkwise.policies.registry import POLICIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.ask import Ask
    from linkwise.model.node import Mode
    from linkwise.model.views import PodView

__all__ = ["policy_for_devices", "policy_of"]

# By the dialect that the ask is said in: for whole devices, for members of a group, and for a part of one device.
_BY_DIALECT: Final = {
    "nvidia": ("link-affinity", "bandwidth", "memory-share"),
    "amd": ("link-affinity", "bandwidth", "memory-share"),
    "koordinator": ("bandwidth", "bandwidth", "memory-share"),
    "ascend": ("ring-affinity", "ring-affinity", "memory-share"),
    "aliyun": ("memory-share", "memory-share", "memory-share"),
}
_FOR_DEVICES: Final = ("link-affinity", "bandwidth", "whole-device")
_NONE: Final[Mapping[str, str]] = {}
_COUNTS_ONLY: Final = ("whole-device", "whole-device", "memory-share")


def policy_for_devices(words: frozenset[str], mode: Mode, by_resource: Mapping[str, str]) -> str:
    """The policy by which a node's whole devices are handed out, where no pod is known that says otherwise."""
    spoken = [name for name in _BY_DIALECT if name in words and name != "aliyun"]
    percents = "koordinator" in spoken and (mode == "percent" or spoken == ["koordinator"])
    dialect = "koordinator" if percents else next((name for name in spoken if name != "koordinator"), "")
    set_for = next((by_resource[word] for word in sorted(words) if word in by_resource), "")
    if set_for in _FOR_DEVICES and dialect != "ascend":
        return set_for
    return _BY_DIALECT.get(dialect, _COUNTS_ONLY)[0]


def policy_of(
    pod: PodView, dialect: str, ask: Ask, *, in_group: bool, by_resource: Mapping[str, str] = _NONE
) -> tuple[str, Problem | None]:
    """The policy's name, and what is wrong with the pod's own wish for one; a wish that can't be met is not followed.

    `by_resource` is what an administrator set; the pod's own wish goes before it.
    """
    whole, member, part = _BY_DIALECT.get(dialect, _COUNTS_ONLY)
    usual = part if not ask.devices else member if in_group else whole
    wish = wished_policy(pod) or by_resource.get(ask.resource, "")
    if wish in {"", usual}:
        return usual, None
    if wish not in POLICIES:
        return usual, Problem(where_pod(pod), POLICY, f"policy {wish!r} is not known; choose of {', '.join(POLICIES)}")
    if wish not in (_FOR_DEVICES if ask.devices and dialect != "ascend" else (usual,)):
        return usual, Problem(where_pod(pod), POLICY, f"policy {wish!r} can't serve what the pod asks for")
    return wish, None
