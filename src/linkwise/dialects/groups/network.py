"""Network of groups: HyperNodes, Topology objects and node labels, each from the broadest level to the narrowest.

HyperNodes of Volcano list the nodes under each switch, tier by tier; a lower tier is closer. Topology objects of Kueue and
KAI, and Koordinator's layers, order node labels from the broadest level to the narrowest.

Source: contract koordinator, section 8; contract dra, section 6.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.dialects.json_fields import Fields, Report, shown
from linkwise.model.settings import ACCELERATOR, FABRIC, NVIDIA, TIERS, TOPOGRAPH
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "HOSTNAME",
    "HYPER_NODE",
    "LADDERS",
    "LAYERS",
    "TIER",
    "TOPOLOGIES",
    "HyperNode",
    "Labels",
    "Ladder",
    "Selector",
    "Tiers",
    "current_labels",
    "hyper_node_of",
    "invalid_labels",
    "label_problem",
    "ladder_of",
    "same_level",
    "tiers_of",
]

HYPER_NODE: Final = "HyperNode.topology.volcano.sh"
TIER: Final = "volcano.sh/tier-"
"""how wishes name a tier: by its number, or by its name"""

_TYPES: Final = ("Node", "HyperNode")
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_REPEATED: Final = re.compile(r"\)[*+{]")
"""a group that is repeated can take for ever; Volcano's own expressions can't"""
_LONGEST: Final = 200

Expression = tuple[str, str, tuple[str, ...]]
"""a label's key, an operator and values"""
TOPOLOGIES: Final = ("Topology.kueue.x-k8s.io", "Topology.kai.scheduler")
LAYERS: Final = "ClusterNetworkTopology.scheduling.koordinator.sh"
LADDERS: Final = (*TOPOLOGIES, LAYERS)
"""kinds of objects that order labels"""
HOSTNAME: Final = "kubernetes.io/hostname"
CLUSTER_LAYER: Final = "ClusterTopologyLayer"
NODE_LAYER: Final = "NodeTopologyLayer"
Labels = Mapping[str, str]
_SAME: Final = {label: level for level in TOPOGRAPH for label in level}
_TIERS: Final = tuple(level[0] for level in TOPOGRAPH if level[0].startswith(FABRIC))
_REPLACED: Final = (
    (frozenset(_TIERS), frozenset(NVIDIA + name for name in ("core", "datacenter", "spine", "leaf", "block"))),
    (frozenset({f"{NVIDIA}core", f"{NVIDIA}leaf"}), frozenset({f"{NVIDIA}datacenter", f"{NVIDIA}block"})),
    (frozenset({f"{ACCELERATOR}domain", f"{ACCELERATOR}sub-domain"}), frozenset({f"{NVIDIA}accelerator"})),
)
"""labels of one version, and those of earlier versions that they replace on a node"""
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Selector:
    """Some members of a HyperNode: nodes, or other HyperNodes."""

    type: str
    name: str = ""
    pattern: re.Pattern[str] | None = None
    labels: tuple[Expression, ...] | None = None

    def takes(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether it means one of that name."""
        if self.pattern is not None:
            return self.pattern.search(name) is not None
        if self.labels is not None:
            return all(_met(labels.get(key), operator, values) for key, operator, values in self.labels)
        return name == self.name


@dataclass(frozen=True, slots=True)
class HyperNode:
    """Members of one switch."""

    name: str
    tier: int
    tier_name: str = ""
    members: tuple[Selector, ...] = ()


@dataclass(frozen=True, slots=True)
class Tiers:
    """All HyperNodes together: the levels, the broadest first, and the path of each node through them."""

    numbers: tuple[int, ...] = ()
    names: Mapping[str, int] = field(default_factory=dict)
    """tiers by their names"""
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """by node, a domain a tier; empty text where it is in none"""

    @property
    def levels(self) -> tuple[str, ...]:
        """The tiers as wishes name them."""
        return tuple(f"{TIER}{number}" for number in self.numbers)

    def level(self, name: str) -> str | None:
        """The broadest level that a wish allows: there may be gaps between tiers, and none as high."""
        word = name.removeprefix(TIER)
        if word == name:
            return None
        highest = int(word) if _NUMBER.fullmatch(word) else self.names.get(word, -1)
        return next((f"{TIER}{number}" for number in self.numbers if number <= highest), None)


def hyper_node_of(name: str, document: Mapping[str, object]) -> tuple[HyperNode | None, tuple[Problem, ...]]:
    """One HyperNode, and what is wrong with it."""
    report = Report(f"HyperNode {name}", "spec")
    spec = Fields.of(document.get("spec"), "spec", report)
    if spec is None:
        return None, tuple(report.problems)
    tier, tier_name = spec.number("tier"), spec.text("tierName", "")
    members = tuple(member for entry in spec.objects("members") if (member := _member(entry)))
    if report.broken or tier is None:
        return None, tuple(report.problems)
    return HyperNode(name, tier, tier_name or "", members), tuple(report.problems)


def tiers_of(hyper_nodes: Iterable[HyperNode], nodes: Mapping[str, Mapping[str, str]]) -> Tiers:
    """The tiers of the nodes, which are passed with their labels by name."""
    hypers = {hyper.name: hyper for hyper in sorted(hyper_nodes, key=lambda hyper: hyper.name)}
    numbers = tuple(sorted({hyper.tier for hyper in hypers.values()}, reverse=True))
    parents = _parents(hypers)
    homes = _homes(hypers.values(), nodes)
    paths = {}
    for name in nodes:
        domains = _domains(hypers, parents, homes.get(name, ()))
        if domains:
            paths[name] = _path(numbers, domains)
    return Tiers(numbers, {hyper.tier_name: hyper.tier for hyper in hypers.values() if hyper.tier_name}, paths)


@dataclass(frozen=True, slots=True)
class Ladder:
    """Levels of the network, the broadest first, with their other names."""

    levels: tuple[str, ...]
    """node labels"""
    names: Mapping[str, str] = field(default_factory=dict)
    """levels by their other names, in small letters: KAI's users write `rack`, Koordinator's `spineLayer`"""

    @classmethod
    def of(cls, levels: Iterable[str], names: Mapping[str, str] | None = None) -> Ladder:
        """Levels, each once, that are also called by what stands after the slash of their label."""
        ordered = tuple(dict.fromkeys(levels))
        short: dict[str, list[str]] = {}
        for level in ordered:
            short.setdefault(level.rpartition("/")[2].casefold(), []).append(level)
        called = {name: label[0] for name, label in short.items() if len(label) == 1}
        return cls(ordered, {**called, **{name.casefold(): level for name, level in (names or {}).items()}})

    def level(self, name: str) -> str | None:
        """The level that is called so."""
        return name if name in self.levels else self.names.get(name.casefold())


def ladder_of(kind: str, name: str, document: Mapping[str, object]) -> tuple[Ladder | None, tuple[Problem, ...]]:
    """The levels that an object orders, and what is wrong with it."""
    report = Report(f"{kind.partition('.')[0]} {name}", "spec")
    spec = Fields.of(document.get("spec"), "spec", report)
    ladder = None
    if spec is not None:
        ladder = _layers(spec) if kind == LAYERS else _levels(spec)
    return None if report.broken else ladder, tuple(report.problems)


def same_level(label: str) -> tuple[str, ...]:
    """Return the labels that name the level of this one, the newest first; most levels have one."""
    return _SAME.get(label, (label,))


def current_labels(labels: Labels) -> Labels:
    """Return the labels without those of earlier versions of topograph on a node that has newer ones.

    An upgrade may leave the old labels in place, so they are not used for levels that the new ones lack.
    """
    stale = [old for new, old in _REPLACED if not new.isdisjoint(labels) and not old.isdisjoint(labels)]
    dropped = frozenset().union(*stale)
    return {label: value for label, value in labels.items() if label not in dropped} if dropped else labels


def invalid_labels(labels: Labels) -> tuple[str, ...]:
    """Return labels of topograph that name no level, and tiers that are missing below a broader one, as `no LABEL`."""
    ours = [label for label in labels if label.startswith((FABRIC, ACCELERATOR))]
    if not ours:
        return ()
    unknown = [label for label in ours if label not in _SAME]
    highest = next((number for number, label in enumerate(_TIERS) if label in labels), TIERS)
    missing = [f"no {label}" for label in _TIERS[highest:] if label not in labels]
    return (*sorted(unknown), *missing)


def label_problem(nodes: Mapping[str, Iterable[str]]) -> Problem:
    """Return one problem for the invalid labels of all nodes."""
    by_label: dict[str, list[str]] = {}
    for node, labels in sorted(nodes.items()):
        for label in labels:
            by_label.setdefault(label, []).append(node)
    named = [f"{label} on {len(names)} node(s) such as {names[0]}" for label, names in sorted(by_label.items())]
    more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    return Problem(
        "nodes", FABRIC, f"{'; '.join(named[:_SHOWN])}{more}; the labels are tier-0 to tier-{TIERS - 1}, 0 is closest"
    )


def _met(value: str | None, operator: str, values: tuple[str, ...]) -> bool:
    if operator in {"In", "NotIn"}:
        return (value in values) == (operator == "In")
    return (value is not None) == (operator == "Exists")


def _member(entry: Fields) -> Selector | None:
    kind, selector = entry.text("type"), Fields.of(entry.raw.get("selector"), f"{entry.path}selector", entry.report)
    if kind not in _TYPES:
        entry.report.refuse(f"{entry.path}type is {shown(kind)}; one of {', '.join(_TYPES)} is expected")
    if selector is None or kind not in _TYPES:
        return None
    matchers = [key for key in ("exactMatch", "regexMatch", "labelMatch") if key in selector.raw]
    if len(matchers) != 1 or (matchers[0] == "labelMatch" and kind != "Node"):
        entry.report.refuse(f"{selector.path}exactMatch, regexMatch or, of nodes, labelMatch is expected, one of them")
        return None
    matched = Fields.of(selector.raw[matchers[0]], f"{selector.path}{matchers[0]}", entry.report)
    if matched is None:
        return None
    if matchers[0] == "exactMatch":
        return Selector(kind, matched.text("name") or "")
    if matchers[0] == "regexMatch":
        return Selector(kind, pattern=_pattern(matched))
    return Selector(kind, labels=tuple(_expressions(matched)))


def _pattern(matched: Fields) -> re.Pattern[str] | None:
    text = matched.text("pattern")
    if text is None:
        return None
    try:
        if len(text) <= _LONGEST and not _REPEATED.search(text):
            return re.compile(text)
    except re.error:
        pass
    matched.report.refuse(
        f"{matched.path}pattern is {shown(text)}; a regular expression of up to {_LONGEST} characters is expected, "
        "in which no group is repeated"
    )
    return None


def _expressions(matched: Fields) -> Iterator[Expression]:
    labels = Fields.of(matched.raw.get("matchLabels", {}), f"{matched.path}matchLabels", matched.report)
    for key in labels.raw if labels else ():
        yield str(key), "In", (labels.text(str(key), "") or "" if labels else "",)
    for entry in matched.objects("matchExpressions"):
        key, operator, values = entry.text("key"), entry.text("operator"), entry.texts("values", ())
        if operator not in _OPERATORS:
            entry.report.refuse(
                f"{entry.path}operator is {shown(operator)}; one of {', '.join(_OPERATORS)} is expected"
            )
        elif key is not None and values is not None:
            yield key, operator, values


def _parents(hypers: Mapping[str, HyperNode]) -> dict[str, list[str]]:
    """The HyperNodes that each HyperNode is a member of."""
    parents: dict[str, list[str]] = {}
    for hyper in hypers.values():
        for member in hyper.members:
            for other in hypers if member.type == "HyperNode" else ():
                if other != hyper.name and member.takes(other, {}):
                    parents.setdefault(other, []).append(hyper.name)
    return parents


def _homes(hypers: Iterable[HyperNode], nodes: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """The HyperNodes that each node is a member of itself."""
    homes: dict[str, list[str]] = {}
    for hyper in hypers:
        for member in hyper.members:
            if member.type != "Node":
                continue
            exact = member.pattern is None and member.labels is None
            for name in (member.name,) if exact else nodes:
                if name in nodes and (exact or member.takes(name, nodes[name])):
                    homes.setdefault(name, []).append(hyper.name)
    return homes


def _domains(
    hypers: Mapping[str, HyperNode], parents: Mapping[str, Sequence[str]], homes: Sequence[str]
) -> dict[int, str]:
    """The domain of each tier; of two in one tier, which a tree does not have, the first by name."""
    domains: dict[int, str] = {}
    seen, open_ones = set(homes), list(homes)
    while open_ones:
        hyper = hypers[open_ones.pop()]
        domains[hyper.tier] = min(hyper.name, domains.get(hyper.tier, hyper.name))
        new = [name for name in parents.get(hyper.name, ()) if name not in seen]
        seen.update(new)
        open_ones += new
    return domains


def _path(numbers: Sequence[int], domains: Mapping[int, str]) -> tuple[str, ...]:
    """A domain that lies in no broader one stands for itself there."""
    path: list[str] = []
    word = ""
    for number in reversed(numbers):
        word = domains.get(number, word)
        path.append(word)
    return tuple(reversed(path))


def _layers(spec: Fields) -> Ladder:
    """Layers from the broadest on: each names the one above it."""
    labels: dict[str, str] = {}
    below: dict[str, str] = {}
    for entry in spec.objects("networkTopologySpec"):
        layer, above = entry.text("topologyLayer"), entry.text("parentTopologyLayer", "")
        if layer is None or above is None or layer == CLUSTER_LAYER:
            continue
        labels[layer] = _label(entry, layer)
        other = below.setdefault(above or CLUSTER_LAYER, layer)
        if other != layer:
            spec.report.refuse(f"{entry.path}parentTopologyLayer is {shown(above)}, as that of layer {shown(other)}")
    order = _downwards(below)
    for layer in sorted(labels.keys() - set(order)):
        spec.report.refuse(f"layer {shown(layer)} hangs on no other layer; name the one above it")
    layers = {layer: labels[layer] for layer in order if labels.get(layer)}
    return Ladder.of(layers.values(), layers)


def _label(entry: Fields, layer: str) -> str:
    keys = entry.texts("labelKey", ()) or ()
    if len(keys) > 1:
        entry.report.note(f"{entry.path}labelKey has several labels; only {keys[0]} is read")
    if not keys and layer != NODE_LAYER:
        entry.report.refuse(f"{entry.path}labelKey is missing; name the node label of layer {shown(layer)}")
    return keys[0] if keys else HOSTNAME if layer == NODE_LAYER else ""


def _downwards(below: Mapping[str, str]) -> list[str]:
    order: list[str] = []
    layer = below.get(CLUSTER_LAYER)
    while layer is not None and layer not in order:
        order.append(layer)
        layer = below.get(layer)
    return order


def _levels(spec: Fields) -> Ladder:
    labels = [entry.text("nodeLabel") for entry in spec.objects("levels")]
    if not labels:
        spec.report.refuse("spec.levels is empty; name at least one node label")
    return Ladder.of(label for label in labels if label)
