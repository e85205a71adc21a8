"""RBAC of the service and the node agent: the rules that each feature needs, as tables and as manifests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from linkwise.config.settings import TlsSettings
from linkwise.config.yaml_documents import yaml_with_comments
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = [
    "AGENT_FEATURES",
    "AGENT_OPTIONAL",
    "FEATURES",
    "OPTIONAL",
    "OWN_NAMESPACE",
    "SERVICE_PORT",
    "TENANTS_PORT",
    "TENANTS_PORT_NUMBER",
    "Feature",
    "Rule",
    "agent_rbac_yaml",
    "proxied_service",
    "rbac_yaml",
    "webhook_features",
    "webhook_rbac_yaml",
]

_TLS: Final = TlsSettings()
_CORE: Final = ("",)
_FOLLOW: Final = ("list", "watch")
_KEEP: Final = ("get", "create", "patch", "update")
"""to read and write one object, which server-side apply creates"""
_RBAC: Final = "rbac.authorization.k8s.io"
_ADMISSION: Final = "admissionregistration.k8s.io"
_CONFIGURATIONS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
OWN_NAMESPACE: Final = "linkwise-system"
"""stands for the namespace of the service, which is an argument"""
SERVICE_PORT: Final = 39999
"""of the Service, as `http.port` is by default"""
TENANTS_PORT: Final = "tenants"
"""name of the port of the Service that leads to the routes for tenants alone"""
TENANTS_PORT_NUMBER: Final = 39996
"""of the Service, as the chart sets `explain.port`"""


@dataclass(frozen=True, slots=True)
class Rule:
    """An RBAC policy rule."""

    groups: tuple[str, ...]
    """API groups; the core group is empty"""
    resources: tuple[str, ...]
    verbs: tuple[str, ...] = _FOLLOW
    names: tuple[str, ...] = ()
    """of the objects; empty for all"""


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature and the permissions it needs."""

    why: str
    rules: tuple[Rule, ...]
    namespace: str = ""
    """of the role; empty for a cluster role, OWN_NAMESPACE for a role where the service is"""
    opt_in: bool = False
    """whether it is included only on request"""


FEATURES: Final[Mapping[str, Feature]] = {
    "extender": Feature(
        "Serve the extender API and bind pods: node and devices are written in one request. Get is for reading a pod whose"
        " bind has an unknown outcome.",
        (
            Rule(_CORE, ("nodes",)),
            Rule(_CORE, ("pods",), ("get", *_FOLLOW)),
            Rule(_CORE, ("pods/binding",), ("create",)),
        ),
    ),
    "leader": Feature(
        "Hold the Lease by which one of several replicas decides (leader.enabled), and write the EndpointSlice and the"
        " Endpoints that lead to it (leader.service). RBAC can't restrict the names of new objects.",
        (
            Rule(("coordination.k8s.io",), ("leases",), ("create",)),
            Rule(("coordination.k8s.io",), ("leases",), ("get", "watch", "update"), ("linkwise",)),
            Rule(_CORE, ("services",), ("get",), ("linkwise",)),
            Rule(("discovery.k8s.io",), ("endpointslices",), ("create",)),
            Rule(("discovery.k8s.io",), ("endpointslices",), ("get", "update"), ("linkwise-leader",)),
            Rule(_CORE, ("endpoints",), ("create",)),
            Rule(_CORE, ("endpoints",), ("get", "update"), ("linkwise",)),
        ),
        OWN_NAMESPACE,
    ),
    "tls": Feature(
        "Keep the certificates of the port that schedulers call, and the client certificate of kube-scheduler (tls.enabled). They"
        " are created by server-side apply, for which RBAC compares names.",
        (Rule(_CORE, ("secrets",), _KEEP, (_TLS.secret, _TLS.client_secret)),),
        OWN_NAMESPACE,
        opt_in=True,
    ),
    "events": Feature("Report decisions as events.", (Rule(_CORE, ("events",), ("create", "patch")),)),
    "wake": Feature(
        "Requeue unschedulable pods when devices become free, by patching an annotation. Without it they wait up to five"
        " minutes.",
        (Rule(_CORE, ("pods",), ("patch",)),),
    ),
    "conditions": Feature(
        "Publish why a pod is pending as a condition of the pod, for its owner (explain.publish).",
        (Rule(_CORE, ("pods/status",), ("patch",)),),
    ),
    "tenants": Feature(
        "Answer users who have rights in single namespaces only, with their own rights (explain.tenants).",
        (
            Rule(("authentication.k8s.io",), ("tokenreviews",), ("create",)),
            Rule(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)),
        ),
    ),
    "gates": Feature(
        "Write the plan of a gang on its members, nominate their nodes, and remove the scheduling gate that the webhook adds."
        " Without it members of gangs stay gated.",
        (Rule(_CORE, ("pods", "pods/status"), ("patch",)),),
    ),
    "evict": Feature(
        "Evict pods of lower priority for groups and pods that need their devices (placing.preemption.evict), and the bound"
        " members of partially bound gangs (placing.group.evict_half_bound).",
        (Rule(_CORE, ("pods/eviction",), ("create",)),),
    ),
    "rank-tables": Feature(
        "Write the rank tables of Ascend jobs into the ConfigMaps rings-config-JOB of their namespaces (placing.rank_tables).",
        (Rule(_CORE, ("configmaps",), ("get", "patch")),),
        opt_in=True,
    ),
    "budgets": Feature(
        "Read PodDisruptionBudgets, so that preemption disrupts as few of them as possible.",
        (Rule(("policy",), ("poddisruptionbudgets",)),),
    ),
    "volumes": Feature(
        "Read PersistentVolumeClaims and StorageClasses, so that a gang starts only if its members get their volumes.",
        (
            Rule(_CORE, ("persistentvolumeclaims",)),
            Rule(("storage.k8s.io",), ("storageclasses",)),
        ),
    ),
    "policies": Feature(
        "Enforce AcceleratorPolicies, which may select namespaces by their labels, and report in their status.",
        (
            Rule(("linkwise.dev",), ("acceleratorpolicies",)),
            Rule(("linkwise.dev",), ("acceleratorpolicies/status",), ("patch",)),
            Rule(_CORE, ("namespaces",)),
        ),
    ),
    "inventories": Feature(
        "Read devices and links from DeviceInventory objects.", (Rule(("linkwise.dev",), ("deviceinventories",)),)
    ),
    "koordinator": Feature(
        "Read devices from Koordinator's Device objects.", (Rule(("scheduling.koordinator.sh",), ("devices",)),)
    ),
    "numa": Feature(
        "Read the policy of the Topology Manager and free CPUs by NUMA node from NodeResourceTopology objects.",
        (Rule(("topology.node.k8s.io",), ("noderesourcetopologies",)),),
    ),
    "configmaps": Feature(
        "Read Ascend chips from the ConfigMaps of Huawei's device plugin, and gpushare's lists of unhealthy devices.",
        (Rule(_CORE, ("configmaps",)),),
        "kube-system",
    ),
    "claims": Feature(
        "Plan the devices that Dynamic Resource Allocation serves: those in ResourceSlices, without those that ResourceClaims"
        " have. Create and delete are for claims that name the planned devices of a pod (placing.claims.plan).",
        (
            Rule(("resource.k8s.io",), ("deviceclasses", "devicetaintrules", "resourceslices")),
            Rule(("resource.k8s.io",), ("resourceclaims",), ("get", *_FOLLOW, "create", "delete")),
        ),
    ),
    "groups": Feature(
        "Read the PodGroups of Kubernetes, Koordinator, the scheduler plugins, Volcano and KAI.",
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
        "Read the network topology from the objects of Kueue, KAI, Koordinator and Volcano.",
        (
            Rule(("kueue.x-k8s.io", "kai.scheduler"), ("topologies",)),
            Rule(("scheduling.koordinator.sh",), ("clusternetworktopologies",)),
            Rule(("topology.volcano.sh",), ("hypernodes",)),
        ),
    ),
}
OPTIONAL: Final = tuple(name for name, feature in FEATURES.items() if name != "extender" and not feature.opt_in)

AGENT_FEATURES: Final[Mapping[str, Feature]] = {
    "inventory": Feature(
        "Publish the devices of the node and their allocations as a DeviceInventory, which the Node owns.",
        (
            Rule(("linkwise.dev",), ("deviceinventories",), ("get", *_FOLLOW, "create", "patch")),
            Rule(("linkwise.dev",), ("deviceinventories/status",), ("patch",)),
            Rule(_CORE, ("nodes",), ("get", *_FOLLOW)),
        ),
    ),
    "node": Feature(
        "Label the node, annotate it with its link matrix, report the number of shared devices in its status, and taint it"
        " on request (agent.stranded.taint).",
        (Rule(_CORE, ("nodes", "nodes/status"), ("patch",)),),
    ),
    "pods": Feature(
        "Match the kubelet's allocations to pods of the node, and correct their records.",
        (Rule(_CORE, ("pods",), (*_FOLLOW, "patch")),),
    ),
    "events": Feature("Report corrections as events.", (Rule(_CORE, ("events",), ("create", "patch")),)),
    "dra": Feature(
        "Publish the devices of the node as ResourceSlices, and read the ResourceClaims that the kubelet names (agent.mode: dra).",
        (
            Rule(("resource.k8s.io",), ("resourceslices",), ("get", *_FOLLOW, "create", "update", "delete")),
            Rule(("resource.k8s.io",), ("resourceclaims",), ("get",)),
        ),
        opt_in=True,
    ),
    "koordinator": Feature(
        "Write Koordinator's Device object, on nodes where no koordlet does (agent.koordinator_device).",
        (Rule(("scheduling.koordinator.sh",), ("devices",), ("get", *_FOLLOW, "create", "patch")),),
        opt_in=True,
    ),
    "device-info": Feature(
        "Write the ConfigMap of Huawei's device plugin for the node (agent.ascend.device_info). RBAC can't restrict the names"
        " of new objects; `linkwise manifests protection` does.",
        (Rule(_CORE, ("configmaps",), ("get", *_FOLLOW, "create", "patch")),),
        "kube-system",
        opt_in=True,
    ),
}
AGENT_OPTIONAL: Final = ("node", "events")
"""what the agent can do without"""


def rbac_yaml(  # noqa: PLR0913 - one per flag
    *,
    name: str = "linkwise",
    namespace: str = "linkwise-system",
    user: str = "",
    without: Collection[str] = (),
    rank_tables: bool = False,
    tls: bool = False,
) -> str:
    """Roles and bindings of the service, for a service account or a user; what is dangerous only on request."""
    wanted = {"rank-tables": rank_tables, "tls": tls}
    chosen = _chosen(FEATURES, OPTIONAL, without, [key for key, value in wanted.items() if value])
    chosen = {
        key: replace(feature, namespace=namespace) if feature.namespace == OWN_NAMESPACE else feature
        for key, feature in chosen.items()
    }
    own = _manifests(chosen, name, namespace, user)
    return own if "tenants" in without else "---\n".join((own, *_proxy_role(name, namespace, tls=tls)))


def agent_rbac_yaml(  # noqa: PLR0913 - one per flag
    *,
    name: str = "linkwise-agent",
    namespace: str = "linkwise-system",
    user: str = "",
    without: Collection[str] = (),
    koordinator: bool = False,
    device_info: bool = False,
    dra: bool = False,
) -> str:
    """Roles and bindings of the node agent, for a service account or a user; objects of other systems only on request."""
    wanted = {"koordinator": koordinator, "device-info": device_info, "dra": dra}
    chosen = _chosen(AGENT_FEATURES, AGENT_OPTIONAL, without, [key for key, value in wanted.items() if value])
    return _manifests(chosen, name, namespace, user)


def webhook_rbac_yaml(*, namespace: str, account: str, secret: str, configuration: str, user: str = "") -> str:
    """Roles and bindings for the webhook of the service, which are needed beside those of `rbac_yaml`.

    Args:
        namespace: of the service and the Secret
        account: name of the service account
        secret: name of the Secret with the certificates
        configuration: name of the webhook configurations
        user: whom the roles are bound to instead of the service account
    """
    features = webhook_features(namespace=namespace, secret=secret, configuration=configuration)
    return _roles(features, f"{account}-webhook", _subject(account, namespace, user))


def webhook_features(*, namespace: str, secret: str, configuration: str) -> dict[str, Feature]:
    """What the webhook of the service needs, unless its certificates come from files."""
    return {
        "webhook-secret": Feature(
            "Keep the certificates of the admission webhook, so that restarts and replicas share them.",
            (Rule(_CORE, ("secrets",), _KEEP, (secret,)),),
            namespace,
        ),
        "webhook-trust": Feature(
            "Write the certificate of the webhook's authority into its configurations, and repair it.",
            (Rule((_ADMISSION,), _CONFIGURATIONS, ("get", "patch"), (configuration,)),),
        ),
    }


def _chosen(
    features: Mapping[str, Feature], optional: Collection[str], without: Collection[str], wanted: Collection[str]
) -> dict[str, Feature]:
    """The features without those left out; opt-in ones only if they are wanted."""
    if unknown := [feature for feature in without if feature not in optional]:
        raise InputError(f"unknown feature: {', '.join(unknown)}; use {', '.join(optional)}")
    return {
        key: feature
        for key, feature in features.items()
        if key not in without and (key in wanted or not feature.opt_in)
    }


def _manifests(chosen: Mapping[str, Feature], name: str, namespace: str, user: str) -> str:
    roles = _roles(chosen, name, _subject(name, namespace, user))
    if user:
        return roles
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(name, namespace)}
    return f"{yaml_with_comments(account, {})}---\n{roles}"


def _subject(account: str, namespace: str, user: str) -> dict[str, str]:
    if user:
        return {"kind": "User", "apiGroup": _RBAC, "name": user}
    return {"kind": "ServiceAccount", "name": account, "namespace": namespace}


def _roles(chosen: Mapping[str, Feature], name: str, subject: Mapping[str, str]) -> str:
    texts = []
    for place in dict.fromkeys(feature.namespace for feature in chosen.values()):
        inside = {key: feature for key, feature in chosen.items() if feature.namespace == place}
        texts += [_role(name, place, inside), _binding(name, place, subject)]
    return "---\n".join(texts)


def proxied_service(service: str, *, tls: bool) -> tuple[str, ...]:
    """Names of the resource services/proxy by which the port for tenants is reached: scheme, Service and name of the port."""
    return (
        (f"https:{service}:{TENANTS_PORT}",) if tls else (f"{service}:{TENANTS_PORT}", f"http:{service}:{TENANTS_PORT}")
    )


def _proxy_role(name: str, namespace: str, *, tls: bool) -> list[str]:
    """Role and binding that let every authenticated user reach the service through the API server."""
    about = f"{name}-tenants"
    rule = {
        "apiGroups": [""],
        "resources": ["services/proxy"],
        "resourceNames": list(proxied_service("linkwise", tls=tls)),
        "verbs": ["get", "create"],  # a plan of a manifest is asked for by POST; nothing is created
    }
    role = {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": _meta(about, namespace), "rules": [rule]}
    note = (
        "tenants: Let users ask the service through the API server; it answers each with the user's own rights. The port has"
        " no other routes, and the names of the resource allow no other port."
    )
    everybody = {"kind": "Group", "apiGroup": _RBAC, "name": "system:authenticated"}
    return [yaml_with_comments(role, {"rules[0]": note}), _binding(about, namespace, everybody)]


def _role(name: str, place: str, features: Mapping[str, Feature]) -> str:
    rules: list[dict[str, Any]] = []
    notes: dict[str, str] = {}
    for key, feature in features.items():
        notes[f"rules[{len(rules)}]"] = f"{key}: {feature.why}"
        rules += [_rule(rule) for rule in feature.rules]
    document = {"apiVersion": f"{_RBAC}/v1", "kind": _kind(place), "metadata": _meta(name, place), "rules": rules}
    return yaml_with_comments(document, notes)


def _rule(rule: Rule) -> dict[str, Sequence[str]]:
    names = {"resourceNames": list(rule.names)} if rule.names else {}
    return {"apiGroups": list(rule.groups), "resources": list(rule.resources), **names, "verbs": list(rule.verbs)}


def _binding(name: str, place: str, subject: Mapping[str, str]) -> str:
    document = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{_kind(place)}Binding",
        "metadata": _meta(name, place),
        "roleRef": {"apiGroup": _RBAC, "kind": _kind(place), "name": name},
        "subjects": [dict(subject)],
    }
    return yaml_with_comments(document, {})


def _kind(place: str) -> str:
    return "Role" if place else "ClusterRole"


def _meta(name: str, place: str) -> dict[str, Any]:
    return {
        "name": name,
        **({"namespace": place} if place else {}),
        "labels": {"app.kubernetes.io/name": "linkwise"},
    }
