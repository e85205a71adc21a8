"""All of Linkwise in one cluster, installed as an administrator would: roles, webhook, gates, protection of records."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from support.e2e.config_files import USERS
from support.e2e.pod_objects import device_definition
from support.e2e.protection import protected
from support.e2e.service import printed
from support.e2e.webhook import NAMESPACE, running_webhook

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.service import Placing
    from support.e2e.webhook import WebhookService

__all__ = ["GATE", "applied", "installed", "pods_of", "refused"]

GATE: Final = "linkwise.dev/gang"
PUBLISHING: Final = {"delay": 1.0, "interval": 1.0, "rate": 50.0, "burst": 50}
"""reasons are published soon, so that tests need not wait for the default of ten seconds"""


@contextmanager
def installed(cluster: Cluster, name: str, owners: Mapping[str, str] | None = None) -> Iterator[WebhookService]:
    """Everything at once: shipped roles, policies, the service with its webhook, and kube-scheduler.

    Args:
        cluster: where it runs; it has the custom resource definitions
        name: of the service, in logs
        owners: namespaces in which workloads are groups or gangs, as the setting has them
    """
    # Members of gangs that wait for a volume are planned and ungated, and kube-scheduler keeps them pending.
    settings: dict[str, Any] = {"explain": PUBLISHING, "kube": {"without": ["volumes"]}}
    if owners:
        settings["placing"] = {"group": {"owners": dict(owners)}}
    user = USERS["linkwise"].name
    words = ("--user", user, "--namespace", NAMESPACE, "--name", f"e2e-{name}-tenants")
    tenants = printed("manifests", "rbac", *words)
    cluster.define(device_definition())
    try:
        cluster.apply(tenants, NAMESPACE)
        # The policies first: what the webhook refuses never reaches them, and they are seen in force by a refusal.
        # Pods may opt out, so that tests see what the scheduler enforces for those that did.
        flags = ("--pod-opt-out",)
        with protected(cluster), running_webhook(cluster, name, configuration=settings, flags=flags) as made:
            yield made
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "--filename", "-", stdin=tenants)
        cluster.undefine(device_definition())


def applied(placing: Placing, namespace: str, text: str, *words: str, user: str = "admin") -> str:
    """What kubectl says besides its output, of objects that are all admitted."""
    code, said = _apply(placing, namespace, text, *words, user=user)
    assert code == 0, said
    return said


def refused(placing: Placing, namespace: str, text: str, *words: str, user: str = "admin") -> str:
    """What kubectl says of an object that is not admitted."""
    code, said = _apply(placing, namespace, text, *words, user=user)
    assert code == 1, said
    return said


def _apply(placing: Placing, namespace: str, text: str, *words: str, user: str) -> tuple[int, str]:
    command = ("apply", "--namespace", namespace, "--filename", "-", *words)
    code, _, said = placing.cluster.run_kubectl(*command, user=user, stdin=text)
    return code, said


def pods_of(placing: Placing, namespace: str) -> list[Raw]:
    """The pods of a namespace as they are now."""
    return placing.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")
