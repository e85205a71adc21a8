"""Devices that the kubelet should allocate on one node where no record has chosen: those that a policy picks there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.inventory import merge_or_report
from linkwise.dialects.dialect import DefaultPolicies
from linkwise.dialects.registry import BY_NAME, DIALECTS
from linkwise.engine.usage import node_of, usage_of
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.node import Use
from linkwise.model.verdict import Offer
from linkwise.policies.registry import POLICIES, alternatives

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkwise.model.node import Mode, Node
    from linkwise.model.views import NodeView
    from linkwise.policies.policy import Policy

__all__ = ["IdleNode", "choose_available", "idle_node"]

_ONE_DEVICE: Final = Ask("", (ContainerAsk("", devices=1),))
_NONE: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class IdleNode:
    """A node as the scheduler's policies see it while no pod is known."""

    node: Node
    words: frozenset[str]
    """of its inventory"""

    def choose(self, available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
        """Return that many available devices, as `choose_available` does."""
        return choose_available(self.words, self.node, available, required, size)


def idle_node(view: NodeView, objects: Mapping[str, Mapping[str, object]]) -> IdleNode:
    """Return the node without pods, from its own fields and the objects that describe it."""
    inventory = merge_or_report(view, objects)
    return IdleNode(node_of(inventory, usage_of(inventory, ())), inventory.words)


def choose_available(  # noqa: PLR0913 - what the kubelet asks, of which node, by which policies
    words: frozenset[str],
    node: Node,
    available: Sequence[str],
    required: Sequence[str],
    size: int,
    *,
    policies: Mapping[str, Policy] = POLICIES,
    by_resource: Mapping[str, str] = _NONE,
) -> tuple[str, ...]:
    """Return that many available devices, including the required ones; empty if that is not possible.

    `words` are those of the node's inventory, and `by_resource` is the administrator's choice of a policy.
    """
    # rule 000.agree: scheduler and device plugin use the same policy.
    if size < 1:
        return ()
    used = {device.id: Use(whole=True) for device in node.devices if device.id not in available}
    free = replace(node, used=used, mode="any", unattributed=0, unattributed_share=0, unattributed_core=0)
    ask = Ask("", (ContainerAsk("", devices=size),), profile=node.profile, required=tuple(required))
    offer = policies[_policy_for(words, node.mode, by_resource)].pick(ask, free)
    return offer.devices if isinstance(offer, Offer) else ()


def _policy_for(words: frozenset[str], mode: Mode, by_resource: Mapping[str, str]) -> str:
    """Return the policy that allocates a node's whole devices, where no pod is known that specifies another."""
    counting = [dialect for dialect in DIALECTS if dialect.name in words and dialect.whole_devices]
    percents = "koordinator" in words and (mode == "percent" or not counting)
    dialect = BY_NAME["koordinator"] if percents else next(iter(counting), None)
    usual = (dialect.policies if dialect else DefaultPolicies()).whole
    configured = next((by_resource[word] for word in sorted(words) if word in by_resource), "")
    return configured if configured in alternatives(usual, _ONE_DEVICE) else usual
