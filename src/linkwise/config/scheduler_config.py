"""KubeSchedulerConfiguration for a second kube-scheduler with Linkwise as its extender, with explanatory comments.

Source: seed 004, the policy file of its scheduler; Kubernetes' own validation of such files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from linkwise.config.settings import HttpSettings
from linkwise.config.yaml_documents import yaml_with_comments
from linkwise.dialects.registry import BY_NAME, is_native, managed_resources, native_resources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "DEFAULT_TLS_URL",
    "DEFAULT_URL",
    "EVERY_POD_NOTE",
    "NOTES",
    "VERBS",
    "WEIGHT",
    "SchedulerFile",
    "TlsFiles",
    "every_resource",
    "profile_notes",
    "scheduler_yaml",
    "skeleton",
    "tls_notes",
    "weight_note",
]

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
DEFAULT_URL: Final = f"http://linkwise.linkwise-system.svc:{HttpSettings().port}"
DEFAULT_TLS_URL: Final = DEFAULT_URL.replace("http:", "https:")

_IN_TREE_POINTS: Final = 12 * 100
"""maximum of all in-tree scores together at their default weights, which add up to 12"""
_POINTS_PER_RANK: Final = 10
"""that kube-scheduler adds for one rank of an extender at weight 1: it scales 0-10 to 0-100"""
WEIGHT: Final = _IN_TREE_POINTS // _POINTS_PER_RANK + 1

_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
QPS: Final = 200  # requests per second
MAX_BACKOFF: Final = 2  # seconds

VERBS: Final[Mapping[str, str]] = {
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "preemptVerb": "preempt",
    "bindVerb": "bind",
}

_HEAD: Final = """\
For a second kube-scheduler next to the cluster's own: kube-scheduler --config=THIS-FILE
An extender adds latency to every pod of its scheduler, so pods without devices stay with the other one.
"""
NOTES: Final[Mapping[str, str]] = {
    "clientConnection.qps": "For pod conditions and events; the default of 50 would slow down a burst of pods.",
    "leaderElection.resourceName": "A separate lease: with the default name the two schedulers would block each other.",
    "percentageOfNodesToScore": (
        "Consider all nodes. By default kube-scheduler samples the nodes of large clusters, and the best node may not be "
        "in the sample that Linkwise gets."
    ),
    "podMaxBackoffSeconds": (
        "For pods whose call failed while Linkwise had no leader: nothing ends their backoff early, and the default of 10 would be"
        " added to every hand-over after a crash."
    ),
    "extenders[0].urlPrefix": (
        "The Service of Linkwise. A scheduler on the host network can't resolve its name: set an IP address with --url."
    ),
    "extenders[0].httpTimeout": (
        "Keep it above kube.bind_timeout of Linkwise, so that the scheduler gets the result of every bind."
    ),
    "extenders[0].nodeCacheCapable": "Send node names instead of Node objects: Linkwise watches nodes itself.",
    "extenders[0].ignorable": (
        "Never true together with bindVerb: if a bind failed, kube-scheduler would bind the pod without devices."
    ),
}
_FIT_NOTE: Final = (
    "Prefer nodes whose devices are partly in use, so that complete nodes stay free. Resources that a pod does not "
    "request do not count."
)
_MANAGED_NOTE: Final = (
    "Only pods that request one of these are sent to Linkwise. ignoredByScheduler stays false: kube-scheduler accounts "
    "for the total per node and preempts by it; Linkwise selects the devices."
)
EVERY_POD_NOTE: Final = (
    "No managedResources: every pod of this scheduler is sent to Linkwise, including gang members without devices. "
    "Set placing.every_pod of the service to true, or it refuses to bind pods that request no devices."
)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files by which kube-scheduler and the service authenticate to each other, as kube-scheduler sees them."""

    ca: str
    cert: str
    key: str
    server_name: str = ""
    """to expect in the certificate of the service, if not the host of the URL"""

    def to_extender(self) -> dict[str, Any]:
        """The keys of an extender."""
        name = {"serverName": self.server_name} if self.server_name else {}
        return {
            "enableHTTPS": True,
            "tlsConfig": {**name, "caFile": self.ca, "certFile": self.cert, "keyFile": self.key},
        }


@dataclass(frozen=True, slots=True)
class SchedulerFile:
    """Options of the file."""

    name: str = "linkwise-scheduler"
    namespace: str = "linkwise-system"
    url: str = DEFAULT_URL
    weight: int = WEIGHT
    every_pod: bool = False
    default_scheduler: bool = False
    leader_elect: bool = True
    kubeconfig: str = ""
    tls: TlsFiles | None = None


def scheduler_yaml(wanted: SchedulerFile) -> str:
    """The file as YAML text."""
    managed, notes = every_resource()
    document = skeleton(wanted, [entry["name"] for entry in managed])
    extender: dict[str, Any] = {
        "urlPrefix": wanted.url.rstrip("/"),
        **VERBS,
        "weight": wanted.weight,
        **(wanted.tls.to_extender() if wanted.tls else {}),
        "httpTimeout": "5s",
        "nodeCacheCapable": True,
        "ignorable": False,
    }
    if not wanted.every_pod:
        extender["managedResources"] = managed
    document["extenders"] = [extender]
    comments = {**NOTES, **profile_notes(wanted), "extenders[0].weight": weight_note(wanted.weight)}
    comments |= {f"extenders[0].{key}": text for key, text in notes.items()}
    if wanted.tls:
        comments |= {f"extenders[0].{key}": text for key, text in tls_notes(wanted.tls).items()}
    if wanted.url not in {DEFAULT_URL, DEFAULT_TLS_URL}:
        comments["extenders[0].urlPrefix"] = _url_note(wanted.url)
    if wanted.every_pod:
        comments["extenders[0]"] = EVERY_POD_NOTE
    return yaml_with_comments(document, comments, _HEAD)


def skeleton(wanted: SchedulerFile, resources: Sequence[str]) -> dict[str, Any]:
    """The configuration without extenders."""
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
        "podMaxBackoffSeconds": MAX_BACKOFF,
        "profiles": profiles,
    }


def every_resource() -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Every resource that Linkwise schedules, as managedResources, with comments by path."""
    managed: list[dict[str, Any]] = []
    notes = {"managedResources": f"{_MANAGED_NOTE}\n{_native_note()}"}
    for dialect, names in managed_resources().items():
        if BY_NAME[dialect].scheduler_note:
            notes[f"managedResources[{len(managed)}]"] = BY_NAME[dialect].scheduler_note
        # rule 002.limits: ordinary extended resources, so that quotas and limit ranges apply to them.
        managed += [{"name": name, "ignoredByScheduler": False} for name in names if not is_native(name)]
    return managed, notes


def _native_note() -> str:
    return (
        "kube-scheduler rejects names that look like native resources, so these are not listed: "
        f"{', '.join(native_resources())}. Pods that request only these are not sent to Linkwise."
    )


def _fit_config(resources: Sequence[str]) -> dict[str, Any]:
    """NodeResourcesFit that bin-packs devices."""
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
    """Comments on the profiles."""
    notes = {
        "profiles[0].schedulerName": f"For pods with schedulerName: {wanted.name}",
        "profiles[0].pluginConfig[0].args.scoringStrategy": _FIT_NOTE,
    }
    if wanted.default_scheduler:
        notes["profiles[1]"] = (
            "For pods without a schedulerName, with all in-tree plugins at their defaults. Only for a cluster whose own "
            "kube-scheduler is replaced by this one: two schedulers with the same name interfere with each other."
        )
    return notes


def weight_note(weight: int) -> str:
    """How the weight compares with the in-tree scores."""
    scale = (
        f"One rank of Linkwise adds {_POINTS_PER_RANK} points x weight; all in-tree scores together add at most "
        f"{_IN_TREE_POINTS} points at their default weights. "
    )
    if weight < WEIGHT:
        return (
            f"{scale}At {weight} they can outweigh a better rank where Linkwise returns nodes of different ranks "
            f"(placing.rounds); from {WEIGHT} the better rank always wins."
        )
    return f"{scale}At {weight} the better rank always wins, and in-tree scores decide among nodes of equal rank."


def tls_notes(files: TlsFiles) -> dict[str, str]:
    """Comments on the keys of `to_extender`, by key."""
    notes = {
        "enableHTTPS": "The service answers schedulers only if they present a client certificate of its authority.",
        "tlsConfig.caFile": (
            "Never leave it out: without it, kube-scheduler does not verify the service. It is read when kube-scheduler"
            " starts; restart it within three years after the service has added a new authority."
        ),
        "tlsConfig.certFile": "Read again at every handshake, so that renewed certificates need no restart.",
    }
    if files.server_name:
        notes["tlsConfig.serverName"] = "The name in the certificate of the service, if the URL has another."
    return notes


def _url_note(url: str) -> str:
    """A comment on the address of --url."""
    host = urlsplit(url).hostname or ""
    if host in _LOOPBACK:
        return "Set by --url: both must share a network namespace, such as two containers of a pod."
    if host.endswith((".svc", ".svc.cluster.local")):
        return (
            "Set by --url. A scheduler on the host network can't resolve the name of a Service: use an IP address then."
        )
    return f"Set by --url: {host} must be reachable from the scheduler."
