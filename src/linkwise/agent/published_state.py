"""Published state: what the API server should show of a node, from what the parts of its agent know at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise import __version__
from linkwise.dialects.ascend.device_info import DeviceInfo, chip_lists
from linkwise.dialects.linkwise.usage import with_usage
from linkwise.node.health import with_cordons
from linkwise.node.publishing import (
    Condition,
    NodeState,
    annotations_of,
    believed_condition,
    capacity_of,
    chip_annotations,
    chips_of,
    conditions_of,
    cordon_condition,
    device_of,
    inventory_of,
    labels_of,
)
from linkwise.node.stranded import Reserve, should_taint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.agent.kubelet.registration import Status
    from linkwise.config.settings import AgentSettings
    from linkwise.dialects.ascend.device_info import ChipStates
    from linkwise.model.discovery import Discovery
    from linkwise.model.inventory import Hold
    from linkwise.model.views import NodeView, PodView
    from linkwise.node.allocation import Claim
    from linkwise.node.publishing import Serving

__all__ = ["AgentKnowledge", "node_state"]

_REGISTRATION_REASONS: Final = {
    "registered": "Registered",
    "foreign": "ServedByAnotherPlugin",
    "refused": "RegistrationFailed",
}


@dataclass(frozen=True, slots=True)
class AgentKnowledge:
    """What the parts of an agent know."""

    node: str
    view: NodeView | None
    """None until the API server has shown the Node"""
    pods: Mapping[str, PodView]
    """of the node, by UID"""
    found: Discovery
    cordons: Mapping[str, str]
    """reasons of cordoned devices, by id"""
    serving: Serving
    resource: str
    """that is served, or would be if no other plugin did; empty if there is none"""
    in_use: Mapping[str, tuple[str, ...]]
    """devices by pod UID, as the kubelet has allocated them"""
    recorded: frozenset[str]
    """devices on the records of pods, before the kubelet allocates them too"""
    holds: tuple[Hold, ...]
    usage: Mapping[str, object] | None
    """summary for the inventory; None if there is none"""
    registration: Status
    stopping: bool
    """whether the agent is about to end, and no other stands by"""
    differing: tuple[Claim, ...]
    """containers that have other devices than those of the kubelet's ids"""
    mode_problem: str
    access_problem: str


def node_state(known: AgentKnowledge, settings: AgentSettings) -> NodeState:
    """Return what the API server should show."""
    found, usable = known.found, with_cordons(known.found, known.cordons)
    pods = {uid: (pod.namespace, pod.name) for uid, pod in known.pods.items() if uid in known.in_use}
    conditions = _conditions(known, settings)
    inventory = inventory_of(
        known.node, found, known.serving, known.in_use, pods, conditions, known.holds, version=__version__
    )
    chips, ascend = _chips(known, usable), settings.ascend
    return NodeState(
        with_usage(inventory, known.usage),
        labels_of(found),
        annotations_of(found) | chip_annotations(found, chips, wanted=ascend.annotations),
        capacity_of(found, known.serving),
        _tainted(known, usable, settings),
        device_of(known.node, usable) if settings.koordinator_device else None,
        DeviceInfo(known.node, chip_lists(chips)) if chips and ascend.device_info else None,
    )


def _chips(known: AgentKnowledge, usable: Discovery) -> ChipStates | None:
    """The chips for Huawei's lists, of which those on record count as taken before the kubelet allocates them."""
    if not known.resource:
        return None
    listed = known.view is not None and known.view.capacity.get(known.resource, "0") != "0"
    return chips_of(usable, known.serving, known.resource, _used(known) | known.recorded, listed=listed)


def _tainted(known: AgentKnowledge, usable: Discovery, settings: AgentSettings) -> bool | None:
    """Whether the node should have the taint for idle devices; None until the node is known."""
    stranded, used = settings.stranded, _used(known)
    if known.view is None:
        return None
    if not stranded.taint:
        return False  # it may be left from a time when the setting was on
    idle = sum(device.healthy and device.id not in used for device in usable.devices)
    reserve = Reserve(int(1000 * stranded.cpu), int(stranded.memory * 2**30))
    return should_taint(known.view, known.pods.values(), idle, reserve)


def _conditions(known: AgentKnowledge, settings: AgentSettings) -> tuple[Condition, ...]:
    status = known.registration
    reason, sentence = _REGISTRATION_REASONS.get(status.state, "WaitingForKubelet"), status.sentence
    if settings.plugin == "never":
        reason, sentence = "Disabled", "the setting agent.plugin is never"
    elif known.stopping:
        reason, sentence = "AgentStopped", "the agent of this node has ended; the kubelet rejects pods until it is back"
    elif known.mode_problem and not status.enforced:
        reason, sentence = "ModeNotServed", known.mode_problem
    serves = status.enforced and not known.stopping
    registered = Condition("PluginRegistered", "True" if serves else "False", reason, sentence)
    cdi = Condition("CDIWritten", "False", "NotWritable", known.access_problem) if known.access_problem else None
    served = (registered, believed_condition(known.differing), cdi)
    return tuple(filter(None, (*conditions_of(known.found), cordon_condition(known.cordons), *served)))


def _used(known: AgentKnowledge) -> frozenset[str]:
    return frozenset(device for devices in known.in_use.values() for device in devices)
