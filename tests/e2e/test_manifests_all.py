"""A real API server accepts the manifests of a complete installation, once and again, and gives all of them back."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from linkwise.config.installation import Installation, installation_yaml
from support.e2e.own_cluster import OwnCluster
from support.e2e.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.e2e.cluster import Cluster

MANIFESTS = installation_yaml(Installation())
SECRETS = "/api/v1/namespaces/linkwise-system/secrets"


@contextmanager
def installed(programs: Path, folder: Path) -> Iterator[Cluster]:
    """A cluster of its own, because the policies and the webhook hold for all namespaces."""
    made = OwnCluster(programs, folder, "--allow-privileged=true")
    try:
        made.start()
        made.kubectl("apply", "--server-side", "--filename", "-", stdin=MANIFESTS)
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def applied(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with installed(programs, tmp_path_factory.mktemp("installed")) as made:
        yield made


def names(cluster: Cluster, path: str) -> set[str]:
    return {found["metadata"]["name"] for found in cluster.api.list(path)}


def listed(kind: str) -> set[str]:
    documents: list[dict[str, Any]] = list(yaml.safe_load_all(MANIFESTS))
    return {document["metadata"]["name"] for document in documents if document["kind"] == kind}


def test_workloads_are_accepted(applied: Cluster) -> None:
    assert names(applied, "/apis/apps/v1/namespaces/linkwise-system/deployments") == listed("Deployment")
    assert names(applied, "/apis/apps/v1/namespaces/linkwise-system/daemonsets") == listed("DaemonSet")


def test_policies_and_their_expressions_are_accepted(applied: Cluster) -> None:
    root = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"

    def checked() -> list[dict[str, Any]] | None:
        found = applied.api.list(root)
        seen = all(one.get("status", {}).get("observedGeneration") for one in found)
        return found if seen and found else None

    policies = wait_for(checked, 30, "the expressions of the policies are checked")
    assert {one["metadata"]["name"] for one in policies} == listed("ValidatingAdmissionPolicy")
    assert [one["status"]["typeChecking"] for one in policies if one["status"].get("typeChecking")] == []


def test_pods_that_request_no_devices_are_created_before_the_service_runs(applied: Cluster) -> None:
    for namespace in ("default", "kube-system", "linkwise-system"):
        about = {"name": "plain", "namespace": namespace}
        spec = {"containers": [{"name": "main", "image": "example.com/plain"}]}
        applied.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec})


def test_a_second_application_keeps_what_the_service_has_written(applied: Cluster) -> None:
    applied.api.patch(f"{SECRETS}/linkwise-tls", {"data": {"tls.crt": "YQ=="}})
    applied.kubectl("apply", "--server-side", "--filename", "-", stdin=MANIFESTS)
    assert applied.api.get(f"{SECRETS}/linkwise-tls")["data"] == {"tls.crt": "YQ=="}


def test_the_service_creates_secrets_of_its_own_names_only(applied: Cluster) -> None:
    def create(name: str, *words: str) -> str:
        about = {"name": name, "namespace": "linkwise-system"}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": about}
        account = "system:serviceaccount:linkwise-system:linkwise"
        return applied.kubectl(*words, "--as", account, "--filename", "-", stdin=json.dumps(secret))

    for name in ("linkwise-tls", "linkwise-scheduler-tls", "linkwise-webhook"):
        applied.api.delete(f"{SECRETS}/{name}")
        with pytest.raises(AssertionError, match='cannot create resource "secrets"'):
            create(name, "create")
        assert "serverside-applied" in create(name, "apply", "--server-side")
    with pytest.raises(AssertionError, match='cannot patch resource "secrets"'):
        create("other", "apply", "--server-side")


def test_every_object_is_removed_by_the_same_manifests(programs: Path, tmp_path: Path) -> None:
    with installed(programs, tmp_path) as cluster:
        cluster.kubectl("delete", "--timeout=60s", "--filename", "-", stdin=MANIFESTS)
        roots = {"ClusterRole": "rbac.authorization.k8s.io", "CustomResourceDefinition": "apiextensions.k8s.io"}
        for kind, group in roots.items():
            assert names(cluster, f"/apis/{group}/v1/{kind.lower()}s") & listed(kind) == set()
        assert "linkwise-system" not in names(cluster, "/api/v1/namespaces")
