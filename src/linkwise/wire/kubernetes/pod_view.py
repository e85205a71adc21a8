"""A pod's object turned into its view.

Most pods are copies of few templates. What copies have in common is kept once, in bounded memories, so that fifty
thousand pods fit in little room: views are never changed, so that sharing their parts is safe.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.model.views import ContainerView, HostPort, NodeTerm, Owner, PodTerm, PodView, Requirement, Toleration
from linkwise.speed.fast_dataclass import fast_constructor
from linkwise.wire.kubernetes.metadata import (
    NOTHING,
    TEMPLATES,
    annotations_of,
    labels_of,
    one,
    same_texts,
    seconds,
    texts,
    version,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.wire.kubernetes.metadata import AmountPairs, Meta, OwnerReference
    from linkwise.wire.kubernetes.pod import (
        Container,
        ContainerStatus,
        Expression,
        ExtendedClaims,
        NodeSelectorTerm,
        PodAffinity,
        PodAffinityTerm,
        PodObject,
        PodSpec,
        PodStatus,
        PodToleration,
    )

__all__ = ["view_of"]

_Pairs = tuple[tuple[str, str], ...]
_Key = tuple[str, "AmountPairs", "AmountPairs"]

_NO_POD: Final = (Requirement("", "In"),)
"""met by no labels at all"""
_SIDECAR: Final = "Always"
_pod: Final = fast_constructor(PodView)
_ANYWHERE: Final = "0.0.0.0"  # noqa: S104 - how Kubernetes writes all addresses; nothing is bound here


def view_of(pod: PodObject) -> PodView:
    """The view of a pod, or of a pod template."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    affinity = spec.affinity
    nodes = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    claims = status.extended_resource_claim_status
    deleting = meta.deletion_timestamp is not None
    # In the order of the fields: with their names this takes half as long again, and a start makes fifty thousand views.
    return _pod(
        one(meta.namespace),
        meta.name or meta.generate_name,
        meta.uid,
        _containers(spec),
        labels_of(meta),
        annotations_of(meta),
        one(spec.node_name) if spec.node_name else "",
        one(status.phase) if status.phase else "Pending",
        seconds(meta.creation_timestamp) if meta.creation_timestamp else 0.0,
        deleting,
        spec.priority or 0,
        one(spec.scheduler_name) if spec.scheduler_name else "",
        tuple([gate.name for gate in spec.scheduling_gates]) if spec.scheduling_gates else (),
        _scheduling_group(spec) if spec.scheduling_group or spec.workload_ref else "",
        _owner(meta.owner_references) if meta.owner_references else None,
        same_texts(tuple(spec.node_selector.items())) if spec.node_selector else NOTHING,
        _tolerations(spec.tolerations) if spec.tolerations else (),
        tuple([claim.name for claim in spec.resource_claims]) if spec.resource_claims else (),
        texts(spec.overhead) if spec.overhead else NOTHING,
        _hosted_by_claims(claims) if claims else (),
        texts(spec.resources.requests) if spec.resources else NOTHING,
        _node_terms(nodes.node_selector_terms or ()) if nodes else None,
        _ports(spec),
        _pod_terms(affinity.pod_anti_affinity, meta) if affinity and affinity.pod_anti_affinity else (),
        _pod_terms(affinity.pod_affinity, meta) if affinity and affinity.pod_affinity else (),
        version(meta),
        deleting and _stopped(status),
        one(status.nominated_node_name) if status.nominated_node_name else "",
        _has_begun(status),
    )


def _containers(spec: PodSpec) -> tuple[ContainerView, ...]:
    """Init containers first, as they run."""
    running = _keys(spec.containers or ())
    if not spec.init_containers:
        return _same_containers(running)
    sidecars = tuple(found.restart_policy == _SIDECAR for found in spec.init_containers)
    return _same_containers(running, _keys(spec.init_containers), sidecars)


def _keys(containers: Iterable[Container]) -> tuple[_Key, ...]:
    """All of some containers that their views are made of."""
    keys: list[_Key] = []
    for found in containers:
        requests = limits = None
        if found.resources is not None:
            requests, limits = found.resources.requests, found.resources.limits
        keys.append((found.name, tuple(requests.items()) if requests else (), tuple(limits.items()) if limits else ()))
    return tuple(keys)


@lru_cache(maxsize=TEMPLATES)
def _same_containers(
    running: tuple[_Key, ...], init: tuple[_Key, ...] = (), sidecars: tuple[bool, ...] = ()
) -> tuple[ContainerView, ...]:
    before = [
        ContainerView(name, same_texts(requests), same_texts(limits), init=True, sidecar=sidecar)
        for (name, requests, limits), sidecar in zip(init, sidecars, strict=True)
    ]
    return (*before, *(ContainerView(name, same_texts(asked), same_texts(limits)) for name, asked, limits in running))


def _scheduling_group(spec: PodSpec) -> str:
    if spec.scheduling_group:
        return spec.scheduling_group.pod_group_name
    found = spec.workload_ref
    return ".".join(filter(None, (found.name, found.pod_group, found.pod_group_replica_key))) if found else ""


def _owner(references: list[OwnerReference]) -> Owner:
    found = references[0]
    if not found.controller:
        found = next((reference for reference in references if reference.controller), found)
    return _same_owner(found.kind, found.name, found.uid)


_same_owner: Final = lru_cache(maxsize=TEMPLATES)(Owner)


@lru_cache(maxsize=TEMPLATES)
def _tolerations(found: tuple[PodToleration, ...]) -> tuple[Toleration, ...]:
    return tuple(Toleration(each.key, each.operator, each.value, each.effect) for each in found)


def _hosted_by_claims(claims: ExtendedClaims) -> tuple[str, ...]:
    return tuple(found.resource_name for found in claims.request_mappings or ())


@lru_cache(maxsize=TEMPLATES)
def _node_terms(found: tuple[NodeSelectorTerm, ...]) -> tuple[NodeTerm, ...]:
    return tuple(NodeTerm(_requirements(term.match_expressions), _requirements(term.match_fields)) for term in found)


@lru_cache(maxsize=TEMPLATES)
def _requirements(found: tuple[Expression, ...] | None) -> tuple[Requirement, ...]:
    return tuple(Requirement(each.key, each.operator, each.values or ()) for each in found or ())


def _pod_terms(found: PodAffinity, meta: Meta) -> tuple[PodTerm, ...]:
    return tuple([_pod_term(term, meta.namespace) for term in found.required or ()])


def _pod_term(found: PodAffinityTerm, own: str) -> PodTerm:
    selector = found.label_selector
    # A selector of namespaces that is not empty would need the labels of namespaces, which are not read: it counts as
    # all of them, which keeps pods apart rather too often than too seldom.
    everywhere = found.namespace_selector is not None
    names = found.namespaces or (() if everywhere else (own,))
    if selector is None:
        return _same_term(found.topology_key, (), _NO_POD, names, everywhere=everywhere)
    pairs = tuple((selector.match_labels or {}).items())
    return _same_term(
        found.topology_key, pairs, _requirements(selector.match_expressions), names, everywhere=everywhere
    )


@lru_cache(maxsize=TEMPLATES)
def _same_term(
    key: str, pairs: _Pairs, expressions: tuple[Requirement, ...], namespaces: tuple[str, ...], *, everywhere: bool
) -> PodTerm:
    return PodTerm(key, same_texts(pairs), expressions, namespaces, everywhere)


def _ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Of all that run together; on the host's network a container's ports are the host's, whether told so or not."""
    running, hosted = spec.containers or [], bool(spec.host_network)
    if spec.init_containers:
        running = [*running, *(found for found in spec.init_containers if found.restart_policy == _SIDECAR)]
    found = [port for each in running if each.ports for port in each.ports if hosted or port.host_port]
    if not found:
        return ()
    numbers = [(port.host_port or port.container_port, port) for port in found]
    return tuple(
        [_same_port(number, port.protocol, port.host_ip or _ANYWHERE) for number, port in numbers if number > 0]
    )


_same_port: Final = lru_cache(maxsize=TEMPLATES)(HostPort)


def _stopped(status: PodStatus) -> bool:
    """Whether every container has ended; an init container that never began has nothing to end."""
    begun = [found for found in status.init_container_statuses or () if _begun(found)]
    return bool(status.container_statuses) and all(map(_ended, (*(status.container_statuses or ()), *begun)))


def _has_begun(status: PodStatus) -> bool:
    """Whether any container has run, one that runs before the others included."""
    if status.container_statuses and any(map(_begun, status.container_statuses)):
        return True
    return bool(status.init_container_statuses) and any(map(_begun, status.init_container_statuses or ()))


def _begun(found: ContainerStatus) -> bool:
    state, before = found.state, found.last_state
    now = state is not None and (state.running is not None or state.terminated is not None)
    # A kubelet that starts anew may have lost the last state, and still counts.
    return now or found.restart_count > 0 or (before is not None and before.terminated is not None)


def _ended(found: ContainerStatus) -> bool:
    return found.state is not None and found.state.terminated is not None
