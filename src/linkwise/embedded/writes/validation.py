"""Object validation before a write: apiVersion and kind, metadata, and the rules of each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.dialects.kubernetes.pod_templates import WorkloadObject, pod_templates
from linkwise.embedded.api_errors import Cause, bad_request, invalid
from linkwise.embedded.kinds.crds import CRD_RESOURCE, OPERATOR_JOBS, check_crd
from linkwise.embedded.kinds.fields import check_schema
from linkwise.embedded.kinds.object_types import (
    MUTATING,
    VALIDATING,
    Pod,
    PodTemplate,
    Workload,
    check_webhooks,
    decode_typed,
    meta_of,
)
from linkwise.embedded.storage.list_watch import labels_match
from linkwise.embedded.writes.claim_rules import (
    CLAIMS,
    CLASSES,
    SLICES,
    TEMPLATES,
    check_claim,
    check_claim_update,
    check_class,
    check_slice,
    check_slice_update,
    check_template,
    check_template_update,
)
from linkwise.embedded.writes.field_rules import check_labels, check_meta, check_pod_spec, check_pod_update
from linkwise.embedded.writes.volcano_jobs import RESOURCE as VOLCANO_JOBS, check_volcano_job, check_volcano_job_update
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.storage.database import Database

__all__ = ["check_kind", "check_object", "check_update"]

_IMMUTABLE_FIELDS: Final = {
    "deployments.apps": ("selector",),
    "replicasets.apps": ("selector",),
    "daemonsets.apps": ("selector",),
    "statefulsets.apps": ("selector", "serviceName"),
    "jobs.batch": ("selector", "template", "completionMode"),
}
"""spec fields of workloads that can't be changed"""


def check_kind(resource: Resource, document: Raw) -> None:
    """Check that apiVersion and kind match the path, and set them if they are missing."""
    for key, expected in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        value = document.setdefault(key, expected)
        if not isinstance(value, str):
            raise bad_request(f"couldn't get version/kind; {key} is {value!r}")
    value, kind = document["apiVersion"], document["kind"]
    if value != resource.api_version:
        raise bad_request(
            f"the API version in the data ({value}) does not match the expected API version ({resource.api_version})"
        )
    if kind != resource.kind:
        raise bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}')


def check_object(database: Database, resource: Resource, document: Raw) -> None:
    """Validate an object; ApiError 422 lists all causes."""
    typed = decode_typed(resource, document)
    causes = [*check_meta(resource, meta_of(document))]
    causes += _causes(resource, document, typed)
    if resource.custom and (schema := database.kinds.served(resource).schema):
        causes += check_schema(schema, document)
    if causes:
        raise invalid(resource, document["metadata"].get("name", ""), causes)


def check_update(resource: Resource, old: Raw, new: Raw) -> None:
    """Reject changes of immutable fields."""
    name = old["metadata"]["name"]
    check = _UPDATE_VALIDATORS.get(resource.group_resource)
    causes = [*check(old, new)] if check else []
    before, after = old.get("spec"), new.get("spec")
    if isinstance(before, dict) and isinstance(after, dict):
        causes += [
            Cause(f"spec.{key}", "Invalid value: field is immutable")
            for key in _IMMUTABLE_FIELDS.get(resource.group_resource, ())
            if before.get(key) != after.get(key)
        ]
    if resource.group_resource in {"configmaps", "secrets"} and old.get("immutable"):
        keys = ("data", "binaryData", "immutable")
        causes += [
            Cause(key, "Forbidden: field is immutable when `immutable` is set")
            for key in keys
            if old.get(key) != new.get(key)
        ]
    if causes:
        raise invalid(resource, name, causes)


def _causes(resource: Resource, document: Raw, typed: Any) -> Iterator[Cause]:  # noqa: ANN401 - each kind has its own
    if isinstance(typed, Pod):
        yield from check_pod_spec(typed.spec)
    elif isinstance(typed, Workload):
        yield from _check_workload(resource, document, typed)
    elif (validate := _VALIDATORS.get(resource.group_resource)) is not None:
        yield from validate(document)


def _check_workload(resource: Resource, document: Raw, typed: Workload) -> Iterator[Cause]:
    spec = typed.spec
    if spec.selector is None:
        yield Cause("spec.selector", "Required value")
    elif not (spec.selector.match_labels or spec.selector.match_expressions):
        yield Cause("spec.selector", "Invalid value: empty selector is invalid for " + resource.kind.lower())
    elif not labels_match(document["spec"]["selector"], spec.template.metadata.labels):
        yield Cause("spec.template.metadata.labels", "Invalid value: `selector` does not match template `labels`")
    for key, number in (
        ("replicas", spec.replicas),
        ("parallelism", spec.parallelism),
        ("completions", spec.completions),
    ):
        if (number or 0) < 0:
            yield Cause(f"spec.{key}", f"Invalid value: {number}: must be greater than or equal to 0")
    yield from check_labels("spec.template.metadata.labels", spec.template.metadata.labels)
    yield from check_pod_spec(spec.template.spec, "spec.template.spec")
    allowed = ("OnFailure", "Never") if resource.group_resource == "jobs.batch" else ("Always",)
    policy = spec.template.spec.restart_policy
    if policy not in allowed:
        supported = ", ".join(f'"{key}"' for key in allowed)
        message = f'Unsupported value: "{policy}": supported values: {supported}'
        yield Cause("spec.template.spec.restartPolicy", message)


def _check_event(document: Raw) -> Iterator[Cause]:
    involved, namespace = document.get("involvedObject") or {}, document["metadata"].get("namespace")
    if involved.get("namespace", namespace) != namespace and not (
        not involved.get("namespace") and namespace == "default"
    ):
        yield Cause(
            "involvedObject.namespace", f'Invalid value: "{involved.get("namespace")}": does not match event.namespace'
        )


def _check_cron_job(document: Raw) -> Iterator[Cause]:
    """Refuse CronJobs: they would be accepted and never run."""
    spec = document.get("spec")
    if not (isinstance(spec, dict) and spec.get("suspend")):
        yield Cause(
            "spec.suspend", "Required value: this cluster runs no CronJobs; suspend it, or create a Job instead"
        )


def _check_operator_job(document: Raw) -> Iterator[Cause]:
    """Refuse objects from which the controller can't create pods."""
    try:
        templates = list(pod_templates(WorkloadObject(document)))
        for template in templates:
            pod = msgspec.convert({key: template.document.get(key, {}) for key in ("metadata", "spec")}, PodTemplate)
            yield from check_labels(f"{template.path}.template.metadata.labels", pod.metadata.labels)
            restart = pod.spec.restart_policy or "Always"
            spec = msgspec.structs.replace(pod.spec, restart_policy=restart)
            yield from check_pod_spec(spec, f"{template.path}.template.spec")
    except InputError as error:
        path, _, message = str(error).partition(": ")
        yield Cause(path, f"Invalid value: {message}")
    except msgspec.ValidationError as error:
        yield Cause("spec", f"Invalid value: {error}")


_VALIDATORS: Final[dict[str, Callable[[Raw], Iterator[Cause]]]] = {
    "cronjobs.batch": _check_cron_job,
    **dict.fromkeys(OPERATOR_JOBS, _check_operator_job),
    CRD_RESOURCE: check_crd,
    "events": _check_event,
    VOLCANO_JOBS: check_volcano_job,
    MUTATING: check_webhooks,
    VALIDATING: check_webhooks,
    CLAIMS: check_claim,
    TEMPLATES: check_template,
    SLICES: check_slice,
    CLASSES: check_class,
}
_UPDATE_VALIDATORS: Final[dict[str, Callable[[Raw, Raw], Iterator[Cause]]]] = {
    "pods": check_pod_update,
    VOLCANO_JOBS: check_volcano_job_update,
    CLAIMS: check_claim_update,
    TEMPLATES: check_template_update,
    SLICES: check_slice_update,
}
