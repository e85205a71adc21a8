"""Registered policies by name: the built-in ones, and those that the process adds at start.

Each is checked when it is registered, so that a mistake stops the start and not a pod.
"""

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
from linkwise.policies.policy import Policy
from linkwise.policies.ring_affinity import RingAffinity
from linkwise.policies.whole_device import WholeDevice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "POLICIES",
    "added_policies",
    "alternatives",
    "policies_with",
    "register",
    "registered",
    "set_added_policies",
]

QUESTIONS: Final = ("admit", "pick", "score")


def registered(policies: Iterable[Policy]) -> dict[str, Policy]:
    """The policies by name.

    Raises:
        PolicyError: one lacks a name, a method or its terms, two have one name, or a score is not a tuple of integers.
    """
    by_name: dict[str, Policy] = {}
    for policy in policies:
        _check(policy, by_name)
        by_name[policy.name] = policy
    return by_name


def register(policy: object) -> None:
    """Add a policy, or an instance of its class, before any pod is placed.

    Raises:
        PolicyError: as `registered`, or it is not a policy at all.
    """
    try:
        added = policy() if isinstance(policy, type) else policy
    except Exception as error:  # whatever the author's code raises
        raise PolicyError(f"{type(error).__name__}: {error}") from error
    if not isinstance(added, Policy):
        raise PolicyError(f"expected a linkwise.policies.policy.Policy, got a value of type {type(added).__name__}")
    _check(added, POLICIES)
    set_added_policies((*_added, added))


def set_added_policies(policies: Iterable[Policy]) -> None:
    """Make these, and no others, the policies beside the built-in ones."""
    _added[:] = policies
    POLICIES.clear()
    POLICIES.update(policies_with(PlacingSettings()))


def added_policies() -> tuple[Policy, ...]:
    """The policies beside the built-in ones."""
    return tuple(_added)


def alternatives(usual: str, ask: Ask) -> list[str]:
    """The registered policies that can serve a request: all that admit it, unless the hardware requires the default."""
    if POLICIES[usual].for_hardware:
        return [usual]
    return [name for name, policy in POLICIES.items() if not policy.for_hardware and policy.admit(ask) is None]


def _check(policy: Policy, others: Mapping[str, Policy]) -> None:
    _check_shape(policy)
    if policy.name in others:
        raise PolicyError(f"two policies are called {policy.name!r}")
    try:
        _check_answers(policy)
    except PolicyError:
        raise
    except Exception as error:  # whatever the author's code raises
        raise PolicyError(f"policy {policy.name!r}: {type(error).__name__}: {error}") from error


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
    """Probe it with a machine of eight linked devices: it must offer some, with a score of one integer per term."""
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


_added: Final[list[Policy]] = []


def policies_with(settings: PlacingSettings) -> dict[str, Policy]:
    """All policies by name, with the administrator's settings."""
    # One line per policy.
    built_in = (
        LinkAffinity(nic=settings.nic),
        Bandwidth(settings.bandwidth, nic=settings.nic),
        WholeDevice(),
        RingAffinity(),
        MemoryShare(settings.share),
    )
    return registered((*built_in, *_added))


POLICIES: Final = policies_with(PlacingSettings())
