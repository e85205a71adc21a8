"""Protection of records in a real cluster: the printed policies, a tenant with all rights in a namespace, agents' tokens."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.api_client import ApiError, marked
from support.e2e.cluster import RBAC
from support.e2e.config_files import USERS
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.service import printed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from support.e2e.api_client import Api, Raw
    from support.e2e.cluster import Cluster

__all__ = [
    "AGENT",
    "AGENTS",
    "GATE",
    "GRANT",
    "GROUPS",
    "USER",
    "bind_token",
    "pod_path",
    "protected",
    "refusal",
    "service_account",
    "tenant_of",
]

GRANT: Final = "linkwise.dev/grant"
USER: Final = "linkwise.dev/user"
GROUPS: Final = "linkwise.dev/groups"
GATE: Final = "linkwise.dev/gang"
AGENTS: Final = "default"
"""the namespace of the agents' service account: one that outlives the tests"""
AGENT: Final = "linkwise-agent"
SECONDS: Final = 20.0


@contextmanager
def protected(cluster: Cluster, *options: str) -> Iterator[str]:
    """The printed policies are in force, for a service that is the user linkwise and agents of a service account."""
    policies = printed("manifests", "protection", "--user", USERS["linkwise"].name, "--namespace", AGENTS, *options)
    cluster.apply(policies)
    try:
        forged = pod("default", "forged", annotations={GRANT: "{}", USER: "somebody"})
        last = f"{_PATH}/linkwise-agent-fields"
        wait_for(lambda: _refused(cluster.api, forged), SECONDS, "the policies are in force")
        wait_for(lambda: "typeChecking" in cluster.api.get(last).get("status", {}), SECONDS, "all of them are checked")
        yield policies
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "--filename", "-", stdin=policies)
        wait_for(lambda: not _refused(cluster.api, forged), SECONDS, "the policies are gone")


_PATH: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


def _refused(api: Api, thing: Raw) -> bool:
    try:
        api.call("POST", "/api/v1/namespaces/default/pods?dryRun=All", thing)
    except ApiError as error:
        return "linkwise-records" in error.message
    return False


def refusal(api: Api, method: str, path: str, body: object = None, kind: str = "application/json") -> str:
    """Why a request is forbidden; AssertionError if it is not."""
    with pytest.raises(ApiError) as caught:
        api.call(method, path, body, kind)
    assert caught.value.status == 403, caught.value
    assert "denied request" in caught.value.message, caught.value
    return caught.value.message


def tenant_of(cluster: Cluster, namespace: str) -> Api:
    """The tenant's connection, with all rights of an administrator of the namespace, and to all that leads to a pod."""
    more = ["pods/status", "pods/ephemeralcontainers", "pods/resize", "pods/binding", "bindings"]
    rule = {"apiGroups": [""], "resources": more, "verbs": ["create", "update", "patch"]}
    subject = {"apiGroup": RBAC, "kind": "User", "name": USERS["tenant"].name}
    within = {"namespace": namespace}
    cluster.api.create(
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "pods", **within}, "rules": [rule]}
    )
    for kind, name in (("ClusterRole", "admin"), ("Role", "pods")):
        binding = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"tenant-{name}", **within},
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
            "subjects": [subject],
        }
        cluster.api.create(binding)
    tenant = cluster.connect("tenant")
    wait_for(lambda: tenant.answers(f"/api/v1/namespaces/{namespace}/pods"), SECONDS, "the tenant has its rights")
    return tenant


def pod_path(namespace: str, name: str, *more: str) -> str:
    """The path of a pod, or of something below it."""
    return "/".join((f"/api/v1/namespaces/{namespace}/pods/{name}", *more))


def bind_token(cluster: Cluster, account: str, to: Mapping[str, Any] | None) -> str:
    """A token of a service account of the agents' namespace, bound to a pod or a node, or to nothing."""
    reference = to and {
        "apiVersion": "v1",
        "kind": to["kind"],
        "name": to["metadata"]["name"],
        "uid": to["metadata"]["uid"],
    }
    spec = {"audiences": [], "expirationSeconds": 3600, **({"boundObjectRef": reference} if reference else {})}
    path = f"/api/v1/namespaces/{AGENTS}/serviceaccounts/{account}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return str(cluster.api.call("POST", path, request)["status"]["token"])


def service_account(cluster: Cluster, name: str) -> None:
    """A service account in the agents' namespace."""
    about = {"name": name, "namespace": AGENTS}
    if not cluster.api.answers(f"/api/v1/namespaces/{AGENTS}/serviceaccounts/{name}"):
        cluster.api.create(marked({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about}))
