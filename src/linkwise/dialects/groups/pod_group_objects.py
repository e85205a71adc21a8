"""PodGroup objects of five systems: what they add to groups whose pods leave it out.

Source: contract koordinator, sections 7 and 8.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.dialects.groups.conventions import WAIT, Words
from linkwise.dialects.groups.hyper_nodes import TIER
from linkwise.dialects.groups.koordinator_gang import LABEL, NAME, NAME_LABEL, gang_words
from linkwise.dialects.json_fields import Fields, Report, shown
from linkwise.model.ask import Group, NetworkWish
from linkwise.model.views import PodView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.model.ask import MatchPolicy
    from linkwise.model.verdict import Problem

__all__ = ["KINDS", "PodGroup", "gang_name", "pod_group_of", "with_pod_group"]

KINDS: Final[Mapping[str, str]] = {
    "kubernetes": "PodGroup.scheduling.k8s.io",
    "koordinator": "PodGroup.scheduling.sigs.k8s.io",
    "scheduler-plugins": "PodGroup.scheduling.x-k8s.io",
    "volcano": "PodGroup.scheduling.volcano.sh",
    "kai": "PodGroup.scheduling.run.ai",
}
"""kinds of objects by the source of the groups that they tell of; their names have the namespace before them"""

_USUAL: Final = Group("", "")


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
    found = _READERS[kind](spec)
    words: tuple[Problem, ...] = ()
    if kind == KINDS["koordinator"]:
        found, words = _with_gang_words(found, name, document)
    return None if report.broken else found, (*report.problems, *words)


def gang_name(pod: PodView, group: Group) -> str:
    """Name of the group for PodGroups and other gangs, with the namespace; empty if it is not a gang."""
    if group.source != "koordinator":
        return group.key
    told = (pod.labels.get(LABEL), pod.labels.get(NAME_LABEL), pod.annotations.get(NAME))
    return next((f"{pod.namespace}/{name}" for name in told if name), "")


def with_pod_group(group: Group, found: PodGroup) -> Group:
    """The group with what the object adds; what a pod says itself counts before it."""
    wait = WAIT.get(group.source, _USUAL.waiting_time)
    minimum = found.minimum if group.minimum is None else group.minimum
    total = found.total if group.total is None else group.total
    return replace(
        group,
        minimum=minimum,
        total=total if total is None or minimum is None or group.total else max(total, minimum),
        waiting_time=found.waiting_time if found.waiting_time and group.waiting_time == wait else group.waiting_time,
        match_policy=found.match_policy if group.match_policy == _USUAL.match_policy else group.match_policy,
        strict=found.strict and group.strict,
        bundle=group.bundle or found.bundle,
        network=group.network or found.network,
    )


def _least(spec: Fields, name: str) -> int | None:
    """A number of members that must start together; 0 asks for none."""
    return spec.number(name, 0) or None


def _wait(spec: Fields) -> float | None:
    found = spec.number("scheduleTimeoutSeconds", 0)
    return float(found) if found else None


def _of_members(spec: Fields) -> PodGroup:
    return PodGroup(_least(spec, "minMember"), waiting_time=_wait(spec))


def _kubernetes(spec: Fields) -> PodGroup:
    policy = Fields.of(spec.raw.get("schedulingPolicy", {}), "spec.schedulingPolicy", spec.report)
    gang = policy.raw.get("gang") if policy else None
    read = Fields.of(gang, "spec.schedulingPolicy.gang", spec.report) if gang is not None else None
    rules = Fields.of(spec.raw.get("schedulingConstraints", {}), "spec.schedulingConstraints", spec.report)
    keys = [entry.text("key") for entry in rules.objects("topology")] if rules else []
    wishes = tuple(NetworkWish(key, required=True) for key in keys if key)
    return PodGroup(_least(read, "minCount") if read else None, network=wishes)


def _volcano(spec: Fields) -> PodGroup:
    raw = spec.raw.get("networkTopology")
    told = Fields.of(raw, "spec.networkTopology", spec.report) if raw is not None else None
    return PodGroup(_least(spec, "minMember"), network=_tier(told) if told else ())


def _tier(told: Fields) -> tuple[NetworkWish, ...]:
    """The tier that members shall share; soft without a tier is what every group wants anyway."""
    mode, name = told.text("mode", "hard"), told.text("highestTierName", "")
    if mode not in {"hard", "soft"}:
        told.report.refuse(f"{told.path}mode is {shown(mode)}; write hard or soft")
        return ()
    if "highestTierAllowed" in told.raw:
        number = told.number("highestTierAllowed")
        return () if number is None else (NetworkWish(f"{TIER}{number}", required=mode == "hard"),)
    return (NetworkWish(f"{TIER}{name}", required=mode == "hard"),) if name else ()


def _kai(spec: Fields) -> PodGroup:
    told = Fields.of(spec.raw.get("topologyConstraint", {}), "spec.topologyConstraint", spec.report)
    words = (("requiredTopologyLevel", True), ("preferredTopologyLevel", False)) if told else ()
    levels = [(told.text(key, ""), required) for key, required in words] if told else []
    return PodGroup(_least(spec, "minMember"), network=tuple(NetworkWish(word, must) for word, must in levels if word))


def _with_gang_words(
    found: PodGroup, name: str, document: Mapping[str, object]
) -> tuple[PodGroup, tuple[Problem, ...]]:
    """Koordinator's gang words may stand on the object as they do on pods."""
    namespace, _, own = name.partition("/")
    meta = document.get("metadata")
    raw = meta.get("annotations") if isinstance(meta, dict) else None
    told = {key: text for key, text in raw.items() if isinstance(text, str)} if isinstance(raw, dict) else {}
    words = Words(PodView(namespace, own, "", labels={LABEL: own}, annotations=told))
    said = gang_words(words)
    waits = said.waiting_time if said.waiting_time != _USUAL.waiting_time else found.waiting_time
    made = PodGroup(
        found.minimum or said.minimum,
        said.total,
        waits,
        said.match_policy,
        said.strict,
        said.bundle,
        said.network,
    )
    return made, tuple(replace(problem, where=f"PodGroup {name}") for problem in words.problems)


_READERS: Final[Mapping[str, Callable[[Fields], PodGroup]]] = {
    KINDS["kubernetes"]: _kubernetes,
    KINDS["koordinator"]: _of_members,
    KINDS["scheduler-plugins"]: _of_members,
    KINDS["volcano"]: _volcano,
    KINDS["kai"]: _kai,
}
