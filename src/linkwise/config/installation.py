"""Manifests of a complete installation: the default rendering of the Helm chart, as package data with options.

The chart is the only source. `make manifests` renders it, and a test compares both, so that printing needs no Helm.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import yaml

from linkwise.config.yaml_documents import yaml_with_comments

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["FILE", "PARTS", "Installation", "installation_yaml"]

FILE: Final = "installation.yaml"
"""package data beside this module, written by `make manifests`"""
_NAMESPACE: Final = "linkwise-system"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""the parser in C, where PyYAML has it: the policies and webhooks are long"""
_COMPONENT: Final = "app.kubernetes.io/component"
_SCHEDULED: Final = ("Deployment", "DaemonSet")
PARTS: Final = ("crds", "scheduler", "agent", "protection", "network-policies")
"""what can be left out: objects of this component, or of this kind"""
_KINDS: Final[Mapping[str, str]] = {"crds": "CustomResourceDefinition", "network-policies": "NetworkPolicy"}


@dataclass(frozen=True, slots=True)
class Installation:
    """Options of the manifests; empty ones keep what the chart has."""

    namespace: str = _NAMESPACE
    image: str = ""
    """of the service and the node agent"""
    scheduler_image: str = ""
    """of kube-scheduler"""
    replicas: int = 2
    """of the service and of kube-scheduler"""
    without: tuple[str, ...] = ()
    """parts to leave out"""


def installation_yaml(wanted: Installation) -> str:
    """The manifests as YAML text, in the order in which they are applied."""
    text = (files("linkwise.config") / FILE).read_text("utf-8").replace(_NAMESPACE, wanted.namespace)
    documents = [document for document in yaml.load_all(text, _LOADER) if _is_wanted(document, wanted)]
    for document in documents:
        _set_replicas(document, wanted.replicas)
        _set_images(document, wanted)
    return "---\n".join(yaml_with_comments(document, {}) for document in [_namespace(wanted), *documents])


def _is_wanted(document: Mapping[str, Any], wanted: Installation) -> bool:
    component = document["metadata"].get("labels", {}).get(_COMPONENT, "")
    left_out = {_KINDS.get(part, part) for part in wanted.without}
    alone = document["kind"] == "PodDisruptionBudget" and wanted.replicas == 1  # it would block every drain
    return component not in left_out and document["kind"] not in left_out and not alone


def _set_replicas(document: dict[str, Any], replicas: int) -> None:
    if document["kind"] != "Deployment":
        return
    document["spec"]["replicas"] = replicas
    if replicas == 1 and (rolling := document["spec"].get("strategy", {}).get("rollingUpdate")):
        rolling["maxUnavailable"] = 0


def _set_images(document: dict[str, Any], wanted: Installation) -> None:
    for container in _containers(document):
        image = wanted.scheduler_image if container["name"] == "kube-scheduler" else wanted.image
        if image:
            container["image"] = image


def _containers(document: dict[str, Any]) -> Iterable[dict[str, Any]]:
    containers: Iterable[dict[str, Any]] = (
        document["spec"]["template"]["spec"]["containers"] if document["kind"] in _SCHEDULED else ()
    )
    return containers


def _namespace(wanted: Installation) -> dict[str, Any]:
    # The node agent is privileged, as device plugins are.
    labels = {"app.kubernetes.io/name": "linkwise", "pod-security.kubernetes.io/enforce": "privileged"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": wanted.namespace, "labels": labels}}
