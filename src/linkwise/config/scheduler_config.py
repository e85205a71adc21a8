"""A KubeSchedulerConfiguration for a second kube-scheduler that asks Linkwise, with comments that tell why.

Source: seed 004, the policy file of its scheduler; Kubernetes' own validation of such files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from linkwise.config.settings import HttpSettings
from linkwise.config.yaml_comments import commented
from linkwise.dialects.registry import NATIVE, RESOURCES, is_native

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "DEFAULT_URL",
    "NOTES",
    "VERBS",
    "WEIGHT",
    "SchedulerFile",
    "every_resource",
    "profile_notes",
    "scheduler_yaml",
    "skeleton",
    "weight_note",
]

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
DEFAULT_URL: Final = f"http://linkwise.linkwise-system.svc:{HttpSettings().port}"

_IN_TREE_POINTS: Final = 12 * 100
"""all of kube-scheduler's own scores at their default weights, which add up to 12, for the best node possible"""
_POINTS_OF_A_RANK: Final = 10
"""what kube-scheduler makes of one rank at weight 1: 100 points of a plugin are 10 of an extender"""
WEIGHT: Final = _IN_TREE_POINTS // _POINTS_OF_A_RANK + 1

_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
QPS: Final = 200  # requests a second

VERBS: Final[Mapping[str, str]] = {
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "preemptVerb": "preempt",
    "bindVerb": "bind",
}

_HEAD: Final = """\
For a second kube-scheduler beside the cluster's own: kube-scheduler --config=THIS-FILE
An extender costs every pod of its scheduler some time, so pods without devices stay with the other one.
"""
NOTES: Final[Mapping[str, str]] = {
    "clientConnection.qps": "Conditions and events of pods; kube-scheduler's own default of 50 would hold up a burst of pods.",
    "leaderElection.resourceName": "A lease of its own: by the usual name the two schedulers would wait for each other.",
    "percentageOfNodesToScore": (
        "All nodes are looked at. Otherwise kube-scheduler stops early in large clusters and the best node may not be "
        "among those that Linkwise is asked about."
    ),
    "extenders[0].urlPrefix": (
        "The Service of Linkwise. A scheduler on the host network can't resolve its name: give an address with --url."
    ),
    "extenders[0].httpTimeout": "Keep it above kube.bind_timeout of Linkwise, so that the end of a bind is heard.",
    "extenders[0].nodeCacheCapable": "Names go over the wire, not nodes: Linkwise watches nodes itself.",
    "extenders[0].ignorable": (
        "Never true beside bindVerb: a bind that failed would be done by kube-scheduler, without devices chosen."
    ),
}
_FIT_NOTE: Final = (
    "Nodes whose devices are in use already come first, so that whole nodes stay free. Resources that a pod does not "
    "ask for do not count."
)
_MANAGED_NOTE: Final = (
    "Only pods that ask for one of these are sent to Linkwise. ignoredByScheduler stays false: kube-scheduler counts "
    "the totals of nodes and preempts by them, Linkwise sees to which devices."
)
_NATIVE_NOTE: Final = (
    f"kube-scheduler refuses names that look like Kubernetes' own, so these are not here: {', '.join(NATIVE)}. Pods "
    "that ask for them alone are not sent to Linkwise."
)
_EVERY_POD_NOTE: Final = "No managedResources: every pod of this scheduler is sent to Linkwise, also members of a gang that ask for no device."
_DIALECT_NOTES: Final[Mapping[str, str]] = {
    "koordinator": (
        "Koordinator. If your nodes do not report gpu.shared, set ignoredByScheduler to true for it alone, or pods that "
        "ask for it wait for ever."
    ),
    "ascend": "Huawei Ascend. Parts of chips have too many names to list; their own plugin counts them.",
    "aliyun": "GPU sharing. Nobody may ask for gpu-count: who does is told so.",
}


@dataclass(frozen=True, slots=True)
class SchedulerFile:
    """What may be chosen about the file."""

    name: str = "linkwise-scheduler"
    namespace: str = "linkwise-system"
    url: str = DEFAULT_URL
    weight: int = WEIGHT
    every_pod: bool = False
    default_scheduler: bool = False
    leader_elect: bool = True
    kubeconfig: str = ""


def scheduler_yaml(wanted: SchedulerFile) -> str:
    """The file as text."""
    managed, notes = every_resource()
    document = skeleton(wanted, [entry["name"] for entry in managed])
    extender: dict[str, Any] = {
        "urlPrefix": wanted.url.rstrip("/"),
        **VERBS,
        "weight": wanted.weight,
        "httpTimeout": "5s",
        "nodeCacheCapable": True,
        "ignorable": False,
    }
    if not wanted.every_pod:
        extender["managedResources"] = managed
    document["extenders"] = [extender]
    told = {**NOTES, **profile_notes(wanted), "extenders[0].weight": weight_note(wanted.weight)}
    told |= {f"extenders[0].{key}": text for key, text in notes.items()}
    if wanted.url != DEFAULT_URL:
        told["extenders[0].urlPrefix"] = _url_note(wanted.url)
    if wanted.every_pod:
        told["extenders[0]"] = _EVERY_POD_NOTE
    return commented(document, told, _HEAD)


def skeleton(wanted: SchedulerFile, resources: Sequence[str]) -> dict[str, Any]:
    """All but the extenders."""
    election: dict[str, Any] = {"leaderElect": wanted.leader_elect}
    if wanted.leader_elect:
        election |= {"resourceName": wanted.name, "resourceNamespace": wanted.namespace}
    profiles: list[dict[str, Any]] = [{"schedulerName": wanted.name, "pluginConfig": [_fit_config(resources)]}]
    if wanted.default_scheduler:
        profiles.append({"schedulerName": "default-scheduler"})
    connection: dict[str, Any] = {"kubeconfig": wanted.kubeconfig} if wanted.kubeconfig else {}
    return {
        "apiVersion": API_VERSION,
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": connection | {"qps": QPS, "burst": 2 * QPS},
        "leaderElection": election,
        "percentageOfNodesToScore": 100,
        "profiles": profiles,
    }


def every_resource() -> tuple[list[dict[str, Any]], dict[str, str]]:
    """All that Linkwise can place, as managedResources, and the notes on it by key."""
    managed: list[dict[str, Any]] = []
    notes = {"managedResources": f"{_MANAGED_NOTE}\n{_NATIVE_NOTE}"}
    for dialect, names in RESOURCES.items():
        if dialect in _DIALECT_NOTES:
            notes[f"managedResources[{len(managed)}]"] = _DIALECT_NOTES[dialect]
        # rule 002.limits: ordinary extended resources, so that quotas and limit ranges count them as kube-scheduler does.
        managed += [{"name": name, "ignoredByScheduler": False} for name in names if not is_native(name)]
    return managed, notes


def _fit_config(resources: Sequence[str]) -> dict[str, Any]:
    """NodeResourcesFit that packs devices."""
    return {
        "name": "NodeResourcesFit",
        "args": {
            "apiVersion": API_VERSION,
            "kind": "NodeResourcesFitArgs",
            "scoringStrategy": {
                "type": "MostAllocated",
                "resources": [{"name": name, "weight": 1} for name in resources],
            },
        },
    }


def profile_notes(wanted: SchedulerFile) -> dict[str, str]:
    """Notes on the profiles."""
    notes = {
        "profiles[0].schedulerName": f"Pods are scheduled by it that say schedulerName: {wanted.name}",
        "profiles[0].pluginConfig[0].args.scoringStrategy": _FIT_NOTE,
    }
    if wanted.default_scheduler:
        notes["profiles[1]"] = (
            "Pods that name no scheduler, with everything in-tree as usual. Only for a cluster whose own kube-scheduler "
            "is replaced by this one: two that serve the same name get into each other's way."
        )
    return notes


def weight_note(weight: int) -> str:
    """What the weight means beside kube-scheduler's own scores."""
    told = (
        f"A rank of Linkwise counts {_POINTS_OF_A_RANK} points x weight; all in-tree scores together give at most "
        f"{_IN_TREE_POINTS} points at their default weights. "
    )
    if weight < WEIGHT:
        return (
            f"{told}At {weight} they can outweigh a better rank, if Linkwise is set to offer more than the best "
            f"(placing.offer: class); from {WEIGHT} on it always wins."
        )
    return f"{told}So at {weight} a better rank always wins, and in-tree preferences choose among nodes of one rank."


def _url_note(url: str) -> str:
    """What to know of an address that was given."""
    host = urlsplit(url).hostname or ""
    if host in _LOOPBACK:
        return "Linkwise as --url says: on the scheduler's own host, so both must share a network, as two containers of a pod do."
    if host.endswith((".svc", ".svc.cluster.local")):
        return "Linkwise as --url says. A scheduler on the host network can't resolve the name of a Service: give an address then."
    return f"Linkwise as --url says: the scheduler must reach {host} from where it runs."
