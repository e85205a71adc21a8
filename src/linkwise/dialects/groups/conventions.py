"""Group conventions of Kubernetes, scheduler-plugins, Volcano, KAI and Kueue.

If a PodGroup object holds the minimum, the group read from the pod has none; `pod_group_objects` adds it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.dialects.dialect import where_pod
from linkwise.dialects.groups.network import TIER
from linkwise.dialects.json_fields import shown
from linkwise.model.ask import Group, NetworkWish
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from linkwise.model.views import PodView

__all__ = ["Words", "kai", "kubernetes", "kueue", "scheduler_plugins", "volcano"]

SCHEDULER_PLUGINS: Final = "scheduling.x-k8s.io/pod-group"

VOLCANO_SOURCE: Final = "volcano"
VOLCANO: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
VOLCANO_MINIMUM: Final = "scheduling.volcano.sh/group-min-member"
VOLCANO_ROLE: Final = "volcano.sh/task-spec"
VOLCANO_NETWORK: Final = "volcano.sh/network-topology-mode"
VOLCANO_TIER: Final = "volcano.sh/network-topology-highest-tier"

KAI: Final = "pod-group-name"
KAI_ROLE: Final = "kai.scheduler/subgroup-name"
KAI_NETWORK: Final = {
    "kai.scheduler/topology-required-placement": True,
    "kai.scheduler/topology-preferred-placement": False,
}

KUEUE: Final = "kueue.x-k8s.io/pod-group-name"
KUEUE_TOTAL: Final = "kueue.x-k8s.io/pod-group-total-count"
KUEUE_ROLE: Final = "kueue.x-k8s.io/role-hash"
KUEUE_NETWORK: Final = {
    "kueue.x-k8s.io/podset-required-topology": True,
    "kueue.x-k8s.io/podset-preferred-topology": False,
}
KUEUE_SLICE: Final = "kueue.x-k8s.io/podset-slice-required-topology"

# Seconds that a member waits for the others where the pod can't say it.
WAIT: Final = {"kubernetes": 300.0, "scheduler-plugins": 60.0}

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_LEVEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,316}")
_COUNT: Final = re.compile(r"[0-9]{1,9}")
_DIGITS: Final = re.compile(r"-?[0-9]+")


class Words:
    """A pod's labels and annotations, and what is wrong with them."""

    def __init__(self, pod: PodView) -> None:
        self.pod = pod
        self.labels = pod.labels
        self.annotations = pod.annotations
        self.problems: list[Problem] = []

    def say(self, key: str, sentence: str) -> None:
        """Report what is wrong."""
        self.problems.append(Problem(where_pod(self.pod), key, sentence))

    def key(self, *parts: str) -> str:
        """Key of a group: the namespace and its parts, none of which has a slash."""
        return "/".join((self.pod.namespace, *parts))

    def name(self, key: str, text: str) -> str | None:
        """A group's name."""
        if _NAME.fullmatch(text):
            return text
        self.say(key, f"{shown(text)} is not a valid group name; use letters, digits, '-', '_' and '.'")
        return None

    def count(self, key: str, text: str, least: int = 1) -> int | None:
        """A number of pods, or a place among them."""
        if _COUNT.fullmatch(text) and int(text) >= least:
            return int(text)
        wrong = "is out of range" if _DIGITS.fullmatch(text) else "is not a number"
        self.say(key, f"{shown(text)} {wrong}; write a whole number of {least} or more")
        return None

    def wishes(self, keys: dict[str, bool]) -> tuple[NetworkWish, ...]:
        """Levels of the network that annotations name, each with whether it is required."""
        wishes = ((key, self.annotations[key], required) for key, required in keys.items() if key in self.annotations)
        return tuple(NetworkWish(text, required) for key, text, required in wishes if self._level(key, text))

    def _level(self, key: str, text: str) -> bool:
        if _LEVEL.fullmatch(text):
            return True
        self.say(key, f"{shown(text)} is not a network level; name a node label such as topology.kubernetes.io/zone")
        return False


def kubernetes(words: Words) -> Group | None:
    """The PodGroup that the spec itself points to."""
    name = words.name("spec.schedulingGroup.podGroupName", words.pod.scheduling_group)
    return Group(words.key(name), "kubernetes", waiting_time=WAIT["kubernetes"]) if name else None


def scheduler_plugins(words: Words) -> Group | None:
    """The PodGroup of the coscheduling plugin."""
    name = words.name(SCHEDULER_PLUGINS, words.labels[SCHEDULER_PLUGINS])
    return Group(words.key(name), "scheduler-plugins", waiting_time=WAIT["scheduler-plugins"]) if name else None


def volcano(words: Words) -> Group | None:
    """Volcano's PodGroup; its two keys must agree."""
    said = {key: words.annotations[key] for key in VOLCANO if key in words.annotations}
    key, text = next(iter(said.items()))
    if len(set(said.values())) > 1:
        other = said[VOLCANO[1]]
        words.say(VOLCANO[1], f"it is {shown(other)} and {key} is {shown(text)}; remove one, the pod is placed alone")
        return None
    name = words.name(key, text)
    if name is None:
        return None
    minimum = words.annotations.get(VOLCANO_MINIMUM)
    return Group(
        words.key(name),
        VOLCANO_SOURCE,
        minimum=None if minimum is None else words.count(VOLCANO_MINIMUM, minimum),
        role=words.annotations.get(VOLCANO_ROLE, ""),
        network=_volcano_network(words),
    )


def kai(words: Words) -> Group | None:
    """KAI's PodGroup; its subgroups are roles."""
    name = words.name(KAI, words.annotations[KAI])
    role = words.labels.get(KAI_ROLE, "")
    return Group(words.key(name), "kai", role=role, network=words.wishes(KAI_NETWORK)) if name else None


def kueue(words: Words) -> Group | None:
    """Kueue's group of plain pods: all of them start together, so the pod count is required."""
    name = words.name(KUEUE, words.labels[KUEUE])
    if KUEUE_TOTAL not in words.annotations:
        words.say(KUEUE_TOTAL, f"missing beside {KUEUE}; set the number of pods of the group")
        return None
    total = words.count(KUEUE_TOTAL, words.annotations[KUEUE_TOTAL])
    if name is None or total is None:
        return None
    if KUEUE_SLICE in words.annotations:
        words.say(KUEUE_SLICE, "slices of a group are not placed together; the complete group is")
    role = words.annotations.get(KUEUE_ROLE, "")
    return Group(words.key(name), "kueue", total=total, minimum=total, role=role, network=words.wishes(KUEUE_NETWORK))


def _volcano_network(words: Words) -> tuple[NetworkWish, ...]:
    mode, tier = words.annotations.get(VOLCANO_NETWORK), words.annotations.get(VOLCANO_TIER)
    if mode is None and tier is None:
        return ()
    if mode not in {"hard", "soft"}:
        words.say(VOLCANO_NETWORK, f"it is {shown(mode)} beside {VOLCANO_TIER}; write hard or soft")
        return ()
    if tier is None:
        words.say(VOLCANO_TIER, f"missing beside {VOLCANO_NETWORK}; set the tier that members share")
        return ()
    number = words.count(VOLCANO_TIER, tier)
    return () if number is None else (NetworkWish(f"{TIER}{number}", required=mode == "hard"),)
