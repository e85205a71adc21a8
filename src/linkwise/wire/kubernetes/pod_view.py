"""Pod views, built from pod objects.

Most pods are created from few templates. The parts they have in common are shared through bounded caches, so that fifty
thousand pods need little memory; views are immutable, which makes sharing safe.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.errors import InputError
from linkwise.model.views import (
    SCHEDULABLE,
    ContainerView,
    HostPort,
    NodeTerm,
    Owner,
    PodCondition,
    PodTerm,
    PodView,
    SelectorRequirement,
    SpreadConstraint,
    Toleration,
)
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
        PodSpreadConstraint,
        PodStatus,
        PodToleration,
        Variable,
        Volume,
    )

__all__ = ["REJECTED", "view_of"]

_Pairs = tuple[tuple[str, str], ...]
_Key = tuple[str, "AmountPairs", "AmountPairs", _Pairs]

_NO_POD: Final = (SelectorRequirement("", "In"),)
"""matches no pod"""
_SIDECAR: Final = "Always"
_KEPT_VARIABLES: Final = "REQUIRE"
"""in the names of environment variables that are kept: others differ from pod to pod, and nothing depends on them"""
_BEST_EFFORT: Final = "ScheduleAnyway"
_HONOR: Final = "Honor"
_IGNORE: Final = "Ignore"
_NEVER: Final = "Never"
LONGEST_MESSAGE: Final = 500  # characters
REJECTED: Final = "UnexpectedAdmissionError"
"""reason of a pod that failed because the kubelet could not allocate its devices"""
_SCHEDULABLE: Final = (0.0, "")
_pod: Final = fast_constructor(PodView)
_ANYWHERE: Final = "0.0.0.0"  # noqa: S104 - how Kubernetes writes all addresses; nothing is bound here


def view_of(pod: PodObject) -> PodView:
    """The view of a pod or a pod template."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    affinity = spec.affinity
    nodes = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    claims = status.extended_resource_claim_status
    deleting = meta.deletion_timestamp is not None
    since, message = _unschedulable(status) if status.conditions and not spec.node_name else _SCHEDULABLE
    # Positional: keywords take half as long again, and startup builds one view per pod.
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
        _has_started(status),
        bool(affinity or spec.topology_spread_constraints) and _has_preferences(spec),
        since,
        spec.preemption_policy != _NEVER,
        _condition(status) if status.conditions else None,
        one(spec.service_account_name) if spec.service_account_name else "",
        message,
        _spread(spec.topology_spread_constraints, meta) if spec.topology_spread_constraints else (),
        _volume_claims(spec.volumes, meta) if spec.volumes else (),
        _rejection(status) if status.reason == REJECTED else "",
    )


def _containers(spec: PodSpec) -> tuple[ContainerView, ...]:
    """Init containers first, as they run."""
    running = _keys(spec.containers or ())
    if not spec.init_containers:
        return _same_containers(running)
    sidecars = tuple(container.restart_policy == _SIDECAR for container in spec.init_containers)
    return _same_containers(running, _keys(spec.init_containers), sidecars)


def _keys(containers: Iterable[Container]) -> tuple[_Key, ...]:
    """Cache keys of containers: everything that their views contain."""
    keys: list[_Key] = []
    for each in containers:
        requests = limits = None
        if each.resources is not None:
            requests, limits = each.resources.requests, each.resources.limits
        variables = _variables(each.env) if each.env else ()
        keys.append(
            (each.name, tuple(requests.items()) if requests else (), tuple(limits.items()) if limits else (), variables)
        )
    return tuple(keys)


def _variables(env: Iterable[Variable]) -> _Pairs:
    return tuple([(each.name, each.value) for each in env if _KEPT_VARIABLES in each.name and each.value is not None])


@lru_cache(maxsize=TEMPLATES)
def _same_containers(
    running: tuple[_Key, ...], init: tuple[_Key, ...] = (), sidecars: tuple[bool, ...] = ()
) -> tuple[ContainerView, ...]:
    before = [
        ContainerView(
            name, same_texts(requests), same_texts(limits), init=True, sidecar=sidecar, variables=dict(variables)
        )
        for (name, requests, limits, variables), sidecar in zip(init, sidecars, strict=True)
    ]
    main = (
        ContainerView(name, same_texts(requests), same_texts(limits), variables=dict(variables))
        for name, requests, limits, variables in running
    )
    return (*before, *main)


def _scheduling_group(spec: PodSpec) -> str:
    if spec.scheduling_group:
        return spec.scheduling_group.pod_group_name
    ref = spec.workload_ref
    return ".".join(filter(None, (ref.name, ref.pod_group, ref.pod_group_replica_key))) if ref else ""


def _owner(references: list[OwnerReference]) -> Owner:
    """The controller, otherwise the first owner."""
    owner = references[0]
    if not owner.controller:
        owner = next((reference for reference in references if reference.controller), owner)
    return _same_owner(owner.kind, owner.name, owner.uid)


_same_owner: Final = lru_cache(maxsize=TEMPLATES)(Owner)


@lru_cache(maxsize=TEMPLATES)
def _tolerations(tolerations: tuple[PodToleration, ...]) -> tuple[Toleration, ...]:
    return tuple(Toleration(each.key, each.operator, each.value, each.effect) for each in tolerations)


def _hosted_by_claims(claims: ExtendedClaims) -> tuple[str, ...]:
    return tuple(mapping.resource_name for mapping in claims.request_mappings or ())


@lru_cache(maxsize=TEMPLATES)
def _node_terms(terms: tuple[NodeSelectorTerm, ...]) -> tuple[NodeTerm, ...]:
    return tuple(NodeTerm(_requirements(term.match_expressions), _requirements(term.match_fields)) for term in terms)


@lru_cache(maxsize=TEMPLATES)
def _requirements(expressions: tuple[Expression, ...] | None) -> tuple[SelectorRequirement, ...]:
    return tuple(SelectorRequirement(each.key, each.operator, each.values or ()) for each in expressions or ())


def _volume_claims(volumes: Iterable[Volume], meta: Meta) -> tuple[str, ...]:
    """The claims by name; that of an ephemeral volume is named after the pod and the volume."""
    return tuple(
        [
            each.persistent_volume_claim.claim_name if each.persistent_volume_claim else f"{meta.name}-{each.name}"
            for each in volumes
            if each.persistent_volume_claim or each.ephemeral
        ]
    )


def _pod_terms(affinity: PodAffinity, meta: Meta) -> tuple[PodTerm, ...]:
    return tuple([_pod_term(term, meta.namespace) for term in affinity.required or ()])


def _pod_term(term: PodAffinityTerm, own_namespace: str) -> PodTerm:
    selector = term.label_selector
    # Namespaces are not watched, so a namespaceSelector can't be evaluated: it counts as all namespaces, which errs on
    # the side of keeping pods apart.
    everywhere = term.namespace_selector is not None
    names = term.namespaces or (() if everywhere else (own_namespace,))
    if selector is None:
        return _same_term(term.topology_key, (), _NO_POD, names, everywhere=everywhere)
    pairs = tuple((selector.match_labels or {}).items())
    return _same_term(term.topology_key, pairs, _requirements(selector.match_expressions), names, everywhere=everywhere)


@lru_cache(maxsize=TEMPLATES)
def _same_term(
    key: str,
    pairs: _Pairs,
    expressions: tuple[SelectorRequirement, ...],
    namespaces: tuple[str, ...],
    *,
    everywhere: bool,
) -> PodTerm:
    return PodTerm(key, same_texts(pairs), expressions, namespaces, everywhere)


def _spread(constraints: Iterable[PodSpreadConstraint], meta: Meta) -> tuple[SpreadConstraint, ...]:
    """Constraints that must be satisfied; as in Kubernetes, the pod's own values of further keys narrow the selector."""
    labels = meta.labels or {}
    return tuple(
        [
            SpreadConstraint(
                each.topology_key,
                each.max_skew,
                _counted(
                    each,
                    meta.namespace,
                    tuple((key, labels[key]) for key in each.match_label_keys or () if key in labels),
                ),
                each.min_domains or 1,
                (each.node_affinity_policy or _HONOR) == _HONOR,
                (each.node_taints_policy or _IGNORE) == _HONOR,
            )
            for each in constraints
            if each.when_unsatisfiable != _BEST_EFFORT
        ]
    )


def _counted(constraint: PodSpreadConstraint, namespace: str, pairs: _Pairs) -> PodTerm:
    selector = constraint.label_selector
    if selector is None:
        return _same_term(constraint.topology_key, (), _NO_POD, (namespace,), everywhere=False)
    own = tuple(SelectorRequirement(key, "In", (value,)) for key, value in pairs)
    expressions = (*_requirements(selector.match_expressions), *own)
    labels = tuple((selector.match_labels or {}).items())
    return _same_term(constraint.topology_key, labels, expressions, (namespace,), everywhere=False)


def _has_preferences(spec: PodSpec) -> bool:
    affinity = spec.affinity
    parts = (affinity.node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    spread = spec.topology_spread_constraints or ()
    return any(part and part.preferred for part in parts) or any(
        constraint.when_unsatisfiable == _BEST_EFFORT for constraint in spread
    )


def _ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Host ports of containers and sidecars; with hostNetwork every container port is a host port."""
    running, host_network = spec.containers or [], bool(spec.host_network)
    if spec.init_containers:
        running = [*running, *(each for each in spec.init_containers if each.restart_policy == _SIDECAR)]
    ports = [port for each in running if each.ports for port in each.ports if host_network or port.host_port]
    if not ports:
        return ()
    numbers = [(port.host_port or port.container_port, port) for port in ports]
    return tuple(
        [_same_port(number, port.protocol, port.host_ip or _ANYWHERE) for number, port in numbers if number > 0]
    )


_same_port: Final = lru_cache(maxsize=TEMPLATES)(HostPort)


def _stopped(status: PodStatus) -> bool:
    """Whether every container has terminated; init containers that never started are ignored."""
    started = [each for each in status.init_container_statuses or () if _is_started(each)]
    statuses = status.container_statuses
    return bool(statuses) and all(map(_is_terminated, (*(statuses or ()), *started)))


def _has_started(status: PodStatus) -> bool:
    """Whether any container has started, init containers included."""
    if status.container_statuses and any(map(_is_started, status.container_statuses)):
        return True
    return bool(status.init_container_statuses) and any(map(_is_started, status.init_container_statuses or ()))


def _rejection(status: PodStatus) -> str:
    """The kubelet's message, or its reason if there is none."""
    return (status.message or REJECTED)[:LONGEST_MESSAGE]


def _unschedulable(status: PodStatus) -> tuple[float, str]:
    """When the scheduler set the condition, and its message; with an invalid time it counts as not set."""
    for each in status.conditions or ():
        if each.type == "PodScheduled" and each.status == "False" and each.reason == "Unschedulable":
            try:
                return seconds(each.last_transition_time), (each.message or "")[:LONGEST_MESSAGE]
            except InputError:
                return _SCHEDULABLE
    return _SCHEDULABLE


def _condition(status: PodStatus) -> PodCondition | None:
    """What Linkwise has published about the pod; with an invalid time it is published again."""
    for each in status.conditions or ():
        if each.type == SCHEDULABLE:
            try:
                since = seconds(each.last_transition_time)
            except InputError:
                since = 0.0
            return PodCondition(each.status == "True", each.reason or "", each.message or "", since)
    return None


def _is_started(status: ContainerStatus) -> bool:
    state, last = status.state, status.last_state
    now = state is not None and (state.running is not None or state.terminated is not None)
    # A restarted kubelet may have lost the last state, but keeps the restart count.
    return now or status.restart_count > 0 or (last is not None and last.terminated is not None)


def _is_terminated(status: ContainerStatus) -> bool:
    return status.state is not None and status.state.terminated is not None
