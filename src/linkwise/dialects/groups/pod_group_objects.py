"""PodGroup objects of five systems: fields that the pods of a group leave out.

Source: contract koordinator, sections 7 and 8.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.dialects.groups.conventions import VOLCANO, VOLCANO_SOURCE, WAIT, Words
from linkwise.dialects.groups.koordinator_gang import LABEL, NAME, NAME_LABEL, gang_words
from linkwise.dialects.groups.network import TIER
from linkwise.dialects.json_fields import Fields, Report, shown
from linkwise.model.ask import Group, NetworkWish
from linkwise.model.views import PodView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.model.ask import MatchPolicy
    from linkwise.model.verdict import Problem

__all__ = [
    "KINDS",
    "PodGroup",
    "gang_name",
    "is_made_for_pods",
    "names_no_node",
    "pod_group_kind",
    "pod_group_of",
    "points_to_pod_group",
    "volcano_pod_group",
    "with_pod_group",
]

KINDS: Final[Mapping[str, str]] = {
    "kubernetes": "PodGroup.scheduling.k8s.io",
    "koordinator": "PodGroup.scheduling.sigs.k8s.io",
    "scheduler-plugins": "PodGroup.scheduling.x-k8s.io",
    VOLCANO_SOURCE: "PodGroup.scheduling.volcano.sh",
    "kai": "PodGroup.scheduling.run.ai",
}
"""kind of the object by the source of the group; object names include the namespace"""

_DEFAULTS: Final = Group("", "")
_NO_NODE: Final = "nodes are unavailable"
"""in what Volcano writes about a pod whose nodes it tried; it has other words for queues and incomplete gangs"""
_MADE: Final = "podgroup-"
"""starts the names of PodGroups that Volcano's controllers make; the rest is the UID of the pod or its owner"""


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A group by its object; None for what the object leaves out."""

    minimum: int | None = None
    total: int | None = None
    waiting_time: float | None = None  # seconds
    match_policy: MatchPolicy = "once-satisfied"
    strict: bool = True
    bundle: tuple[str, ...] = ()
    network: tuple[NetworkWish, ...] = ()


def pod_group_of(kind: str, name: str, document: Mapping[str, object]) -> tuple[PodGroup | None, tuple[Problem, ...]]:
    """A PodGroup and its problems; the name includes the namespace."""
    report = Report(f"PodGroup {name}", "spec")
    spec = Fields.of(document.get("spec"), "spec", report)
    if spec is None:
        return None, tuple(report.problems)
    pod_group = _READERS[kind](spec)
    gang_problems: tuple[Problem, ...] = ()
    if kind == KINDS["koordinator"]:
        pod_group, gang_problems = _with_gang_annotations(pod_group, name, document)
    return None if report.broken else pod_group, (*report.problems, *gang_problems)


def gang_name(pod: PodView, group: Group) -> str:
    """Name of the group for PodGroups and other gangs, with the namespace; empty if it is not a gang."""
    if group.source != "koordinator":
        return group.key
    names = (pod.labels.get(LABEL), pod.labels.get(NAME_LABEL), pod.annotations.get(NAME))
    return next((f"{pod.namespace}/{name}" for name in names if name), volcano_pod_group(pod))


def volcano_pod_group(pod: PodView) -> str:
    """Namespace and name of the PodGroup that Volcano schedules the pod by; empty if its controllers named none yet."""
    return next((f"{pod.namespace}/{name}" for key in VOLCANO if (name := pod.annotations.get(key))), "")


def names_no_node(message: str) -> bool:
    """Return whether Volcano reports of a pod that no node passed its predicates."""
    return _NO_NODE in message


def is_made_for_pods(name: str) -> bool:
    """Whether Volcano made a PodGroup by itself, for a pod or the pods of one owner that is not a job of Volcano."""
    return name.partition("/")[2].startswith(_MADE)


def pod_group_kind(pod: PodView, group: Group) -> str:
    """Kind of the PodGroup that completes a group; empty if there is none.

    Pods with the labels of seed 001 may be pods of a Volcano job, which says how many of them must start.
    """
    if group.source == "koordinator" and group.minimum is None and LABEL not in pod.labels and volcano_pod_group(pod):
        return KINDS[VOLCANO_SOURCE]
    return KINDS.get(group.source, "")


def points_to_pod_group(pod: PodView, group: Group) -> bool:
    """Whether the pod names a PodGroup object; Koordinator's gangs may be declared by annotations alone."""
    if group.source != "koordinator":
        return group.source in KINDS
    return LABEL in pod.labels or pod_group_kind(pod, group) == KINDS[VOLCANO_SOURCE]


def with_pod_group(group: Group, pod_group: PodGroup) -> Group:
    """Return the group with the fields of the object; those of the pods take precedence."""
    wait = WAIT.get(group.source, _DEFAULTS.waiting_time)
    minimum = pod_group.minimum if group.minimum is None else group.minimum
    total = pod_group.total if group.total is None else group.total
    return replace(
        group,
        minimum=minimum,
        total=total if total is None or minimum is None or group.total else max(total, minimum),
        waiting_time=pod_group.waiting_time
        if pod_group.waiting_time and group.waiting_time == wait
        else group.waiting_time,
        match_policy=pod_group.match_policy if group.match_policy == _DEFAULTS.match_policy else group.match_policy,
        strict=pod_group.strict and group.strict,
        bundle=group.bundle or pod_group.bundle,
        network=group.network or pod_group.network,
    )


def _least(spec: Fields, name: str) -> int | None:
    """Read the number of members that must start together; 0 means none."""
    return spec.number(name, 0) or None


def _wait(spec: Fields) -> float | None:
    seconds = spec.number("scheduleTimeoutSeconds", 0)
    return float(seconds) if seconds else None


def _of_members(spec: Fields) -> PodGroup:
    return PodGroup(_least(spec, "minMember"), waiting_time=_wait(spec))


def _kubernetes(spec: Fields) -> PodGroup:
    policy = Fields.of(spec.raw.get("schedulingPolicy", {}), "spec.schedulingPolicy", spec.report)
    gang = policy.raw.get("gang") if policy else None
    read = Fields.of(gang, "spec.schedulingPolicy.gang", spec.report) if gang is not None else None
    rules = Fields.of(spec.raw.get("schedulingConstraints", {}), "spec.schedulingConstraints", spec.report)
    keys = [entry.text("key") for entry in rules.objects("topology")] if rules else []
    wishes = tuple(NetworkWish(key, required=True) for key in keys if key)
    if parent := spec.text("parentCompositePodGroupName", ""):
        spec.report.note(
            f"spec.parentCompositePodGroupName is {shown(parent)}, which is not read; the group is planned by itself"
        )
    return PodGroup(_least(read, "minCount") if read else None, network=wishes)


def _volcano(spec: Fields) -> PodGroup:
    raw = spec.raw.get("networkTopology")
    topology = Fields.of(raw, "spec.networkTopology", spec.report) if raw is not None else None
    return PodGroup(_least(spec, "minMember"), network=_tier(topology) if topology else ())


def _tier(topology: Fields) -> tuple[NetworkWish, ...]:
    """Read the tier that members share; soft without a tier is the default of every group."""
    mode, name = topology.text("mode", "hard"), topology.text("highestTierName", "")
    if mode not in {"hard", "soft"}:
        topology.report.refuse(f"{topology.path}mode is {shown(mode)}; write hard or soft")
        return ()
    if "highestTierAllowed" in topology.raw:
        number = topology.number("highestTierAllowed")
        return () if number is None else (NetworkWish(f"{TIER}{number}", required=mode == "hard"),)
    return (NetworkWish(f"{TIER}{name}", required=mode == "hard"),) if name else ()


def _kai(spec: Fields) -> PodGroup:
    topology = Fields.of(spec.raw.get("topologyConstraint", {}), "spec.topologyConstraint", spec.report)
    words = (("requiredTopologyLevel", True), ("preferredTopologyLevel", False)) if topology else ()
    levels = [(topology.text(key, ""), required) for key, required in words] if topology else []
    return PodGroup(_least(spec, "minMember"), network=tuple(NetworkWish(word, must) for word, must in levels if word))


def _with_gang_annotations(
    pod_group: PodGroup, name: str, document: Mapping[str, object]
) -> tuple[PodGroup, tuple[Problem, ...]]:
    """Add Koordinator's gang annotations, which are allowed on the object as on pods."""
    namespace, _, own = name.partition("/")
    meta = document.get("metadata")
    raw = meta.get("annotations") if isinstance(meta, dict) else None
    annotations = {key: text for key, text in raw.items() if isinstance(text, str)} if isinstance(raw, dict) else {}
    words = Words(PodView(namespace, own, "", labels={LABEL: own}, annotations=annotations))
    gang = gang_words(words)
    waits = gang.waiting_time if gang.waiting_time != _DEFAULTS.waiting_time else pod_group.waiting_time
    merged = PodGroup(
        pod_group.minimum or gang.minimum,
        gang.total,
        waits,
        gang.match_policy,
        gang.strict,
        gang.bundle,
        gang.network,
    )
    return merged, tuple(replace(problem, where=f"PodGroup {name}") for problem in words.problems)


_READERS: Final[Mapping[str, Callable[[Fields], PodGroup]]] = {
    KINDS["kubernetes"]: _kubernetes,
    KINDS["koordinator"]: _of_members,
    KINDS["scheduler-plugins"]: _of_members,
    KINDS["volcano"]: _volcano,
    KINDS["kai"]: _kai,
}
