"""AcceleratorPolicies and namespaces as watch events, and the pods that they are about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from linkwise.broker.watch_events import ClusterObject
from linkwise.dialects.linkwise.accelerator_policy import NAMESPACE, POLICY, USER
from linkwise.testing.cluster import NVIDIA, device_pod

if TYPE_CHECKING:
    from linkwise.model.views import PodView

__all__ = ["EVERYBODY", "access_policy", "deleted_policy", "labelled", "policy_document", "team_pod"]

EVERYBODY: dict[str, Any] = {"namespaceSelector": {}}


def policy_document(name: str, subjects: object = None, **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """The object; without subjects it is about namespace `team`."""
    subjects = {"namespaces": ["team"]} if subjects is None else subjects
    return {
        "apiVersion": "linkwise.dev/v1alpha1",
        "kind": "AcceleratorPolicy",
        "metadata": {"name": name, "generation": 1},
        "spec": {"subjects": subjects, **spec},
    }


def access_policy(name: str, subjects: object = None, **spec: Any) -> ClusterObject:  # noqa: ANN401 - JSON
    """The watch event of a policy."""
    return ClusterObject(POLICY, name, policy_document(name, subjects, **spec))


def deleted_policy(name: str) -> ClusterObject:
    """The watch event of a deleted policy."""
    return ClusterObject(POLICY, name, None)


def labelled(name: str, **labels: str) -> ClusterObject:
    """The watch event of a namespace."""
    own = {"kubernetes.io/metadata.name": name, **labels}
    return ClusterObject(NAMESPACE, name, {"metadata": {"name": name, "labels": own}, "status": {"phase": "Active"}})


def team_pod(  # noqa: PLR0913 - a builder: every field has a default
    name: str,
    amount: int = 1,
    resource: str = NVIDIA,
    *,
    namespace: str = "team",
    user: str = "",
    account: str = "",
    created: float = 0.0,
) -> PodView:
    """A pod of a namespace, with the user that the webhook recorded."""
    pod = device_pod(name, amount, resource, namespace=namespace, created=created)
    return replace(pod, annotations={USER: user} if user else {}, service_account=account)
