"""Misspelt keys of pods: resources, labels and annotations that no dialect reads and that are almost one that it reads."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from linkwise.dialects.dialect import where_pod
from linkwise.dialects.groups.conventions import SCHEDULER_PLUGINS
from linkwise.dialects.groups.koordinator_gang import MINIMUM_LABEL, NAME_LABEL, POLICY_ALIAS
from linkwise.dialects.groups.membership import NAME, REPLICA
from linkwise.dialects.koordinator.dialect import VISIBLE_SIBLINGS
from linkwise.dialects.linkwise.creator import CREATOR
from linkwise.dialects.linkwise.dialect import DISTINCT_DEVICES, GRANT, MODELS, POLICY
from linkwise.dialects.linkwise.group_plan import GROUP_PLAN
from linkwise.dialects.linkwise.require import REQUIRE
from linkwise.dialects.pod_resources import resources_of
from linkwise.dialects.registry import DIALECTS, owners
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from linkwise.model.views import PodView

__all__ = ["closest_key", "misspelt_keys", "misspelt_resources"]

_KEYS: Final = (
    *(NAME, REPLICA, NAME_LABEL, MINIMUM_LABEL, POLICY_ALIAS, SCHEDULER_PLUGINS),
    *(DISTINCT_DEVICES, GRANT, GROUP_PLAN, MODELS, POLICY, REQUIRE, *CREATOR, VISIBLE_SIBLINGS, "linkwise.dev/woken"),
)
"""of domains in which no other program has keys of a similar name"""
_NEAR: Final = 0.75  # `gpus` is for `gpu`; what another system calls `gpumem` is not
_NEAR_DOMAIN: Final = 0.9


def misspelt_keys(pod: PodView) -> list[Problem]:
    """Return a problem for each resource, label and annotation that is most likely misspelt."""
    where = where_pod(pod)
    kinds = (("label", pod.labels), ("annotation", pod.annotations))
    keys = ((kind, key) for kind, names in kinds for key in names if "/" in key and key not in _KEYS)
    return [
        *(Problem(where, name, f"unknown resource; did you mean {near}?") for name, near in misspelt_resources(pod)),
        *(
            Problem(where, key, f"unknown {kind}; did you mean {near}?")
            for kind, key in keys
            if (near := closest_key(key, _KEYS))
        ),
    ]


def misspelt_resources(pod: PodView) -> Iterator[tuple[str, str]]:
    """Yield each resource that is most likely misspelt, and the one that it is for."""
    unknown = [name for name in resources_of(pod) if "/" in name and not owners(name)]
    known = [name for dialect in DIALECTS for name in dialect.resources] if unknown else []
    return ((name, near) for name in unknown if (near := closest_key(name, known)))


def closest_key(key: str, known: Iterable[str]) -> str:
    """Return the known key that this one is most likely for; empty if there is none.

    Vendors use the same names, so only keys of the same domain are similar, or the same name in a misspelt domain. A
    known name with a suffix, as in `gpu-vf`, is something else.
    """
    domain, _, name = key.casefold().partition("/")
    split = [(*each.casefold().partition("/")[::2], each) for each in known]
    names = {its_name: each for its_domain, its_name, each in split if its_domain == domain}
    if near := get_close_matches(name, names, 1, _NEAR):
        return "" if name.startswith((f"{near[0]}-", f"{near[0]}.")) else names[near[0]]
    domains = {its_domain: each for its_domain, its_name, each in split if its_name == name}
    near = get_close_matches(domain, domains, 1, _NEAR_DOMAIN)
    return domains[near[0]] if near else ""
