"""Defaulting: the default values of pods, nodes, workloads and other resources, as far as clients read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.embedded.kinds.object_types import MUTATING, VALIDATING
from linkwise.embedded.writes.claim_rules import (
    CLAIMS,
    SLICES,
    TEMPLATES,
    default_claim,
    default_slice,
    default_template,
)
from linkwise.embedded.writes.volcano_jobs import RESOURCE as VOLCANO_JOBS, default_volcano_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.storage.collection import Raw

__all__ = ["default_pod_spec", "qos_class", "set_defaults"]

_POD: Final[Raw] = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
    "enableServiceLinks": True,
    "securityContext": {},
}
_CONTAINER: Final[Raw] = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {},
}
_ROLLING: Final[Raw] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
_DAEMONS: Final[Raw] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
_BOUND: Final[Raw] = {"pv.kubernetes.io/bind-completed": "yes"}
_JOB_UID: Final = "batch.kubernetes.io/controller-uid"


def set_defaults(group_resource: str, document: Raw, now: str) -> None:
    """Set the defaults of an object that is about to be written."""
    if group_resource == SLICES:
        default_slice(document, now)
    elif (defaulter := _DEFAULTERS.get(group_resource)) is not None:
        defaulter(document)


def default_pod_spec(spec: Raw) -> None:
    """Set the defaults of a pod spec."""
    _fill(spec, _POD)
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        _fill(container, _CONTAINER)
        container.setdefault("imagePullPolicy", _pull_policy(str(container.get("image", ""))))
        _default_quantities(container["resources"])
        for port in container.get("ports", ()):
            port.setdefault("protocol", "TCP")


def qos_class(spec: Raw) -> str:
    """The QoS class of a pod."""
    containers = [*spec.get("initContainers", ()), *spec.get("containers", ())]
    resources = [container.get("resources") or {} for container in containers]
    pairs = [(entry.get("requests") or {}, entry.get("limits") or {}) for entry in resources]
    amounts = [
        {key: amount.get(key) for key in ("cpu", "memory") if amount.get(key)} for pair in pairs for amount in pair
    ]
    if not any(amounts):
        return "BestEffort"
    same = all(
        requests.get(key) == limits.get(key) and limits.get(key)
        for requests, limits in pairs
        for key in ("cpu", "memory")
    )
    return "Guaranteed" if same else "Burstable"


def _fill(document: Raw, defaults: Raw) -> None:
    """Set the fields that are absent, null or empty text: the API server does not tell these apart."""
    for key, value in defaults.items():
        if document.get(key) is None or document[key] == "":
            document[key] = _fresh(value)


def _fresh(value: Any) -> Any:  # noqa: ANN401 - JSON
    return dict(value) if isinstance(value, dict) else value


def _pull_policy(image: str) -> str:
    _, _, tag = image.rpartition("/")[2].partition(":")
    return "IfNotPresent" if (tag and tag != "latest") or "@" in image else "Always"


def _default_quantities(resources: Raw) -> None:
    for key in ("limits", "requests"):
        if key in resources:
            resources[key] = {key: str(value) for key, value in resources[key].items()}
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **(resources.get("requests") or {})}


def _pod(document: Raw) -> None:
    spec = document.setdefault("spec", {})
    default_pod_spec(spec)


def _node(document: Raw) -> None:
    document.setdefault("spec", {})
    status = document.setdefault("status", {})
    for key in ("capacity", "allocatable"):
        if key in status:
            status[key] = {key: str(value) for key, value in status[key].items()}
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))


def _template(spec: Raw) -> None:
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def _deployment(document: Raw) -> None:
    spec = document.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    if spec.setdefault("strategy", _fresh(_ROLLING)).get("type", "RollingUpdate") == "RollingUpdate":
        spec["strategy"] = {
            "type": "RollingUpdate",
            "rollingUpdate": {**_ROLLING["rollingUpdate"], **(spec["strategy"].get("rollingUpdate") or {})},
        }
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    _template(spec)


def _replicas(document: Raw) -> None:
    spec = document.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _template(spec)


def _daemons(document: Raw) -> None:
    spec = document.setdefault("spec", {})
    spec.setdefault("updateStrategy", _fresh(_DAEMONS))
    spec.setdefault("revisionHistoryLimit", 10)
    _template(spec)


def _job(document: Raw) -> None:
    spec, uid = document.setdefault("spec", {}), document["metadata"].get("uid", "")
    if spec.get("parallelism") is None and spec.get("completions") is None:
        spec["completions"] = 1
    for key, value in (("parallelism", 1), ("backoffLimit", 6), ("completionMode", "NonIndexed"), ("suspend", False)):
        spec.setdefault(key, value)
    _template(spec)
    # A Job selects its pods by its own UID, so that a later Job of the same name does not adopt them.
    if uid and not spec.get("manualSelector"):
        spec.setdefault("selector", {"matchLabels": {_JOB_UID: uid}})
        labels = spec["template"]["metadata"].setdefault("labels", {})
        name = document["metadata"].get("name", "")
        for key, value in ((_JOB_UID, uid), ("controller-uid", uid), *_job_names(name)):
            labels.setdefault(key, value)


def _job_names(name: str) -> tuple[tuple[str, str], ...]:
    return ("batch.kubernetes.io/job-name", name), ("job-name", name)


def _namespace(document: Raw) -> None:
    if name := document["metadata"].get("name"):
        document["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    document.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    document.setdefault("status", {}).setdefault("phase", "Active")


def _secret(document: Raw) -> None:
    document.setdefault("type", "Opaque")


def _service(document: Raw) -> None:
    spec = document.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    document.setdefault("status", {}).setdefault("loadBalancer", {})


def _webhooks(document: Raw) -> None:
    for webhook in _objects(document.get("webhooks")):
        for key, value in (("failurePolicy", "Fail"), ("matchPolicy", "Equivalent"), ("timeoutSeconds", 10)):
            webhook.setdefault(key, value)
        for key in ("namespaceSelector", "objectSelector"):
            webhook.setdefault(key, {})
        for rule in _objects(webhook.get("rules")):
            rule.setdefault("scope", "*")
        for config in _objects([webhook.get("clientConfig")]):
            for service in _objects([config.get("service")]):
                service.setdefault("port", 443)


def _mutating_webhooks(document: Raw) -> None:
    _webhooks(document)
    for webhook in _objects(document.get("webhooks")):
        webhook.setdefault("reinvocationPolicy", "Never")


def _objects(value: object) -> list[Raw]:
    """The objects in a list, which is validated only later."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _claim(document: Raw) -> None:
    """Every claim has a volume at once: there are no controllers of volumes."""
    document["spec"].setdefault("volumeName", f"volume-{document['metadata']['name']}")
    annotations = document["metadata"].get("annotations") or {}
    document["metadata"]["annotations"] = {**annotations, **_BOUND}


_DEFAULTERS: Final[dict[str, Callable[[Raw], None]]] = {
    "pods": _pod,
    "nodes": _node,
    "namespaces": _namespace,
    "persistentvolumeclaims": _claim,
    "secrets": _secret,
    "services": _service,
    "deployments.apps": _deployment,
    "replicasets.apps": _replicas,
    "replicationcontrollers": _replicas,
    "statefulsets.apps": _replicas,
    "daemonsets.apps": _daemons,
    "jobs.batch": _job,
    VOLCANO_JOBS: default_volcano_job,
    MUTATING: _mutating_webhooks,
    VALIDATING: _webhooks,
    CLAIMS: default_claim,
    TEMPLATES: default_template,
}
