"""Views encoded as Kubernetes objects; decoding the result gives the same view.

Only fields of the view are written. Where a view has less than the object needs, an equivalent is written: all host ports
are on one container, the deletionTimestamp of a pod is its creationTimestamp, and whatever a pod prefers is a topology
spread constraint.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from linkwise.model.views import SelectorRequirement
from linkwise.wire.kubernetes.pod_view import REJECTED
from linkwise.wire.kubernetes.writes import pod_condition

if TYPE_CHECKING:
    from linkwise.model.views import ContainerView, HostPort, NodeTerm, NodeView, PodTerm, PodView, SpreadConstraint

__all__ = ["node_object", "pod_object"]

Object = dict[str, Any]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NO_POD: Final = (SelectorRequirement("", "In"),)
"""the view of a term without a selector: it matches no pod"""
_ANYWHERE: Final = "0.0.0.0"  # noqa: S104 - how Kubernetes writes all addresses; nothing is bound here
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def pod_object(view: PodView) -> Object:
    """The pod as a JSON object."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _pod_meta(view),
        "spec": _pod_spec(view),
        "status": _pod_status(view),
    }


def node_object(view: NodeView) -> Object:
    """The node as a JSON object."""
    taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in view.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _non_empty(
            {
                "name": view.name,
                "labels": dict(view.labels),
                "annotations": dict(view.annotations),
                "resourceVersion": str(view.version or ""),
            }
        ),
        "spec": _non_empty({"unschedulable": view.unschedulable, "taints": taints}),
        "status": _non_empty(
            {
                "capacity": dict(view.capacity),
                "allocatable": dict(view.allocatable),
                "conditions": [{"type": "Ready", "status": str(view.ready)}],
            }
        ),
    }


def _non_empty(fields: Object) -> Object:
    """The fields that are not empty."""
    return {name: value for name, value in fields.items() if value not in ("", None, {}, [], False)}


def _pod_meta(view: PodView) -> Object:
    owner = view.owner
    maker = [{"kind": owner.kind, "name": owner.name, "uid": owner.uid, "controller": True}] if owner else []
    return {
        "namespace": view.namespace,
        **_non_empty(
            {
                "name": view.name,
                "uid": view.uid,
                "labels": dict(view.labels),
                "annotations": dict(view.annotations),
                "creationTimestamp": _time(view.created) if view.created else "",
                "deletionTimestamp": _time(view.created) if view.deleting else "",
                "ownerReferences": maker,
                "resourceVersion": str(view.version or ""),
            }
        ),
    }


def _pod_spec(view: PodView) -> Object:
    containers, init = _containers(view)
    return _non_empty(
        {
            "nodeName": view.node,
            "schedulerName": view.scheduler,
            "serviceAccountName": view.service_account,
            "priority": view.priority or None,
            "preemptionPolicy": "" if view.preempts else "Never",
            "schedulingGates": _named(view.gates),
            "schedulingGroup": _non_empty({"podGroupName": view.scheduling_group}),
            "nodeSelector": dict(view.node_selector),
            "tolerations": [
                _non_empty({"key": each.key, "value": each.value, "effect": each.effect}) | {"operator": each.operator}
                for each in view.tolerations
            ],
            "affinity": _affinity(view),
            "topologySpreadConstraints": [
                *map(_spread, view.spread),
                *([{"whenUnsatisfiable": "ScheduleAnyway"}] if view.has_preferences else []),
            ],
            "resources": _non_empty({"requests": dict(view.requests)}),
            "resourceClaims": _named(view.claims),
            "volumes": [
                {"name": f"volume-{number}", "persistentVolumeClaim": {"claimName": name}}
                for number, name in enumerate(view.volume_claims)
            ],
            "overhead": dict(view.overhead),
            "initContainers": init,
            "containers": containers,
        }
    )


def _pod_status(view: PodView) -> Object:
    hosted = [{"resourceName": name} for name in view.hosted_by_claims]
    return _non_empty(
        {
            "phase": view.phase,
            **({"reason": REJECTED, "message": view.rejection} if view.rejection else {}),
            "nominatedNodeName": view.nominated,
            "conditions": _conditions(view),
            "containerStatuses": _statuses(view),
            "extendedResourceClaimStatus": _non_empty({"requestMappings": hosted}),
        }
    )


def _conditions(view: PodView) -> list[Object]:
    published = view.condition
    return [
        *([_unschedulable(view)] if view.unschedulable_since else ()),
        *([pod_condition(published, _time(published.since) if published.since else None)] if published else ()),
    ]


def _unschedulable(view: PodView) -> Object:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    message = _non_empty({"message": view.unschedulable_message})
    return {**condition, **message, "lastTransitionTime": _time(view.unschedulable_since)}


def _statuses(view: PodView) -> list[Object]:
    """Container statuses; a stopped pod counts as started."""
    if view.stopped:
        return [{"state": {"terminated": {}}}]
    return [{"state": {"running": {}}}] if view.begun else []


def _containers(view: PodView) -> tuple[list[Object], list[Object]]:
    """Containers and init containers; the first one that keeps running has the host ports."""
    written = [(each, _container(each)) for each in view.containers]
    main = [container for each, container in written if not each.init]
    init = [container for each, container in written if each.init]
    lasting = [*main, *(container for each, container in written if each.sidecar)]
    if view.ports and lasting:
        lasting[0]["ports"] = [_port(port) for port in view.ports]
    return main, init


def _container(view: ContainerView) -> Object:
    resources = _non_empty({"requests": dict(view.requests), "limits": dict(view.limits)})
    return _non_empty(
        {
            "name": view.name,
            "env": [{"name": name, "value": value} for name, value in view.variables.items()],
            "resources": resources,
            "restartPolicy": "Always" if view.init and view.sidecar else "",
        }
    )


def _port(port: HostPort) -> Object:
    written = {"containerPort": port.port, "hostPort": port.port, "protocol": port.protocol}
    return written if port.ip == _ANYWHERE else {**written, "hostIP": port.ip}


def _affinity(view: PodView) -> Object:
    affinity: Object = {}
    if view.affinity is not None:
        affinity["nodeAffinity"] = {_REQUIRED: {"nodeSelectorTerms": [_node_term(term) for term in view.affinity]}}
    if view.together:
        affinity["podAffinity"] = {_REQUIRED: [_pod_term(term) for term in view.together]}
    if view.apart:
        affinity["podAntiAffinity"] = {_REQUIRED: [_pod_term(term) for term in view.apart]}
    return affinity


def _node_term(term: NodeTerm) -> Object:
    return _non_empty(
        {"matchExpressions": _requirements(term.expressions), "matchFields": _requirements(term.fields)},
    )


def _spread(constraint: SpreadConstraint) -> Object:
    written: Object = {
        "maxSkew": constraint.max_skew,
        "topologyKey": constraint.topology_key,
        "whenUnsatisfiable": "DoNotSchedule",
        "minDomains": constraint.min_domains,
        "nodeAffinityPolicy": "Honor" if constraint.affinity_honored else "Ignore",
        "nodeTaintsPolicy": "Honor" if constraint.taints_honored else "Ignore",
    }
    selector = _pod_term(constraint.term).get("labelSelector")
    return written if selector is None else {**written, "labelSelector": selector}


def _pod_term(term: PodTerm) -> Object:
    none = not term.match_labels and term.expressions == _NO_POD
    selector = _non_empty({"matchLabels": dict(term.match_labels), "matchExpressions": _requirements(term.expressions)})
    return {
        **_non_empty({"topologyKey": term.topology_key, "namespaces": list(term.namespaces)}),
        **({} if none else {"labelSelector": selector}),
        **({"namespaceSelector": {}} if term.all_namespaces else {}),
    }


def _requirements(requirements: tuple[SelectorRequirement, ...]) -> list[Object]:
    return [
        {"key": each.key, "operator": each.operator, **({"values": list(each.values)} if each.values else {})}
        for each in requirements
    ]


def _named(names: tuple[str, ...]) -> list[Object]:
    return [{"name": name} for name in names]


def _time(seconds: float) -> str:
    """A Kubernetes timestamp, with microseconds if there are any."""
    return (_EPOCH + timedelta(microseconds=round(seconds * 1e6))).isoformat().replace("+00:00", "Z")
