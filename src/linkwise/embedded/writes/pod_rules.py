"""What the server asks of pods: what they must say, what of them may change, and how a gated one is marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.dialects.pod_resources import quantity
from linkwise.embedded.api_errors import Cause
from linkwise.embedded.writes.names import check_labels, label_name, qualified_name
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from linkwise.embedded.kinds.object_types import Container, PodSpec, Resources
    from linkwise.embedded.storage.collection import Raw

__all__ = ["check_pod_change", "check_pod_spec", "gated_condition", "with_condition"]

_POLICIES: Final = ("Always", "OnFailure", "Never")
_NATIVE: Final = ("cpu", "memory", "ephemeral-storage", "pods", "storage")
_CHANGEABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_FREE: Final = ("containers", "initContainers", "activeDeadlineSeconds", "tolerations", "schedulingGates")
_FREE_GATED: Final = (*_FREE, "nodeSelector", "affinity")


def check_pod_spec(spec: PodSpec, place: str = "spec") -> Iterator[Cause]:
    """What is wrong with what a pod wishes for."""
    if not spec.containers:
        yield Cause(f"{place}.containers", "Required value")
    names: set[str] = set()
    for word, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for number, container in enumerate(containers):
            yield from _check_container(f"{place}.{word}[{number}]", container, names)
    if spec.restart_policy not in _POLICIES:
        known = ", ".join(f'"{word}"' for word in _POLICIES)
        yield Cause(f"{place}.restartPolicy", f'Unsupported value: "{spec.restart_policy}": supported values: {known}')
    if (spec.termination_grace_period_seconds or 0) < 0:
        yield Cause(f"{place}.terminationGracePeriodSeconds", "Invalid value: must be greater than or equal to 0")
    yield from check_labels(f"{place}.nodeSelector", spec.node_selector)
    yield from _check_gates(spec, place)


def _check_container(place: str, container: Container, names: set[str]) -> Iterator[Cause]:
    if not container.name:
        yield Cause(f"{place}.name", "Required value")
    elif wrong := label_name(container.name):
        yield Cause(f"{place}.name", f'Invalid value: "{container.name}": {wrong}')
    elif container.name in names:
        yield Cause(f"{place}.name", f'Duplicate value: "{container.name}"')
    names.add(container.name)
    if not container.image:
        yield Cause(f"{place}.image", "Required value")
    for word, amounts in (("limits", container.resources.limits), ("requests", container.resources.requests)):
        for name, amount in amounts.items():
            yield from _check_amount(f"{place}.resources.{word}[{name}]", name, str(amount))
    yield from _check_requests(f"{place}.resources", container.resources)


def _check_requests(place: str, resources: Resources) -> Iterator[Cause]:
    """What can't be shared by chance is promised exactly; of the rest no more may be asked for than is allowed."""
    for name, amount in resources.requests.items():
        limit, extended = resources.limits.get(name), "/" in name
        if limit is None:
            if extended:
                yield Cause(f"{place}.limits", "Required value: Limit must be set for non overcommitable resources")
            continue
        try:
            over, differs = quantity(str(amount)) > quantity(str(limit)), quantity(str(amount)) != quantity(str(limit))
        except InputError:
            continue  # said already
        if over or (extended and differs):
            word = "equal to" if extended else "less than or equal to"
            yield Cause(f"{place}.requests", f'Invalid value: "{amount}": must be {word} {name} limit of {limit}')


def _check_amount(place: str, name: str, amount: str) -> Iterator[Cause]:
    try:
        number = quantity(amount)
    except InputError:
        expression = "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        yield Cause(place, f'Invalid value: "{amount}": quantities must match the regular expression {expression}')
        return
    if wrong := qualified_name(name):
        yield Cause(place, f'Invalid value: "{name}": {wrong}')
    elif "/" not in name and name not in _NATIVE and not name.startswith("hugepages-"):
        yield Cause(place, f'Invalid value: "{name}": must be a standard resource type or fully qualified')
    if number < 0:
        yield Cause(place, f'Invalid value: "{amount}": must be greater than or equal to 0')
    elif "/" in name and number != number.to_integral_value():
        yield Cause(place, f'Invalid value: "{amount}": must be an integer')


def _check_gates(spec: PodSpec, place: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for number, gate in enumerate(spec.scheduling_gates):
        if wrong := qualified_name(gate.name):
            yield Cause(f"{place}.schedulingGates[{number}]", f'Invalid value: "{gate.name}": {wrong}')
        if gate.name in seen:
            yield Cause(f"{place}.schedulingGates[{number}]", f'Duplicate value: "{gate.name}"')
        seen.add(gate.name)
    if spec.scheduling_gates and spec.node_name:
        yield Cause(f"{place}.nodeName", "Forbidden: cannot be set until all schedulingGates have been cleared")


def check_pod_change(old: Raw, new: Raw) -> Iterator[Cause]:
    """What may not be changed in the wishes of a pod that exists."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    gated = bool(before.get("schedulingGates"))
    free = _FREE_GATED if gated else _FREE
    if gates := {gate.get("name") for gate in after.get("schedulingGates") or ()} - {
        gate.get("name") for gate in before.get("schedulingGates") or ()
    }:
        told = ", ".join(sorted(map(str, gates)))
        yield Cause(
            "spec.schedulingGates", f"Forbidden: only deletion is allowed, but found new scheduling gate '{told}'"
        )
    if gated:
        yield from _check_gated(before, after)
    changed = [key for key in {*before, *after} - set(free) if before.get(key) != after.get(key)]
    changed += [word for word in ("containers", "initContainers") if _bare(before.get(word)) != _bare(after.get(word))]
    if any(toleration not in (after.get("tolerations") or ()) for toleration in before.get("tolerations") or ()):
        changed.append("tolerations")
    deadlines = before.get("activeDeadlineSeconds"), after.get("activeDeadlineSeconds")
    if deadlines[0] is not None and (deadlines[1] is None or deadlines[1] > deadlines[0]):
        changed.append("activeDeadlineSeconds")
    if changed:
        yield Cause("spec", f"Forbidden: {_CHANGEABLE}\n  changed: {', '.join(sorted(changed))}")


def _check_gated(before: Raw, after: Raw) -> Iterator[Cause]:
    """A gated pod may be told more closely where it belongs, never less."""
    asked, now = before.get("nodeSelector") or {}, after.get("nodeSelector") or {}
    if any(now.get(key) != value for key, value in asked.items()):
        yield Cause(
            "spec.nodeSelector",
            "Invalid value: only additions to spec.nodeSelector are allowed (no deletions or mutations)",
        )
    terms, terms_now = _required(before), _required(after)
    if terms is not None and not (terms_now and len(terms) == len(terms_now) and all(map(_narrowed, terms, terms_now))):
        yield Cause(
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            "Invalid value: no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        )


def _required(spec: Raw) -> list[Raw] | None:
    node: Raw = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    found = (node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms")
    return found if isinstance(found, list) else None


def _narrowed(term: Raw, now: Raw) -> bool:
    words = ("matchExpressions", "matchFields")
    return all((now.get(word) or [])[: len(term.get(word) or [])] == (term.get(word) or []) for word in words)


def _bare(containers: Sequence[Raw] | None) -> list[Raw]:
    return [{key: value for key, value in container.items() if key != "image"} for container in containers or ()]


def gated_condition(spec: Raw, now: str) -> Raw | None:
    """What a pod that may not be scheduled yet says of itself."""
    if not spec.get("schedulingGates"):
        return None
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastTransitionTime": now,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


def with_condition(conditions: Any, condition: Raw) -> list[Raw]:  # noqa: ANN401 - JSON
    """The conditions with this one in the place of another of its type."""
    kept = [found for found in conditions or () if found.get("type") != condition["type"]]
    same = next((found for found in conditions or () if found.get("type") == condition["type"]), None)
    if same is not None and same.get("status") == condition["status"]:
        condition = {**condition, "lastTransitionTime": same.get("lastTransitionTime")}
    return [*kept, condition]
