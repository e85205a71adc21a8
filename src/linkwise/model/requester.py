"""Requester: the authenticated user of an API request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CONTROLLERS", "OPERATORS", "Requester"]

_KUBE_SYSTEM: Final = "system:serviceaccount:kube-system"
CONTROLLERS: Final = (
    "system:kube-controller-manager",
    f"{_KUBE_SYSTEM}:cronjob-controller",
    f"{_KUBE_SYSTEM}:daemon-set-controller",
    f"{_KUBE_SYSTEM}:deployment-controller",
    f"{_KUBE_SYSTEM}:job-controller",
    f"{_KUBE_SYSTEM}:replicaset-controller",
    f"{_KUBE_SYSTEM}:replication-controller",
    f"{_KUBE_SYSTEM}:statefulset-controller",
)
"""as whom Kubernetes' own controllers create pods and workloads from templates that users wrote"""
OPERATORS: Final = ("system:serviceaccount:volcano-system:volcano-controllers",)
"""the same for controllers of other projects whose workloads the webhook reviews"""


@dataclass(frozen=True, slots=True)
class Requester:
    """The user who creates or changes an object, as the API server authenticated it."""

    user: str
    """a service account is `system:serviceaccount:NAMESPACE:NAME`"""
    groups: tuple[str, ...] = ()
