"""Policy registry: all policies by name, validated at registration so that an invalid one fails the start, not a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.errors import PolicyError
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.device import Device
from linkwise.model.link import SELF, Link
from linkwise.model.node import Node
from linkwise.model.settings import PlacingSettings
from linkwise.model.topology import Topology
from linkwise.model.verdict import Offer
from linkwise.policies.bandwidth import Bandwidth
from linkwise.policies.link_affinity import LinkAffinity
from linkwise.policies.memory_share import MemoryShare
from linkwise.policies.ring_affinity import RingAffinity
from linkwise.policies.whole_device import WholeDevice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.policies.policy import Policy

__all__ = ["POLICIES", "policies_with", "registered"]

QUESTIONS: Final = ("admit", "pick", "score")


def registered(policies: Iterable[Policy]) -> dict[str, Policy]:
    """The policies by name.

    Raises:
        PolicyError: one lacks a name, a method or its terms, two share a name, or a score is not a tuple of integers.
    """
    by_name: dict[str, Policy] = {}
    for policy in policies:
        _check_shape(policy)
        if policy.name in by_name:
            raise PolicyError(f"two policies are called {policy.name!r}")
        _check_answers(policy)
        by_name[policy.name] = policy
    return by_name


def _check_shape(policy: Policy) -> None:
    kind = type(policy).__name__
    if not isinstance(getattr(policy, "name", None), str) or not policy.name:
        raise PolicyError(f"policy {kind} has no name")
    for question in QUESTIONS:
        if not callable(getattr(policy, question, None)):
            raise PolicyError(f"policy {policy.name!r} has no method {question!r}")
    terms, leading = getattr(policy, "terms", None), getattr(policy, "leading", None)
    if not isinstance(terms, tuple) or not terms or not all(isinstance(term, str) for term in terms):
        raise PolicyError(f"policy {policy.name!r} does not name the terms of its score")
    if not isinstance(leading, int) or not 0 <= leading <= len(terms):
        raise PolicyError(f"policy {policy.name!r} has {leading!r} leading terms of {len(terms)}")


def _check_answers(policy: Policy) -> None:
    """Probe the policy with a free machine of eight linked devices: it must offer, and score one integer per term."""
    ask = next((ask for ask in (_WHOLE, _PART) if policy.admit(ask) is None), None)
    if ask is None:
        raise PolicyError(f"policy {policy.name!r} admits neither one device nor a share of one")
    offer = policy.pick(ask, _MACHINE)
    if not isinstance(offer, Offer):
        raise PolicyError(f"policy {policy.name!r} picks nothing of a free machine: {offer!r}")
    score: object = policy.score(ask, _MACHINE, offer)
    whole = isinstance(score, tuple) and all(type(term) is int for term in score)
    if not whole or not isinstance(score, tuple) or len(score) != len(policy.terms):
        raise PolicyError(f"policy {policy.name!r} scores {score!r}: {len(policy.terms)} integers are expected")


_WHOLE: Final = Ask("probe", (ContainerAsk("main", devices=1),), mode="whole")
_PART: Final = Ask("probe", (ContainerAsk("main", share=1),), mode="share")
_MACHINE: Final = Node(
    "probe",
    tuple(Device(f"device-{index}", index, memory=8) for index in range(8)),
    topology=Topology(
        tuple(f"device-{index}" for index in range(8)),
        links=tuple(tuple(SELF if i == j else Link("NV1+SYS") for j in range(8)) for i in range(8)),
    ),
)


def policies_with(settings: PlacingSettings) -> dict[str, Policy]:
    """All policies by name, configured by the administrator's settings."""
    # One line per policy.
    return registered(
        (
            LinkAffinity(),
            Bandwidth(settings.bandwidth),
            WholeDevice(),
            RingAffinity(),
            MemoryShare(settings.share),
        )
    )


POLICIES: Final = policies_with(PlacingSettings())
