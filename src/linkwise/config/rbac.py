"""What the service may do in a cluster: one table of features and the rules that each needs, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from linkwise.config.yaml_comments import commented
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["FEATURES", "OPTIONAL", "Feature", "Rule", "rbac_yaml"]

_CORE: Final = ("",)
_FOLLOW: Final = ("list", "watch")
_RBAC: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Rule:
    """What may be done with resources of some API groups."""

    groups: tuple[str, ...]
    """the core is the empty one"""
    resources: tuple[str, ...]
    verbs: tuple[str, ...] = _FOLLOW


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that the service does, and what it needs for that."""

    why: str
    rules: tuple[Rule, ...]
    namespace: str = ""
    """where the rules hold; empty for the whole cluster"""
    asked: bool = False
    """whether it is there only for who asks for it"""


FEATURES: Final[Mapping[str, Feature]] = {
    "extender": Feature(
        "Answer kube-scheduler, and bind: node and devices are written in one request. A pod is read by itself where it is"
        " not sure what became of its bind.",
        (
            Rule(_CORE, ("nodes",)),
            Rule(_CORE, ("pods",), ("get", *_FOLLOW)),
            Rule(_CORE, ("pods/binding",), ("create",)),
        ),
    ),
    "events": Feature("Tell people about decisions.", (Rule(_CORE, ("events",), ("create", "patch")),)),
    "wake": Feature(
        "Wake refused pods when there is room: an annotation is patched. Without it they wait up to five minutes.",
        (Rule(_CORE, ("pods",), ("patch",)),),
    ),
    "plans": Feature(
        "Write plans of groups on their members (placing.group.write_plans).", (Rule(_CORE, ("pods",), ("patch",)),)
    ),
    "evict": Feature(
        "Evict bound members of gangs that are stuck halfway (placing.group.evict_half_bound).",
        (Rule(_CORE, ("pods/eviction",), ("create",)),),
        asked=True,
    ),
    "inventories": Feature("Devices as our own agent tells them.", (Rule(("linkwise.dev",), ("deviceinventories",)),)),
    "koordinator": Feature("Devices as Koordinator tells them.", (Rule(("scheduling.koordinator.sh",), ("devices",)),)),
    "configmaps": Feature(
        "Chips as Huawei's plugin tells them, and devices that gpushare's users call unhealthy.",
        (Rule(_CORE, ("configmaps",)),),
        "kube-system",
    ),
    "groups": Feature(
        "PodGroups of Kubernetes, Koordinator, the scheduler plugins, Volcano and KAI.",
        (
            Rule(
                (
                    "scheduling.k8s.io",
                    "scheduling.sigs.k8s.io",
                    "scheduling.x-k8s.io",
                    "scheduling.volcano.sh",
                    "scheduling.run.ai",
                ),
                ("podgroups",),
            ),
        ),
    ),
    "network": Feature(
        "How nodes lie in the network, as Kueue, KAI, Koordinator and Volcano tell it.",
        (
            Rule(("kueue.x-k8s.io", "kai.scheduler"), ("topologies",)),
            Rule(("scheduling.koordinator.sh",), ("clusternetworktopologies",)),
            Rule(("topology.volcano.sh",), ("hypernodes",)),
        ),
    ),
}
OPTIONAL: Final = tuple(name for name, feature in FEATURES.items() if name != "extender" and not feature.asked)


def rbac_yaml(
    *,
    name: str = "linkwise",
    namespace: str = "linkwise-system",
    user: str = "",
    without: Collection[str] = (),
    evict: bool = False,
) -> str:
    """Roles and bindings of all features but some, for a service account, or for a user of that name.

    Evictions are among them only if asked for.
    """
    if strange := [feature for feature in without if feature not in OPTIONAL]:
        raise InputError(f"no such feature: {', '.join(strange)}; there are {', '.join(OPTIONAL)}")
    wanted = {*OPTIONAL, "extender", *(["evict"] if evict else [])} - set(without)
    chosen = {key: feature for key, feature in FEATURES.items() if key in wanted}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    texts = []
    if user:
        subject = {"kind": "User", "apiGroup": _RBAC, "name": user}
    else:
        texts.append(commented({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(name, namespace)}, {}))
    for place in dict.fromkeys(feature.namespace for feature in chosen.values()):
        inside = {key: feature for key, feature in chosen.items() if feature.namespace == place}
        texts += [_role(name, place, inside), _binding(name, place, subject)]
    return "---\n".join(texts)


def _role(name: str, place: str, features: Mapping[str, Feature]) -> str:
    rules: list[dict[str, Any]] = []
    notes: dict[str, str] = {}
    for key, feature in features.items():
        notes[f"rules[{len(rules)}]"] = f"{key}: {feature.why}"
        rules += [_rule(rule) for rule in feature.rules]
    document = {"apiVersion": f"{_RBAC}/v1", "kind": _kind(place), "metadata": _meta(name, place), "rules": rules}
    return commented(document, notes)


def _rule(rule: Rule) -> dict[str, Sequence[str]]:
    return {"apiGroups": list(rule.groups), "resources": list(rule.resources), "verbs": list(rule.verbs)}


def _binding(name: str, place: str, subject: Mapping[str, str]) -> str:
    document = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{_kind(place)}Binding",
        "metadata": _meta(name, place),
        "roleRef": {"apiGroup": _RBAC, "kind": _kind(place), "name": name},
        "subjects": [dict(subject)],
    }
    return commented(document, {})


def _kind(place: str) -> str:
    return "Role" if place else "ClusterRole"


def _meta(name: str, place: str) -> dict[str, Any]:
    return {
        "name": name,
        **({"namespace": place} if place else {}),
        "labels": {"app.kubernetes.io/name": "linkwise"},
    }
