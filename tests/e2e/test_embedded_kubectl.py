"""A real kubectl on the embedded API server; with LINKWISE_RECORD=1 its requests are noted for tests that have no kubectl."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from support.embedded.recorded_requests import Recording
from support.embedded.thread import EmbeddedThread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "x:1", resources: {limits: {nvidia.com/gpu: "1"}}}]}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {app: x}}
spec: {containers: [{name: main, image: "x:1"}]}
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status:
  capacity: {cpu: "4", nvidia.com/gpu: "8"}
  conditions: [{type: Ready, status: "True"}]
"""
EVENT = """
apiVersion: v1
kind: Event
metadata: {name: a.1}
involvedObject: {kind: Pod, name: a, namespace: default}
type: Normal
reason: Scheduled
message: it has a place
"""
INVENTORY = """
apiVersion: linkwise.dev/v1alpha1
kind: DeviceInventory
metadata: {name: n1}
spec: {mode: whole, enforced: true, deviceCount: 8, healthyCount: 7, devices: []}
"""


@dataclass
class Kubectl:
    """kubectl, as its users type it."""

    program: Path
    folder: Path
    server: EmbeddedThread

    def __call__(self, words: str, stdin: str = "", *, fails: bool = False) -> str:
        """What it prints; AssertionError if it ends otherwise than it should."""
        environment = {**os.environ, "KUBECONFIG": str(self.folder / "config"), "HOME": str(self.folder)}
        done = subprocess.run(
            [self.program, *words.split(" ")],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=environment,
        )
        assert (done.returncode != 0) is fails, f"kubectl {words}: {done.returncode} {done.stdout} {done.stderr}"
        assert fails or not done.stderr, done.stderr
        return done.stderr if fails else done.stdout

    def bind(self, name: str) -> None:
        """What a scheduler and a kubelet do."""
        api, pod = self.server.api(), f"/api/v1/namespaces/default/pods/{name}"
        api.call("POST", f"{pod}/binding", {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}})
        api.patch(
            f"{pod}/status", {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        )
        api.close()

    def delete(self, name: str, grace: int) -> None:
        """Somebody else deletes a pod."""
        api = self.server.api()
        api.call("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds={grace}")
        api.close()


@pytest.fixture
def kubectl(programs: Path, tmp_path: Path, root: Path, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    recording = Recording()
    with EmbeddedThread(tls=True, middleware=recording.before) as thread:
        (tmp_path / "config").write_text(thread.server.kubeconfig())
        yield Kubectl(programs / "kubectl", tmp_path, thread)
    if os.environ.get("LINKWISE_RECORD"):
        name = request.node.name.removeprefix("test_")
        (root / f"tests/embedded/recorded/{name}.json").write_text(recording.text())


def rows(table: str) -> list[list[str]]:
    return [re.split(r" {2,}", line.strip()) for line in table.splitlines()]


def test_apply_makes_changes_and_leaves_alone(kubectl: Kubectl) -> None:
    assert kubectl("apply -f -", DEPLOYMENT) == "deployment.apps/web created\n"
    assert kubectl("apply -f -", DEPLOYMENT) == "deployment.apps/web unchanged\n"
    changed = DEPLOYMENT.replace("replicas: 2", "replicas: 3").replace("x:1", "x:2")
    assert kubectl("apply -f -", changed) == "deployment.apps/web configured\n"
    assert kubectl("get deploy web -o jsonpath={.spec.replicas}/{.spec.template.spec.containers[0].image}") == "3/x:2"
    assert kubectl("apply --server-side -f -", changed) == "deployment.apps/web serverside-applied\n"
    assert kubectl("delete -f -", changed) == 'deployment.apps "web" deleted from default namespace\n'


def test_get_shows_the_columns_that_people_know(kubectl: Kubectl) -> None:
    for text in (NODE, POD, EVENT, INVENTORY, DEPLOYMENT):
        kubectl("apply -f -", text)
    kubectl.bind("a")
    assert rows(kubectl("get nodes"))[0] == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert rows(kubectl("get nodes"))[1][:3] == ["n1", "Ready", "<none>"]
    assert rows(kubectl("get pods"))[1][:4] == ["a", "0/1", "Running", "0"]
    assert rows(kubectl("get pods -o wide -A"))[1][-3] == "n1"
    assert "it has a place" in kubectl("get events")
    assert rows(kubectl("get dinv"))[0] == ["NAME", "MODE", "DEVICES", "HEALTHY", "ENFORCED", "AGE"]
    assert rows(kubectl("get dinv"))[1][:5] == ["n1", "whole", "8", "7", "true"]
    assert rows(kubectl("get deploy"))[1][:4] == ["web", "0/2", "0", "0"]
    assert kubectl("get pods -l app=x --no-headers").startswith("a ")
    assert kubectl("get pods --field-selector spec.nodeName=n1 -o name") == "pod/a\n"
    assert "deployment.apps/web" in kubectl("get all")


def test_describe_shows_pods_nodes_and_their_events(kubectl: Kubectl) -> None:
    for text in (NODE, POD, EVENT):
        kubectl("apply -f -", text)
    kubectl.bind("a")
    printed = kubectl("describe pod a")
    assert re.search(r"Node: +n1", printed)
    printed = kubectl("describe node n1")
    assert re.search(r"nvidia.com/gpu: +8", printed)
    assert re.search(r"default +a ", printed)


def test_wait_sees_a_condition_come_and_a_pod_go(kubectl: Kubectl) -> None:
    kubectl("apply -f -", NODE)
    kubectl("apply -f -", POD)
    assert "timed out" in kubectl("wait --for=condition=Ready pod/a --timeout=1s", fails=True)
    kubectl.bind("a")
    assert kubectl("wait --for=condition=Ready pod/a --timeout=5s") == "pod/a condition met\n"
    assert kubectl("wait --for=condition=Ready node/n1 --timeout=5s") == "node/n1 condition met\n"
    kubectl.delete("a", 30)
    assert "timed out" in kubectl("wait --for=delete pod/a --timeout=1s", fails=True)
    kubectl.delete("a", 0)
    assert kubectl("wait --for=delete pod/a --timeout=5s") == ""


def test_create_label_annotate_patch_and_scale(kubectl: Kubectl) -> None:
    assert kubectl("create namespace team") == "namespace/team created\n"
    assert kubectl("create configmap c --from-literal a=b -n team") == "configmap/c created\n"
    assert kubectl("create deployment d --image=x --replicas=2 -n team") == "deployment.apps/d created\n"
    assert kubectl("create job j --image=x -n team") == "job.batch/j created\n"
    assert kubectl("run r --image=x -n team") == "pod/r created\n"
    assert kubectl("label pod r tier=web -n team") == "pod/r labeled\n"
    assert kubectl("annotate pod r note=this -n team") == "pod/r annotated\n"
    assert kubectl('patch pod r -n team -p {"metadata":{"labels":{"zone":"1"}}}') == "pod/r patched\n"
    assert kubectl('patch pod r -n team --type=json -p [{"op":"remove","path":"/metadata/labels/zone"}]').endswith(
        "patched\n"
    )
    assert kubectl("get pod r -n team --show-labels --no-headers").rstrip().endswith("run=r,tier=web")
    assert kubectl("scale deploy d --replicas=5 -n team") == "deployment.apps/d scaled\n"
    assert kubectl("delete namespace team") == 'namespace "team" deleted\n'
    assert "not found" in kubectl("get namespace team", fails=True)


def test_cordon_taint_and_drain(kubectl: Kubectl) -> None:
    kubectl("apply -f -", NODE)
    kubectl("apply -f -", POD)
    kubectl.bind("a")
    assert kubectl("taint node n1 a=b:NoSchedule") == "node/n1 tainted\n"
    assert kubectl("cordon n1") == "node/n1 cordoned\n"
    assert rows(kubectl("get nodes"))[1][1] == "Ready,SchedulingDisabled"
    assert 'waiting for pod "a" in namespace "default" to terminate' in kubectl(
        "drain n1 --force --timeout=1s", fails=True
    )
    assert "Terminating" in kubectl("get pods")
    assert kubectl("uncordon n1") == "node/n1 uncordoned\n"


def test_errors_are_those_that_people_know(kubectl: Kubectl) -> None:
    assert kubectl("get pod nope", fails=True) == 'Error from server (NotFound): pods "nope" not found\n'
    assert 'the server doesn\'t have a resource type "strange"' in kubectl("get strange", fails=True)
    assert 'no matches for kind "Strange" in version "v1"' in kubectl(
        "apply -f -", POD.replace("Pod", "Strange"), fails=True
    )
    wrong = kubectl("apply -f -", POD.replace("name: a", "name: A_"), fails=True)
    assert "a lowercase RFC 1123 subdomain must consist of" in wrong
    assert 'unknown field "spec.conatiners"' in kubectl(
        "apply -f -", POD.replace("containers", "conatiners"), fails=True
    )
    assert "yaml: line" in kubectl("apply -f -", POD.replace("app: x}", "app: x"), fails=True)
    kubectl("create -f -", POD)
    assert "(AlreadyExists)" in kubectl("create -f -", POD, fails=True)
    assert "does not have a host assigned" in kubectl("logs a", fails=True)
    kubectl.bind("a")
    assert "containers on simulated nodes do not run" in kubectl("logs a", fails=True)
    assert "may not change fields other than" in kubectl(
        'patch pod a -p {"spec":{"schedulerName":"other"}}', fails=True
    )
    (kubectl.folder / "config").write_text(
        (kubectl.folder / "config").read_text().replace(kubectl.server.server.token, "wrong")
    )
    assert "You must be logged in to the server (Unauthorized)" in kubectl("get pods", fails=True)


def test_a_definition_is_applied_and_its_objects_are_shown(kubectl: Kubectl, root: Path) -> None:
    file = root / "deploy/crds/deviceinventories.linkwise.dev.yaml"
    assert kubectl(f"apply --server-side -f {file}").endswith("serverside-applied\n")
    assert kubectl(f"wait --for=condition=Established --timeout=5s -f {file}").endswith("condition met\n")
    assert kubectl("apply -f -", INVENTORY) == "deviceinventory.linkwise.dev/n1 created\n"
    assert "Unsupported value" in kubectl("apply -f -", INVENTORY.replace("whole", "strange"), fails=True)
    assert "Mode:" in kubectl("describe dinv n1")
    assert "deviceinventories" in kubectl("api-resources --api-group=linkwise.dev")
    assert "Server Version: v1.36" in kubectl("version")
