"""Misspelt keys of pods: resources, labels and annotations that are almost one that a dialect reads."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Final

from linkwise.dialects.dialect import where_pod
from linkwise.dialects.groups.conventions import (
    KAI_NETWORK,
    KAI_ROLE,
    KUEUE,
    KUEUE_NETWORK,
    KUEUE_ROLE,
    KUEUE_SLICE,
    KUEUE_TOTAL,
    SCHEDULER_PLUGINS,
    VOLCANO,
    VOLCANO_MINIMUM,
    VOLCANO_NETWORK,
    VOLCANO_ROLE,
    VOLCANO_TIER,
    Words,
)
from linkwise.dialects.groups.koordinator_gang import (
    KEYS as KOORDINATOR_KEYS,
    MINIMUM_LABEL,
    NAME_LABEL,
    POLICY_ALIAS,
    PREFIX as KOORDINATOR_PREFIX,
    speaks_gang,
)
from linkwise.dialects.groups.membership import NAME, REPLICA
from linkwise.dialects.koordinator.dialect import VISIBLE_SIBLINGS
from linkwise.dialects.linkwise.accelerator_policy import CREATOR
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
    *KOORDINATOR_KEYS,
)
"""of domains in which no other program has keys of a similar name"""
_SHARED_KEYS: Final = (
    *(*VOLCANO, VOLCANO_MINIMUM, VOLCANO_ROLE, VOLCANO_NETWORK, VOLCANO_TIER),
    *(f"volcano.sh/{name}" for name in ("job-name", "job-namespace", "job-version", "queue-name", "task-index")),
    *(*KAI_NETWORK, KAI_ROLE, "kai.scheduler/queue", "kai.scheduler/topology"),
    *(KUEUE, KUEUE_TOTAL, KUEUE_ROLE, *KUEUE_NETWORK, KUEUE_SLICE, "kueue.x-k8s.io/podset-unconstrained-topology"),
    *(
        "kueue.x-k8s.io/podset-slice-preferred-topology",
        "kueue.x-k8s.io/queue-name",
        "kueue.x-k8s.io/pod-group-pod-index",
    ),
)
"""of systems that have more of them than Linkwise reads: only what is almost the same is misspelt"""
_ALMOST: Final = 0.96  # one letter in a key of thirty
_NEAR: Final = 0.75  # `gpus` is for `gpu`; what another system calls `gpumem` is not
_NEAR_DOMAIN: Final = 0.9  # stricter: domains of vendors share endings such as `.com`
MOST: Final = 100
"""keys of one pod that are compared with known ones: a pod may have tens of thousands, and other calls wait meanwhile"""


def misspelt_keys(pod: PodView) -> list[Problem]:
    """Return a problem for each resource, label and annotation that is most likely misspelt."""
    where = where_pod(pod)
    kinds = (("label", pod.labels), ("annotation", pod.annotations))
    read = speaks_gang(Words(pod))  # then the reader of its gang says the same
    keys = (
        (kind, key)
        for kind, names in kinds
        for key in names
        if "/" in key and not _is_right(kind, key)
        if not (read and kind == "annotation" and key.startswith(KOORDINATOR_PREFIX))
    )
    return [
        *(Problem(where, name, f"unknown resource; did you mean {near}?") for name, near in misspelt_resources(pod)),
        *(Problem(where, key, wrong) for kind, key in islice(keys, MOST) if (wrong := _wrong_key(kind, key))),
    ]


def _is_right(kind: str, key: str) -> bool:
    return (kind == "annotation") if key in KOORDINATOR_KEYS else key in _KEYS or key in _SHARED_KEYS


def _wrong_key(kind: str, key: str) -> str:
    """Return what is wrong with a label or annotation that is not right; empty if its key resembles none."""
    if key in KOORDINATOR_KEYS:
        return "it is read as an annotation, not as a label"
    near = closest_key(key, _KEYS) or next(iter(get_close_matches(key.casefold(), _SHARED_KEYS, 1, _ALMOST)), "")
    if not near:
        return ""
    other = "the annotation " if near in KOORDINATOR_KEYS and kind == "label" else ""
    return f"unknown {kind}; did you mean {other}{near}?"


def misspelt_resources(pod: PodView) -> Iterator[tuple[str, str]]:
    """Yield each resource that is most likely misspelt, and the one that it is for."""
    unknown = list(islice((name for name in resources_of(pod) if "/" in name and not owners(name)), MOST))
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
