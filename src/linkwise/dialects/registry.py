"""Registered dialects, and a pod's request in whichever of them it is written.

The built-in dialects are registered here; the process adds others at start. A dialect that is not usable is refused,
so that a mistake stops the start and not a pod. Everything that depends on all dialects is cached here, and the caches
are dropped when the dialects change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.dialects.aliyun import Aliyun
from linkwise.dialects.amd import Amd
from linkwise.dialects.ascend.dialect import Ascend
from linkwise.dialects.dialect import DefaultPolicies, Dialect, Held, SourcePriority, where_pod
from linkwise.dialects.groups.membership import group_of, may_have_group
from linkwise.dialects.koordinator.dialect import Koordinator
from linkwise.dialects.linkwise.dialect import Linkwise
from linkwise.dialects.linkwise.require import REQUIRE, read_require
from linkwise.dialects.nvidia import PREFIX as REQUIRED_VARIABLES, Nvidia, read_required, required_variables
from linkwise.dialects.pod_resources import amount, resources_of
from linkwise.errors import InputError, PluginError
from linkwise.model.ask import Ask
from linkwise.model.inventory import NodeFacts
from linkwise.model.requirement import Requirement
from linkwise.model.verdict import Problem
from linkwise.model.views import ContainerView, NodeView, PodView

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.model.access_policy import ShareLimit
    from linkwise.model.ask import Group
    from linkwise.model.requirement import Clause

__all__ = [
    "BY_NAME",
    "DIALECTS",
    "Understood",
    "by_priority",
    "cleared_records",
    "counts_whole_devices",
    "describes_devices",
    "dialects_of_node",
    "held_by",
    "invalidates",
    "is_native",
    "is_record",
    "managed_resources",
    "native_resources",
    "owner_name",
    "owners",
    "record_keys",
    "record_patterns",
    "register",
    "renamed_resources",
    "required_by",
    "resource_patterns",
    "set_dialects",
    "share_defaults",
    "understand",
    "vendor_group",
    "whole_device_dialect",
]

# One line per dialect. Our own record is read first: it is the only one that holds everything.
_BUILT_IN: Final[tuple[type[Dialect], ...]] = (
    Linkwise,
    Nvidia,
    Koordinator,
    Ascend,
    Aliyun,
    Amd,
)

DIALECTS: Final[list[Dialect]] = []
"""in the order in which their records count; change it with `register` only"""
BY_NAME: Final[dict[str, Dialect]] = {}

_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def register(dialect: object) -> None:
    """Add a dialect, or an instance of its class, before any pod or node is read.

    Raises:
        PluginError: it is not a dialect, lacks something, owns a resource of another one, or fails a simple request.
    """
    try:
        added = dialect() if isinstance(dialect, type) else dialect
    except Exception as error:  # whatever the author's code raises
        raise PluginError(f"{type(error).__name__}: {error}") from error
    if not isinstance(added, Dialect):
        raise PluginError(f"expected a linkwise.dialects.dialect.Dialect, got a value of type {type(added).__name__}")
    _check_attributes(added)
    _check_answers(added)
    set_dialects((*DIALECTS, added))


def set_dialects(dialects: Iterable[Dialect]) -> None:
    """Make these, and no others, the registered dialects."""
    DIALECTS[:] = dialects
    BY_NAME.clear()
    BY_NAME.update({dialect.name: dialect for dialect in DIALECTS})
    for cached in (
        owners,
        owner_name,
        by_priority,
        dialects_of_node,
        vendor_group,
        counts_whole_devices,
        describes_devices,
        is_record,
        renamed_resources,
    ):
        cached.cache_clear()


def _check_attributes(dialect: Dialect) -> None:
    name: object = getattr(dialect, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise PluginError(f"dialect name {name!r}: use lower-case letters, digits and dashes")
    if name in BY_NAME:
        raise PluginError(f"dialect {name!r} is already registered")
    for resource in (*dialect.resources, *dialect.whole_devices):
        if taken := owners(resource):
            raise PluginError(f"dialect {name!r}: resource {resource} belongs to the dialect {taken[0].name!r}")
        if not dialect.owns(resource):
            raise PluginError(f"dialect {name!r} lists the resource {resource!r} and does not own it")
    expected = {"domains": frozenset, "policies": DefaultPolicies, "priority": SourcePriority}
    for attribute, kind in expected.items():
        if not isinstance(getattr(dialect, attribute, None), kind):
            raise PluginError(f"dialect {name!r}: {attribute} must be of type {kind.__name__}")
    records: object = dialect.records
    if not isinstance(records, tuple) or not all(isinstance(key, str) for key in records):
        raise PluginError(f"dialect {name!r}: records must be a tuple of annotations")
    _check_patterns(dialect)


def _check_patterns(dialect: Dialect) -> None:
    for pattern in ("record_pattern", "resource_pattern"):
        try:
            re.compile(getattr(dialect, pattern))
        except (re.error, TypeError) as error:
            raise PluginError(f"dialect {dialect.name!r}: {pattern} is not a regular expression: {error}") from error


def _check_answers(dialect: Dialect) -> None:
    """Read a pod that requests one of each resource, and a node that has two of each."""
    try:
        wrong = _wrong_answer(dialect)
    except Exception as error:  # noqa: BLE001 - whatever the author's code raises
        wrong = f"{type(error).__name__}: {error}"
    if wrong:
        raise PluginError(f"dialect {dialect.name!r}: {wrong}")


def _wrong_answer(dialect: Dialect) -> str:
    for resource in dialect.resources:
        pod = PodView("default", "probe", "uid", (ContainerView("main", limits={resource: "1"}),))
        request: object = dialect.ask(pod)
        if not isinstance(request, Ask | Problem):
            return f"ask returns {request!r} for a pod that requests 1 {resource}"
    amounts = dict.fromkeys(dialect.resources, "2")
    facts: object = dialect.node(NodeView("probe", capacity=amounts, allocatable=amounts), {})
    if facts is not None and not (isinstance(facts, NodeFacts) and facts.source == dialect.name):
        return f"node returns {facts!r}; expected NodeFacts with the dialect's name as source, or None"
    record: object = dialect.held(PodView("default", "probe", "uid"))
    return "" if isinstance(record, Held) else f"held returns {record!r}; expected a Held"


@dataclass(frozen=True, slots=True)
class Understood:
    """A pod's request: at most one, in one dialect; group annotations go with any of them."""

    dialect: str = ""
    ask: Ask | None = None
    group: Group | None = None
    problems: tuple[Problem, ...] = ()


def understand(pod: PodView) -> Understood:
    """The pod's request and its group; what is invalid is a problem, never a guess."""
    group, problems = group_of(pod) if may_have_group(pod) else (None, ())
    owned = [name for name in resources_of(pod) if owners(name)]
    requested = [name for name in owned if any(_requests(container, name) for container in pod.containers)]
    if not requested:
        return Understood("", None, group, problems)
    used = {dialect for name in requested for dialect in owners(name)}
    if len(used) > 1:
        names = [dialect.name for dialect in DIALECTS if dialect in used]
        last = next(name for name in reversed(owned) if not used.isdisjoint(owners(name)))
        mixed = Problem(
            where_pod(pod), last, f"devices are requested by the resources of {' and '.join(names)}; use one of them"
        )
        return Understood("", None, group, (*problems, mixed))
    dialect = next(dialect for dialect in DIALECTS if dialect in used)
    ask = dialect.ask(pod)
    requirement = requirement_of(pod, dialect) if isinstance(ask, Ask) and _may_require(pod) else None
    for wrong in (ask, requirement):
        if isinstance(wrong, Problem):
            return Understood(dialect.name, None, group, (*problems, wrong))
    if isinstance(ask, Ask) and isinstance(requirement, Requirement):
        ask = replace(ask, requirement=requirement)
    return Understood(dialect.name, ask if isinstance(ask, Ask) else None, group, problems)


def requirement_of(pod: PodView, dialect: Dialect) -> Requirement | Problem | None:
    """What a pod demands of its devices by its annotation and by variables of its containers; None if nothing."""
    clauses: list[Clause] = []
    texts = [(REQUIRE, pod.annotations.get(REQUIRE, ""), "")]
    if dialect.vendor == Nvidia.vendor:
        # rule 002.versions: an image's own requirement counts where the pod has it.
        texts += [
            (name, text, f"container {container.name}: ")
            for container in pod.containers
            for name, text in required_variables(container.variables).items()
            if any(dialect.owns(resource) for resource in (*container.limits, *container.requests))
        ]
    for key, text, where in texts:
        try:
            clauses += read_require(text) if key == REQUIRE else read_required(key, text)
        except InputError as error:
            return Problem(where_pod(pod), key, f"{where}{error}")
    return Requirement(tuple(dict.fromkeys(clauses))) if clauses else None


def required_by(pod: PodView) -> Requirement | Problem | None:
    """Requirement of a pod on its devices, whichever scheduler placed it; None if it has none or requests no devices."""
    if not _may_require(pod):
        return None
    dialect = next((owned[0] for name in resources_of(pod) if (owned := owners(name))), None)
    return requirement_of(pod, dialect) if dialect else None


def _may_require(pod: PodView) -> bool:
    return REQUIRE in pod.annotations or any(container.variables for container in pod.containers)


def invalidates(problem: Problem) -> bool:
    """Whether a problem makes the request for devices invalid: that of a resource, or of a requirement."""
    return bool(owners(problem.key)) or problem.key == REQUIRE or problem.key.startswith(REQUIRED_VARIABLES)


def _requests(container: ContainerView, resource: str) -> bool:
    """Whether the container requests more than zero; an invalid amount is for the dialect to report."""
    try:
        return amount(container, resource) > 0
    except InputError:
        return True


def held_by(pod: PodView) -> Held:
    """The devices a pod has: by our own record if there is one, else by the first dialect that has one."""
    problems: list[Problem] = []
    for dialect in DIALECTS:
        record = dialect.held(pod)
        problems += record.problems
        if record.grant is not None:
            return Held(record.grant, tuple(problems))
    return Held(None, tuple(problems))


def cleared_records(pod: PodView) -> dict[str, str]:
    """The records of allocated devices that a pending pod carries, in any dialect, overwritten with none."""
    if not pod.annotations:
        return {}
    return {key: text for dialect in DIALECTS for key, text in dialect.cleared(pod).items()}


def record_keys() -> tuple[str, ...]:
    """The annotations of pods that schedulers, agents or device plugins believe as records of devices and plans, sorted.

    Only Linkwise and these programs may set them: a user who does gets other devices than those that are counted.
    """
    return tuple(sorted({key for dialect in DIALECTS for key in dialect.records}))


def record_patterns() -> tuple[str, ...]:
    """Regular expressions (RE2) for complete keys of further such annotations, which no list can hold."""
    return tuple(sorted({dialect.record_pattern for dialect in DIALECTS if dialect.record_pattern}))


def resource_patterns() -> tuple[str, ...]:
    """Regular expressions (RE2) for complete names of managed resources, which no list can hold."""
    return tuple(sorted({dialect.resource_pattern for dialect in DIALECTS if dialect.resource_pattern}))


@lru_cache(maxsize=4096)
def is_record(key: str) -> bool:
    """Whether an annotation of that name is such a record."""
    return key in record_keys() or any(re.fullmatch(pattern, key) for pattern in record_patterns())


def share_defaults(pod: PodView, share: ShareLimit) -> dict[str, dict[str, str]]:
    """By container, the resources to add where a request for a part of a device omits the amount (percentages only)."""
    if not share.percent:
        return {}
    return {
        name: added
        for dialect in DIALECTS
        for name, added in dialect.share_defaults(pod, share.amount).items()
        if added
    }


@lru_cache(maxsize=4096)
def owners(resource: str) -> tuple[Dialect, ...]:
    """The dialects that own a resource."""
    return tuple(dialect for dialect in DIALECTS if dialect.owns(resource))


@lru_cache(maxsize=4096)
def owner_name(resource: str) -> str:
    """The dialect that owns a resource; empty if none does."""
    return next((dialect.name for dialect in owners(resource)), "")


@lru_cache(maxsize=1)
def by_priority() -> tuple[Dialect, ...]:
    """The dialects as sources of inventory: the first that lists devices wins."""
    return tuple(sorted(DIALECTS, key=lambda dialect: -dialect.priority))


@lru_cache(maxsize=1024)
def dialects_of_node(keys: tuple[str, ...]) -> tuple[Dialect, ...]:
    """The dialects that describe a node with these keys and objects, by priority; nodes of one kind have equal keys."""
    domains = {key.partition("/")[0] for key in keys}
    return tuple(dialect for dialect in by_priority() if not domains.isdisjoint(dialect.domains))


@lru_cache(maxsize=256)
def vendor_group(name: str) -> frozenset[str]:
    """The dialects that describe devices of the same vendor as the dialect of that name."""
    vendor = BY_NAME[name].vendor
    return frozenset(dialect.name for dialect in DIALECTS if dialect.vendor == vendor) if vendor else frozenset({name})


@lru_cache(maxsize=4096)
def counts_whole_devices(resource: str) -> bool:
    """Whether an amount of the resource is a number of whole devices."""
    return any(resource in dialect.whole_devices for dialect in owners(resource))


@lru_cache(maxsize=4096)
def describes_devices(key: str) -> bool:
    """Whether an object of this kind, or a node annotation of this name, identifies the devices of a node."""
    return any(key.startswith(dialect.inventories) for dialect in DIALECTS)


def whole_device_dialect(vendor: str) -> Dialect | None:
    """The dialect in which whole devices of a vendor are requested."""
    return next((dialect for dialect in DIALECTS if dialect.vendor == vendor and dialect.whole_devices), None)


def managed_resources() -> dict[str, tuple[str, ...]]:
    """The resources that pods can request, by dialect; parts of Ascend chips are patterns, which no list can hold."""
    return {dialect.name: dialect.resources for dialect in DIALECTS if dialect.resources}


@lru_cache(maxsize=1)
def renamed_resources() -> Mapping[str, str]:
    """Resources that Kubernetes' components refuse today, with the names to request instead."""
    return {old: new for dialect in DIALECTS for old, new in dialect.renamed.items()}


def is_native(name: str) -> bool:
    """Whether kube-scheduler takes the name for one of Kubernetes' own, and refuses it in managedResources."""
    return "/" not in name or "kubernetes.io/" in name


def native_resources() -> tuple[str, ...]:
    """The managed resources that managedResources can't list."""
    return tuple(name for names in managed_resources().values() for name in names if is_native(name))


set_dialects(dialect() for dialect in _BUILT_IN)
