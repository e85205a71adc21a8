"""Roles of the chart are enough and no more, by an audit; and a verb that is taken away is noticed."""

from __future__ import annotations

import copy
import json
import signal
import ssl
import subprocess
import sys
import time
from base64 import b64decode
from dataclasses import dataclass, field, replace
from functools import partial
from http.client import HTTPSConnection
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from linkwise.assembly.cluster_reader import with_cluster
from linkwise.assembly.doctor import Examination, gather
from linkwise.doctor.examine import examine
from support.e2e.all_it_does import NOT_SERVED, ONLY_FOR_CLAIMS, all_it_does, define_sources
from support.e2e.audit import audit_flags, trail_of
from support.e2e.helm import NAMESPACE, RELEASE
from support.e2e.installation import installed_cluster
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from support.e2e.api_client import Raw
    from support.e2e.audit import Right, Trail
    from support.e2e.installation import Installation

GPU: Final = "nvidia.com/gpu"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS: Final = {"service": RELEASE, "agent": f"{RELEASE}-agent", "scheduler": f"{RELEASE}-scheduler"}
SECONDS: Final = 10.0
UNUSED: Final = {
    # The API server authorizes it within the patch that creates a Secret, and logs one call.
    "service": {("", "secrets", "create"), *ONLY_FOR_CLAIMS},
    # Without a kubelet, devices in use and shared devices an agent has nothing to correct or to count; tests of the agent
    # on a real kubelet, with rules from the same table, use all of them.
    "agent": {
        ("linkwise.dev", "deviceinventories", "get"),
        ("linkwise.dev", "deviceinventories", "patch"),
        ("", "nodes/status", "patch"),
        ("", "pods", "patch"),
        ("", "events", "create"),
        ("", "events", "patch"),
    },
    "scheduler": set[tuple[str, str, str]](),
}
"""rights that this life of an installation does not use, by account: group, resource and verb"""


@dataclass(frozen=True)
class Lived:
    """An installation that has done all it does, and what the API server has logged."""

    installation: Installation
    folder: Path
    trails: Mapping[str, Trail] = field(default_factory=dict)
    """what each account was granted and what it did"""

    def roles(self, component: str) -> list[Raw]:
        """The roles of the chart that are bound to an account; those of Kubernetes itself are not the chart's."""
        found = []
        for kind, place in (
            ("clusterrole", ""),
            ("role", f"/namespaces/{NAMESPACE}"),
            ("role", "/namespaces/kube-system"),
        ):
            roles = self.installation.objects(f"{RBAC}{place}/{kind}s")
            for binding in self.installation.api.list(f"{RBAC}{place}/{kind}bindings"):
                subjects = [(one["kind"], one["name"], one.get("namespace")) for one in binding.get("subjects", ())]
                role = roles.get(binding["roleRef"]["name"])
                if (
                    ("ServiceAccount", ACCOUNTS[component], NAMESPACE) in subjects
                    and role
                    and "helm.sh/chart" in labels(role)
                ):
                    found.append(role)
        return found

    def trail(self, component: str) -> Trail:
        """What an account was granted and what it did."""
        user = f"system:serviceaccount:{NAMESPACE}:{ACCOUNTS[component]}"
        return trail_of(yaml.safe_dump_all(self.roles(component)), self.folder, user)


def labels(thing: Raw) -> Raw:
    return dict(thing["metadata"].get("labels") or {})


@pytest.fixture(scope="module")
def lived(programs: Path, helm_programs: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    folder = tmp_path_factory.mktemp("roles")
    users = [f"system:serviceaccount:{NAMESPACE}:{name}" for name in ACCOUNTS.values()]
    with installed_cluster(programs, helm_programs, root, folder, *audit_flags(folder, *users)) as installation:
        define_sources(installation.cluster)
        # The tests themselves write what the policies reserve for the service and the agents.
        installation.install(features={"evict": True}, protection={"enabled": False})
        installation.add_nodes("gpu-1")
        all_it_does(installation.placing, partial(ask_as_scheduler, installation))
        ask_as_tenant(installation)
        hand_over(installation)
        lose_a_secret(installation)
        made = Lived(installation, folder)
        # Read now: a test that takes verbs away makes the API server refuse calls.
        yield replace(made, trails={component: made.trail(component) for component in ACCOUNTS})


def ask_as_scheduler(installation: Installation, path: str, body: Raw) -> Raw:
    """Post to the extender with the certificate of the chart's kube-scheduler."""
    secret = installation.api.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{RELEASE}-scheduler-tls")["data"]
    files = {key: installation.cluster.folder / f"scheduler-{key}" for key in ("ca.crt", "tls.crt", "tls.key")}
    for key, file in files.items():
        file.write_bytes(b64decode(secret[key]))
    trust = ssl.create_default_context(cafile=str(files["ca.crt"]))
    trust.load_cert_chain(files["tls.crt"], files["tls.key"])
    trust.check_hostname = False  # tests come through a door
    connection = HTTPSConnection(
        "localhost", installation.cluster.network.door((installation.leader(), 39999)), context=trust, timeout=10
    )
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return dict(json.loads(connection.getresponse().read()))
    finally:
        connection.close()


def ask_as_tenant(installation: Installation) -> None:
    namespace = installation.cluster.namespace()
    words = ("--clusterrole=view", "--user=tenant", "--namespace", namespace)
    installation.cluster.kubectl("create", "rolebinding", "tenant", *words)
    installation.api.create(pod(namespace, "train", {GPU: 9}))
    command = [sys.executable, "-m", "linkwise", "explain", "pod/train", "--namespace", namespace]
    command += ["--kubeconfig", str(installation.cluster.kubeconfig("tenant"))]
    wait_for(
        lambda: not subprocess.run(command, capture_output=True, check=False).returncode, 30, "the tenant is answered"
    )


def hand_over(installation: Installation) -> None:
    """The leader is killed, and the other replica takes over."""
    before = installation.leader()
    process = next(one for one in installation.pods("service") if one.address == before).containers[0].process
    assert process is not None
    process.signal(signal.SIGKILL)  # the kubelet starts it again
    wait_for(lambda: installation.leader() not in {"", before}, 30, "the other replica leads")


def lose_a_secret(installation: Installation) -> None:
    """Somebody deletes the certificates of the webhook, and the service makes others."""
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    installation.api.delete(f"{secret}/{RELEASE}-webhook")
    wait_for(
        lambda: installation.objects(secret).get(f"{RELEASE}-webhook", {}).get("data"),
        30,
        "it is there again, and not empty",
    )


@pytest.mark.parametrize("component", ACCOUNTS)
def test_nothing_that_a_component_does_is_refused(lived: Lived, component: str) -> None:
    trail = lived.trails[component]
    assert trail.refused == []
    assert trail.calls


@pytest.mark.parametrize("component", ACCOUNTS)
def test_every_right_of_a_component_is_used(lived: Lived, component: str) -> None:
    trail = lived.trails[component]
    unused = {one[1:] for one in trail.granted - used(trail) if one[1] not in NOT_SERVED}
    assert unused <= UNUSED[component]


@pytest.mark.parametrize("component", ["service", "agent"])
def test_no_component_uses_more_than_the_roles_of_the_chart(lived: Lived, component: str) -> None:
    trail = lived.trails[component]
    assert used(trail) <= trail.granted


def used(trail: Trail) -> set[Right]:
    """Rights by which calls were let through; roles of the cluster cover calls in a namespace too."""
    return {one if one in trail.granted else ("", *one[1:]) for one in trail.used}


def test_doctor_finds_no_missing_right_in_a_fresh_installation(lived: Lived) -> None:
    assert [noticed(lived.installation, component) for component in ACCOUNTS] == [set()] * 3


def test_every_verb_that_is_taken_away_is_noticed(lived: Lived) -> None:
    unnoticed = [
        f"{component}: {verb} {resource}.{group}"
        for component in ("service", "agent")
        for role in lived.roles(component)
        for group, resource, verb in rights_of(role)
        if group not in NOT_SERVED and not is_noticed(lived.installation, component, role, (group, resource, verb))
    ]
    assert unnoticed == []


def rights_of(role: Raw) -> list[tuple[str, str, str]]:
    return sorted(
        {
            (group, resource, verb)
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
    )


def is_noticed(installation: Installation, component: str, role: Raw, right: tuple[str, str, str]) -> bool:
    """Whether doctor names a verb within seconds after it was taken from a role, which is mended again."""
    group, resource, verb = right
    rules = []
    for rule in copy.deepcopy(role["rules"]):
        if group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]:
            rules.append({**rule, "resources": [one for one in rule["resources"] if one != resource]})
            rules.append(
                {**rule, "apiGroups": [one for one in rule["apiGroups"] if one != group], "resources": [resource]}
            )
            rules.append(
                {
                    **rule,
                    "apiGroups": [group],
                    "resources": [resource],
                    "verbs": [one for one in rule["verbs"] if one != verb],
                }
            )
        else:
            rules.append(rule)
    left = [rule for rule in rules if rule["apiGroups"] and rule["resources"] and rule["verbs"]]
    place = f"/namespaces/{role['metadata']['namespace']}/roles" if "namespace" in role["metadata"] else "/clusterroles"
    path, name = f"{RBAC}{place}/{role['metadata']['name']}", f"{resource}.{group}" if group else resource
    installation.api.patch(path, {"rules": left})
    try:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if any(found.startswith(f"{verb} {name}") for found in noticed(installation, component)):
                return True
        return False
    finally:
        installation.api.patch(path, {"rules": role["rules"]})


def noticed(installation: Installation, component: str) -> set[str]:
    """The missing rights of an account that doctor names."""
    checks = frozenset({f"rbac-{component}"})
    wanted = Examination(NAMESPACE, checks, None)
    facts = with_cluster(installation.cluster.kubeconfig("admin"), None, lambda connection: gather(connection, wanted))
    return {one for found in examine(facts, checks) for one in found.objects}
