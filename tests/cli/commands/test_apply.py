from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.embedded.apiserver.faults import Fault
from support.embedded.cli_cluster import AskedCluster
from support.webhook_server import WebhookServer, allow, deny, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec: {containers: [{name: main, image: example.com/none, resources: {limits: {nvidia.com/gpu: 2}}}]}
"""
MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: m}
data: {a: "1"}
"""


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskedCluster]:
    with AskedCluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def pods(*names: str) -> str:
    return "---\n".join(POD.replace("NAME", name) for name in names)


def test_objects_are_created_then_unchanged_then_configured(cluster: AskedCluster) -> None:
    text = f"{pods('a', 'b')}---\n{MAP}"
    assert cluster.ask("apply", "-f", "-", stdin=text).stdout == "pod/a created\npod/b created\nconfigmap/m created\n"
    again = cluster.ask("apply", "-f", "-", stdin=text.replace('"1"', '"2"'))
    assert (again.returncode, again.stdout) == (0, "pod/a unchanged\npod/b unchanged\nconfigmap/m configured\n")


def test_a_dry_run_writes_nothing(cluster: AskedCluster) -> None:
    shown = cluster.ask("apply", "-f", "-", "--dry-run", stdin=pods("a"))
    assert shown.stdout == "pod/a created (server dry run)\n"
    assert cluster.names("pods") == []


def test_list_items_are_applied_and_printed_with_their_api_group_like_kubectl(cluster: AskedCluster) -> None:
    job = "{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}"
    shown = cluster.ask("apply", "-f", "-", stdin=f"kind: List\napiVersion: v1\nitems:\n- {job}\n")
    assert shown.stdout == "job.batch/j created\n"


@pytest.mark.parametrize(
    ("last", "sentence"),
    [
        ("a: [\n", "standard input:7:1: not valid YAML: expected the node content, but found '<stream end>'"),
        ("kind: Pod\n", ":6:1: apiVersion is missing"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-}\n", ":8:1: Pod has no metadata.name; generateName"),
        ("just text\n", "standard input:6:1: expected a Kubernetes object, got text"),
        ("a: &a {b: *a}\n", "standard input:6:1: YAML aliases expand without limit"),
    ],
)
def test_an_invalid_file_leaves_the_cluster_unchanged(cluster: AskedCluster, last: str, sentence: str) -> None:
    shown = cluster.ask("apply", "-f", "-", stdin=f"{pods('a')}---\n{last}")
    assert (shown.returncode, shown.stdout, cluster.names("pods")) == (2, "", [])
    assert "Traceback" not in shown.stderr
    assert sentence in shown.stderr


def test_a_kind_that_is_not_served_is_reported_before_anything_is_sent(cluster: AskedCluster) -> None:
    shown = cluster.ask("apply", "-f", "-", stdin=f"{pods('a')}---\n{MAP.replace('ConfigMap', 'ConfgMap')}")
    assert (shown.returncode, cluster.names("pods")) == (1, [])
    assert shown.stderr == (
        'linkwise: standard input:6:1: no matches for kind "ConfgMap" in version "v1"; did you mean ConfigMap?\n'
    )


def test_refused_objects_are_reported_and_the_rest_is_sent(cluster: AskedCluster) -> None:
    shown = cluster.ask("apply", "-f", "-", stdin=pods("a", "b").replace("image", "imag", 1))
    assert (shown.returncode, shown.stdout) == (1, "pod/b created\n")
    assert "standard input:1:1: pod/a: " in shown.stderr
    assert 'unknown field "spec.containers[0].imag"' in shown.stderr


def test_a_forbidden_request_is_reported_with_verb_and_resource(cluster: AskedCluster) -> None:
    cluster.fail(Fault("answer", on="PATCH", code=403, times=0))
    shown = cluster.ask("apply", "-f", "-", stdin=pods("a"))
    assert shown.returncode == 1
    assert "pod/a: may not patch pods in namespace default: " in shown.stderr


def test_a_namespace_that_differs_from_the_flag_is_an_error(cluster: AskedCluster) -> None:
    text = pods("a").replace("{name: a}", "{name: a, namespace: kube-system}")
    shown = cluster.ask("apply", "-f", "-", "-n", "kube-public", stdin=text)
    assert (shown.returncode, cluster.names("pods")) == (2, [])
    assert "standard input:3:21: Pod a is in namespace kube-system, but -n is kube-public" in shown.stderr
    assert cluster.ask("apply", "-f", "-", "-n", "kube-public", stdin=pods("b")).stdout == "pod/b created\n"


def test_warnings_and_refusals_of_admission_are_shown_as_they_are(cluster: AskedCluster) -> None:
    with WebhookServer() as server:
        about = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        webhook = server.webhook("/check", rule("pods"))
        cluster.make({**about, "metadata": {"name": "check"}, "webhooks": [webhook]})
        server.on("/check", allow(warnings=['say "please"']))
        shown = cluster.ask("apply", "-f", "-", stdin=pods("a"))
        assert (shown.stdout, shown.stderr) == ("pod/a created\n", 'Warning: say "please"\n')
        server.on("/check", deny("3 is too many"))
        refused = cluster.ask("apply", "-f", "-", stdin=pods("b"))
    reason = 'admission webhook "check.webhook.test" denied the request: 3 is too many'
    assert refused.stderr == f"linkwise: standard input:1:1: pod/b: {reason}\n"
