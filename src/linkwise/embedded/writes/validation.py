"""Whether an object is what it says, and makes sense: asked before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.embedded.api_errors import Cause, bad_request, invalid
from linkwise.embedded.kinds.crd_schemas import check_schema
from linkwise.embedded.kinds.crds import DEFINITIONS, check_definition
from linkwise.embedded.kinds.object_types import Pod, Workload, check_shape, meta_of
from linkwise.embedded.storage.selectors import labels_match
from linkwise.embedded.writes.names import check_labels, check_meta
from linkwise.embedded.writes.pod_rules import check_pod_change, check_pod_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.storage.database import Database

__all__ = ["check_change", "check_kind", "check_object"]

_FIXED: Final = {
    "deployments.apps": ("selector",),
    "replicasets.apps": ("selector",),
    "daemonsets.apps": ("selector",),
    "statefulsets.apps": ("selector", "serviceName"),
    "jobs.batch": ("selector", "template", "completionMode"),
}
"""what of the wishes of a workload can't change"""


def check_kind(resource: Resource, document: Raw) -> None:
    """Whether an object is of the kind that belongs there; what it does not say is filled in."""
    for word, expected in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        found = document.setdefault(word, expected)
        if not isinstance(found, str):
            raise bad_request(f"couldn't get version/kind; {word} is {found!r}")
    found, kind = document["apiVersion"], document["kind"]
    if found != resource.api_version:
        raise bad_request(
            f"the API version in the data ({found}) does not match the expected API version ({resource.api_version})"
        )
    if kind != resource.kind:
        raise bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}')


def check_object(shelves: Database, resource: Resource, document: Raw) -> None:
    """Refuse an object that makes no sense."""
    typed = check_shape(resource, document)
    causes = [*check_meta(resource, meta_of(document))]
    causes += _causes(resource, document, typed)
    if resource.custom and (schema := shelves.kinds.told(resource).schema):
        causes += check_schema(schema, document)
    if causes:
        raise invalid(resource, document["metadata"].get("name", ""), causes)


def check_change(resource: Resource, old: Raw, new: Raw) -> None:
    """Refuse a change of what can't change."""
    name = old["metadata"]["name"]
    causes = [*check_pod_change(old, new)] if resource.full == "pods" else []
    before, after = old.get("spec"), new.get("spec")
    if isinstance(before, dict) and isinstance(after, dict):
        causes += [
            Cause(f"spec.{word}", "Invalid value: field is immutable")
            for word in _FIXED.get(resource.full, ())
            if before.get(word) != after.get(word)
        ]
    if resource.full in {"configmaps", "secrets"} and old.get("immutable"):
        words = ("data", "binaryData", "immutable")
        causes += [
            Cause(word, "Forbidden: field is immutable when `immutable` is set")
            for word in words
            if old.get(word) != new.get(word)
        ]
    if causes:
        raise invalid(resource, name, causes)


def _causes(resource: Resource, document: Raw, typed: Any) -> Iterator[Cause]:  # noqa: ANN401 - each kind has its own
    if isinstance(typed, Pod):
        yield from check_pod_spec(typed.spec)
    elif isinstance(typed, Workload):
        yield from _check_workload(resource, document, typed)
    elif (check := _CHECKS.get(resource.full)) is not None:
        yield from check(document)


def _check_workload(resource: Resource, document: Raw, typed: Workload) -> Iterator[Cause]:
    spec = typed.spec
    if spec.selector is None:
        yield Cause("spec.selector", "Required value")
    elif not (spec.selector.match_labels or spec.selector.match_expressions):
        yield Cause("spec.selector", "Invalid value: empty selector is invalid for " + resource.kind.lower())
    elif not labels_match(document["spec"]["selector"], spec.template.metadata.labels):
        yield Cause("spec.template.metadata.labels", "Invalid value: `selector` does not match template `labels`")
    for word, number in (
        ("replicas", spec.replicas),
        ("parallelism", spec.parallelism),
        ("completions", spec.completions),
    ):
        if (number or 0) < 0:
            yield Cause(f"spec.{word}", f"Invalid value: {number}: must be greater than or equal to 0")
    yield from check_labels("spec.template.metadata.labels", spec.template.metadata.labels)
    yield from check_pod_spec(spec.template.spec, "spec.template.spec")
    allowed = ("OnFailure", "Never") if resource.full == "jobs.batch" else ("Always",)
    policy = spec.template.spec.restart_policy
    if policy not in allowed:
        known = ", ".join(f'"{word}"' for word in allowed)
        told = f'Unsupported value: "{policy}": supported values: {known}'
        yield Cause("spec.template.spec.restartPolicy", told)


def _check_event(document: Raw) -> Iterator[Cause]:
    about, namespace = document.get("involvedObject") or {}, document["metadata"].get("namespace")
    if about.get("namespace", namespace) != namespace and not (not about.get("namespace") and namespace == "default"):
        yield Cause(
            "involvedObject.namespace", f'Invalid value: "{about.get("namespace")}": does not match event.namespace'
        )


_CHECKS: Final[dict[str, Callable[[Raw], Iterator[Cause]]]] = {
    DEFINITIONS: check_definition,
    "events": _check_event,
}
