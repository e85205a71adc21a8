"""Builders of admission reviews and of the objects in them."""

from __future__ import annotations

import base64
import json
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GPU", "applied", "change_of", "container", "job", "pod", "pytorch_job", "review", "volcano_job"]

GPU: Final = "nvidia.com/gpu"
Raw = dict[str, Any]


def container(limits: Mapping[str, object] | None = None, name: str = "main", **fields: object) -> Raw:
    """A container that requests this."""
    return {"name": name, "image": "example.com/none", "resources": {"limits": dict(limits or {})}, **fields}


def pod(
    *containers: Raw,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: object,
) -> Raw:
    """A pod as the API server sends it: names of the default scheduler and nothing else are filled in."""
    meta: Raw = {"name": "train", "namespace": "team"}
    meta |= {"labels": dict(labels)} if labels else {}
    meta |= {"annotations": dict(annotations)} if annotations else {}
    made: Raw = {"containers": list(containers) or [container()], "schedulerName": "default-scheduler", **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made}


def _template(of: Raw) -> Raw:
    """The pod as a template."""
    meta = {key: value for key, value in of["metadata"].items() if key not in {"name", "namespace"}}
    return {"metadata": meta, "spec": of["spec"]}


def job(of: Raw, parallelism: int = 1) -> Raw:
    """A Job of these pods."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": "team"},
        "spec": {"parallelism": parallelism, "template": _template(of)},
    }


def volcano_job(*tasks: tuple[str, int, Raw]) -> Raw:
    """A Volcano Job of tasks: name, replicas, pod."""
    made = [{"name": name, "replicas": count, "template": _template(of)} for name, count, of in tasks]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": "team"},
        "spec": {"schedulerName": "volcano", "tasks": made},
    }


def pytorch_job(of: Raw, workers: int = 2) -> Raw:
    """A PyTorchJob of these workers."""
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "job", "namespace": "team"},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": workers, "template": _template(of)}}},
    }


_RESOURCES: Final = {
    ("v1", "Pod"): ("", "pods"),
    ("batch/v1", "Job"): ("batch", "jobs"),
    ("batch/v1", "CronJob"): ("batch", "cronjobs"),
    ("apps/v1", "Deployment"): ("apps", "deployments"),
    ("batch.volcano.sh/v1alpha1", "Job"): ("batch.volcano.sh", "jobs"),
    ("kubeflow.org/v1", "PyTorchJob"): ("kubeflow.org", "pytorchjobs"),
}


def review(of: Raw, user: str = "ada", old: Raw | None = None, **fields: object) -> Raw:
    """A review of a new object, or of the change of an old one."""
    group, resource = _RESOURCES[of["apiVersion"], of["kind"]]
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": group, "version": "v1", "kind": of["kind"]},
        "resource": {"group": group, "version": "v1", "resource": resource},
        "name": of["metadata"]["name"],
        "namespace": "team",
        "operation": "UPDATE" if old else "CREATE",
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "object": of,
        "oldObject": old,
        "dryRun": False,
        **fields,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def change_of(response: Raw) -> list[Raw]:
    """The JSON Patch of a response."""
    return list(json.loads(base64.b64decode(response["patch"]))) if "patch" in response else []


def applied(document: Raw, operations: list[Raw]) -> Raw:
    """A document after a JSON Patch of `add` and `remove`."""
    changed = deepcopy(document)
    for operation in operations:
        *steps, last = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
        place: Any = changed
        for step in steps:
            place = place[int(step)] if isinstance(place, list) else place[step]
        if operation["op"] == "remove":
            del place[int(last) if isinstance(place, list) else last]
        elif isinstance(place, list):
            place.append(operation["value"]) if last == "-" else place.insert(int(last), operation["value"])
        else:
            place[last] = operation["value"]
    return changed
