"""Refusals of group members: the group is incomplete, is being planned, does not fit, or its plan uses another node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.phrases import RefusalText, as_tuple, comma_list

if TYPE_CHECKING:
    from linkwise.model.verdict import Reason

__all__ = ["GROUP_REFUSALS", "is_group_refusal"]


def _claim(reason: Reason) -> str:
    claim, pod = as_tuple(reason.asked)
    return f"PersistentVolumeClaim {claim} of pod {pod}, a member of the pod's gang,"


GROUP_REFUSALS: Final[dict[tuple[str, str], RefusalText]] = {
    ("001.members", "missing"): RefusalText(
        "node(s): the group is incomplete",
        lambda r: f"only {r.found} of {r.asked} members of the pod's group have been created",
        code="GangIncomplete",
    ),
    ("001.members", "settling"): RefusalText(
        "node(s): more members of the group may follow",
        lambda r: (
            f"{r.found} {'member' if r.found == 1 else 'members'} of the pod's group {'has' if r.found == 1 else 'have'} "
            "been created and more may follow; the group is planned when no member was added for a moment"
        ),
        code="GangIncomplete",
    ),
    ("001.members", "gated"): RefusalText(
        "node(s): the group has members with scheduling gates",
        lambda r: f"{r.found} of {r.asked} members of the pod's group have scheduling gates",
        code="GangIncomplete",
    ),
    ("001.members", "planning"): RefusalText(
        "node(s): the group is being planned",
        "the pod's group is being planned; the pod is retried when the plan is ready",
        code="Planned",
    ),
    ("001.gang", "missing"): RefusalText(
        "node(s): the gang is incomplete",
        lambda r: (
            f"only {r.found} {'member' if r.found == 1 else 'members'} of the pod's gang "
            f"{'has' if r.found == 1 else 'have'} been created, but {r.asked} must start together"
        ),
        code="GangIncomplete",
    ),
    ("001.gang", "claim missing"): RefusalText(
        "node(s): a PersistentVolumeClaim of the gang doesn't exist",
        lambda r: f"{_claim(r)} does not exist",
        code="GangIncomplete",
    ),
    ("001.gang", "claim without class"): RefusalText(
        "node(s): a PersistentVolumeClaim of the gang is not bound",
        lambda r: f"{_claim(r)} is not bound, and its StorageClass {r.found} does not exist",
        code="GangIncomplete",
    ),
    ("001.gang", "claim unbound"): RefusalText(
        "node(s): a PersistentVolumeClaim of the gang is not bound",
        lambda r: f"{_claim(r)} is not bound",
        code="GangIncomplete",
    ),
    ("001.gang", "claim provisioning"): RefusalText(
        "node(s): a PersistentVolumeClaim of the gang is not bound",
        lambda r: f"{_claim(r)} is not bound: its volume is to be provisioned for node {r.found}, and that is not done",
        code="GangIncomplete",
    ),
    ("001.gang", "bundle"): RefusalText(
        "node(s): a gang of the same bundle is incomplete",
        lambda r: f"the pod's gang must start together with gang {r.asked}, which is incomplete",
        code="GangIncomplete",
    ),
    ("001.gang", "short"): RefusalText(
        "node(s): the gang doesn't fit",
        lambda r: (
            f"the {r.asked} pending members of the pod's gang don't fit together; no devices are reserved for them"
        ),
        code="NoRoom",
    ),
    ("001.fewest-nodes", "short"): RefusalText(
        "node(s): no member of the group fits",
        lambda r: f"none of the {r.asked} pending members of the pod's group fits on any node",
        code="NoRoom",
    ),
    ("001.gang", "never"): RefusalText(
        "node(s): the gang can never fit",
        lambda r: f"the {r.asked} pending members of the pod's gang would not fit together even on empty nodes",
        code="NoTopology",
    ),
    ("001.fewest-nodes", "never"): RefusalText(
        "node(s): no member of the group can ever fit",
        lambda r: f"none of the {r.asked} pending members of the pod's group would fit even on an empty node",
        code="NoTopology",
    ),
    ("001.group", "schedulers"): RefusalText(
        "node(s): group members use different schedulers",
        lambda r: (
            f"members of the pod's group use different schedulers, {comma_list(r.found)}; set the same schedulerName on all"
        ),
        code="Invalid",
    ),
    ("001.group", "object"): RefusalText(
        "node(s): the group's PodGroup doesn't exist",
        lambda r: f"PodGroup {r.asked}, which the pod names, does not exist or was not observed yet",
        code="GangIncomplete",
    ),
    ("001.hold", "resting"): RefusalText(
        "node(s): the group's last plan expired",
        "the last plan of the pod's group expired before all members were bound; the group is planned again after a backoff",
        code="Planned",
    ),
    ("001.hold", "obstacle"): RefusalText(
        "node(s): the group's last plan could not be carried out",
        lambda r: (
            f"the last plan of the pod's group was dropped: {r.found}; the group is planned again after a backoff"
        ),
        code="Excluded",
    ),
    ("001.hold", "preempted"): RefusalText(
        "node(s): the group's plan was preempted",
        "the plan of the pod's group was preempted by a pod of higher priority; the group is planned again in a moment",
        code="Planned",
    ),
    ("001.hold", "unstable"): RefusalText(
        "node(s): the group was planned too often",
        "the scheduler did not accept the nodes of several plans of the pod's group; it is planned again after a backoff",
        code="Planned",
    ),
    ("001.hold", "reserved"): RefusalText(
        "node(s) had free devices that are reserved for a request ahead in the queue",
        lambda r: (
            f"its free devices are reserved for {r.found}, which is ahead in the queue and waits for more of them"
        ),
        code="Reserved",
    ),
    ("001.tolerant", "left out"): RefusalText(
        "node(s): the free devices went to other members of the group",
        "members of the pod's group with a lower rank took all free devices",
        code="NoRoom",
    ),
    ("001.steer", "elsewhere"): RefusalText(
        "node(s): the group's plan places the pod on another node",
        "the group's plan places the pod on a node that the scheduler did not offer",
        code="Excluded",
    ),
}


def is_group_refusal(message: str) -> bool:
    """Whether a scheduler's message about a pod repeats one of these refusals."""
    return any(text.short in message for text in GROUP_REFUSALS.values())
