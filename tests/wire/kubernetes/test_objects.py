from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from linkwise import InputError, Owner
from linkwise.model.views import HostPort, NodeTerm, PodCondition, PodTerm, PodView, SelectorRequirement
from linkwise.wire.kubernetes.objects import (
    decode_node,
    decode_node_page,
    decode_pod,
    decode_pod_page,
    node_view,
    pod_view,
)

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "trainer-0",
        "namespace": "team-a",
        "uid": "u-1",
        "labels": {"app": "t"},
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "deletionTimestamp": "2026-01-02T03:05:05Z",
        "ownerReferences": [
            {"kind": "X", "name": "x", "uid": "1"},
            {"kind": "Job", "name": "j", "uid": "2", "controller": True},
        ],
    },
    "spec": {
        "nodeName": "n1",
        "initContainers": [
            {"name": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}},
            {"name": "s", "restartPolicy": "Always"},
        ],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}, "limits": {"nvidia.com/gpu": 2}}}],
        "schedulingGates": [{"name": "g"}],
        "resourceClaims": [{"name": "claim"}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
    },
    "status": {"phase": "Running"},
}


def test_a_pod_is_read_as_far_as_placing_goes() -> None:
    pod = pod_view(POD)
    assert (pod.namespace, pod.name, pod.uid, pod.node, pod.phase, pod.deleting) == (
        *("team-a", "trainer-0", "u-1", "n1", "Running"),
        True,
    )
    assert [(c.name, c.init, c.sidecar) for c in pod.containers] == [
        ("i", True, False),
        ("s", True, True),
        ("c", False, False),
    ]
    assert pod.containers[2].limits == {"nvidia.com/gpu": "2"}
    assert pod.owner == Owner("Job", "j", "2")
    assert (pod.created, pod.gates, pod.claims) == (1767323045.0, ("g",), ("claim",))


@pytest.mark.parametrize(
    ("spec", "group"),
    [
        ({"schedulingGroup": {"podGroupName": "g"}}, "g"),
        ({"workloadRef": {"name": "job", "podGroup": "workers", "podGroupReplicaKey": "3"}}, "job.workers.3"),
        ({}, ""),
    ],
)
def test_the_group_that_a_spec_points_to_is_read(spec: dict[str, object], group: str) -> None:
    assert pod_view({"spec": spec}).scheduling_group == group


def test_a_node_is_read_with_its_readiness() -> None:
    node = node_view(
        {
            "metadata": {"name": "n"},
            "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoExecute"}]},
            "status": {"capacity": {"cpu": 8}, "conditions": [{"type": "Ready", "status": "False"}]},
        }
    )
    assert (node.name, node.unschedulable, node.ready, node.capacity) == ("n", True, False, {"cpu": "8"})


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"spec": {"containers": "x"}}, "spec.containers: expected a list"),
        ({"metadata": {"labels": {"a": 1}}}, "metadata.labels"),
        (
            {"metadata": {"creationTimestamp": "yesterday"}},
            "metadata.creationTimestamp: 'yesterday' is not a timestamp",
        ),
        ([], "expected an object"),
    ],
)
def test_a_broken_field_is_named(document: object, text: str) -> None:
    with pytest.raises(InputError, match=text):
        pod_view(document)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.sampled_from(["metadata", "spec", "status"]), JSON)
def test_any_object_is_a_view_or_an_input_error(part: str, value: object) -> None:
    for read in (pod_view, node_view):
        try:
            read({part: value})
        except InputError:
            continue


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
ENDED: dict[str, object] = {"state": {"terminated": {"exitCode": 0}}}
RUNS: dict[str, object] = {"state": {"running": {}}}
WAITS: dict[str, object] = {"state": {"waiting": {}}}


def spec_view(**spec: object) -> PodView:
    return pod_view({"metadata": {"namespace": "team-a"}, "spec": spec})


def test_required_node_affinity_is_read_with_labels_and_fields() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    name = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    terms = [{"matchExpressions": [zone]}, {"matchFields": [name]}]
    pod = spec_view(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})
    assert pod.affinity == (
        NodeTerm(expressions=(SelectorRequirement("zone", "In", ("a", "b")),)),
        NodeTerm(fields=(SelectorRequirement("metadata.name", "In", ("n1",)),)),
    )


@pytest.mark.parametrize("kind", ["nodeAffinity", "podAffinity", "podAntiAffinity"])
def test_a_pod_with_preferred_terms_has_preferences(kind: str) -> None:
    preferred = REQUIRED.replace("required", "preferred")
    assert spec_view(affinity={kind: {preferred: [{"weight": 1}]}}).has_preferences
    assert not spec_view(affinity={kind: {preferred: []}}).has_preferences


@pytest.mark.parametrize(("action", "prefers"), [("ScheduleAnyway", True), ("DoNotSchedule", False)])
def test_a_pod_that_should_be_spread_has_preferences(action: str, *, prefers: bool) -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": action}
    assert spec_view(topologySpreadConstraints=[constraint]).has_preferences == prefers


@pytest.mark.parametrize(
    ("condition", "since"),
    [
        ({}, 1767225600.0),
        ({"status": "True"}, 0.0),
        ({"type": "Ready"}, 0.0),
        ({"reason": "SchedulingGated"}, 0.0),
        ({"lastTransitionTime": "yesterday"}, 0.0),
        ({"lastTransitionTime": None}, 0.0),
    ],
)
def test_a_pod_is_unschedulable_since_its_scheduler_reported_it(condition: dict[str, object], since: float) -> None:
    reported = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    reported |= {"lastTransitionTime": "2026-01-01T00:00:00Z", **condition}  # type: ignore[dict-item]
    pod = {"metadata": {"uid": "u"}, "status": {"conditions": [{"type": "Initialized"}, reported]}}
    assert pod_view(pod).unschedulable_since == since
    assert pod_view({**pod, "spec": {"nodeName": "n"}}).unschedulable_since == 0.0


def test_a_pod_has_the_condition_that_is_published_about_it() -> None:
    other = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    ours = {"type": "linkwise.dev/Schedulable", "status": "False", "reason": "NoRoom", "message": "no room"}
    times = [{"lastTransitionTime": text} for text in ("2026-01-01T00:00:00Z", "yesterday")]
    found = [pod_view({"status": {"conditions": [other, {**ours, **time}]}}).condition for time in times]
    assert found == [PodCondition(False, "NoRoom", "no room", since) for since in (1767225600.0, 0.0)]  # noqa: FBT003 - the status
    assert pod_view({"status": {"conditions": [other]}}).condition is None


@pytest.mark.parametrize(
    ("status", "rejection"),
    [
        (
            {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no healthy devices"},
            "no healthy devices",
        ),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, "UnexpectedAdmissionError"),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, ""),
        ({"phase": "Failed"}, ""),
    ],
)
def test_a_pod_that_the_kubelet_rejected_for_its_devices_has_the_message(
    status: dict[str, object], rejection: str
) -> None:
    assert pod_view({"metadata": {"name": "a"}, "status": status}).rejection == rejection


def test_no_required_affinity_and_one_without_terms_are_distinguished() -> None:
    assert spec_view(affinity={"nodeAffinity": {}}).affinity is None
    assert spec_view(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": None}}}).affinity == ()


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ({}, {"namespaces": ("team-a",)}),
        ({"namespaces": ["b"]}, {"namespaces": ("b",)}),
        ({"namespaceSelector": {}}, {"all_namespaces": True}),
        ({"namespaceSelector": {"matchLabels": {"x": "y"}}}, {"all_namespaces": True}),
    ],
)
def test_a_condition_on_pods_knows_its_namespaces(fields: dict[str, object], read: dict[str, Any]) -> None:
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "web"}}, **fields}
    pod = spec_view(affinity={"podAntiAffinity": {REQUIRED: [term]}, "podAffinity": {REQUIRED: [term]}})
    assert pod.apart == pod.together == (PodTerm("host", {"app": "web"}, **read),)


def test_a_condition_without_a_selector_means_no_pod() -> None:
    pod = spec_view(affinity={"podAffinity": {REQUIRED: [{"topologyKey": "host"}]}})
    assert pod.together[0].expressions == (SelectorRequirement("", "In"),)


def test_host_ports_are_those_of_all_that_run_together() -> None:
    pod = spec_view(
        containers=[{"ports": [{"containerPort": 80}, {"hostPort": 8080, "protocol": "UDP", "hostIP": "10.0.0.1"}]}],
        initContainers=[
            {"ports": [{"hostPort": 1}]},
            {"restartPolicy": "Always", "ports": [{"hostPort": 2}]},
        ],
    )
    assert pod.ports == (HostPort(8080, "UDP", "10.0.0.1"), HostPort(2))


def test_on_the_hosts_network_every_port_is_the_hosts() -> None:
    pod = spec_view(hostNetwork=True, containers=[{"ports": [{"containerPort": 80}]}])
    assert pod.ports == (HostPort(80),)


@pytest.mark.parametrize(("text", "version"), [("12", 12), ("", 0), ("abc", 0), ("-1", 0), ("٣", 0), ("9" * 5000, 0)])
def test_a_version_is_a_number_or_nothing(text: str, version: int) -> None:
    meta = {"metadata": {"resourceVersion": text}}
    assert (pod_view(meta).version, node_view(meta).version) == (version, version)


@pytest.mark.parametrize(
    ("status", "stopped"),
    [
        ({"containerStatuses": [ENDED, ENDED]}, True),
        ({"containerStatuses": [ENDED, RUNS]}, False),
        ({"containerStatuses": [ENDED, WAITS]}, False),
        ({"containerStatuses": [ENDED, {}]}, False),
        ({"containerStatuses": [ENDED], "initContainerStatuses": [ENDED, WAITS]}, True),
        ({"containerStatuses": [ENDED], "initContainerStatuses": [RUNS]}, False),
        ({"containerStatuses": [ENDED], "initContainerStatuses": [{"lastState": ENDED["state"]}]}, False),
        ({"initContainerStatuses": [ENDED]}, False),
        ({"containerStatuses": []}, False),
        ({}, False),
    ],
)
def test_a_pod_has_stopped_when_all_that_began_has_ended(status: dict[str, object], *, stopped: bool) -> None:
    deleted = {"metadata": {"deletionTimestamp": "2026-01-02T03:05:05Z"}, "status": status}
    assert pod_view(deleted).stopped is stopped
    assert not pod_view({"status": status}).stopped


@pytest.mark.parametrize(
    ("status", "begun"),
    [
        ({}, False),
        ({"containerStatuses": []}, False),
        ({"containerStatuses": [WAITS, WAITS], "initContainerStatuses": [WAITS]}, False),
        ({"containerStatuses": [WAITS, {"lastState": {}, "restartCount": 0, "started": False}]}, False),
        ({"containerStatuses": [WAITS, RUNS]}, True),
        ({"containerStatuses": [ENDED]}, True),
        ({"containerStatuses": [WAITS], "initContainerStatuses": [RUNS]}, True),
        ({"containerStatuses": [{**WAITS, "lastState": ENDED["state"]}]}, True),
        ({"containerStatuses": [{**WAITS, "restartCount": 1}]}, True),
        ({"initContainerStatuses": [ENDED]}, True),
    ],
)
def test_a_pod_has_begun_when_any_container_has_run(status: dict[str, object], *, begun: bool) -> None:
    assert pod_view({"status": status}).begun is begun


def test_a_nomination_and_amounts_of_the_whole_pod_are_read() -> None:
    pod = pod_view({"spec": {"resources": {"requests": {"cpu": 2}}}, "status": {"nominatedNodeName": "n1"}})
    assert (pod.requests, pod.nominated) == ({"cpu": "2"}, "n1")


def test_json_is_read_like_a_document() -> None:
    data, node = json.dumps(POD).encode(), {"metadata": {"name": "n", "resourceVersion": "7"}}
    assert decode_pod(data) == pod_view(POD)
    assert decode_pod_page(b'{"items": [%b, {}]}' % data).items == [pod_view(POD), pod_view({})]
    assert decode_node_page(json.dumps({"items": [node]}).encode()).items == [node_view(node)]
    assert decode_node(json.dumps(node).encode()) == node_view(node)


@pytest.mark.parametrize("data", [b"{}", b'{"items": null}', b'{"items": [], "metadata": {}}'])
def test_an_empty_list_has_no_items(data: bytes) -> None:
    assert [*decode_pod_page(data).items, *decode_node_page(data).items] == []


def test_a_page_has_the_token_of_the_next_one() -> None:
    page = b'{"metadata": {"resourceVersion": "5", "continue": "more"}, "items": [{}]}'
    pods, nodes = decode_pod_page(page), decode_node_page(page)
    assert (
        (pods.version, pods.rest, len(pods.items)) == (nodes.version, nodes.rest, len(nodes.items)) == ("5", "more", 1)
    )


def test_copies_of_one_template_share_what_they_have_in_common() -> None:
    pods = decode_pod_page(json.dumps({"items": [POD, POD]}).encode()).items
    one, other = pods
    for field in ("containers", "labels", "tolerations", "owner", "namespace", "node"):
        assert getattr(one, field) is getattr(other, field), field


def test_equal_amounts_of_different_types_are_read_alike() -> None:
    for amount in (3, 3.0, "3"):
        (container,) = spec_view(containers=[{"resources": {"limits": {"cpu": amount}}}]).containers
        assert container.limits == {"cpu": "3"}


def test_what_kubectl_keeps_for_itself_is_dropped() -> None:
    kept = {"metadata": {"annotations": {LAST_APPLIED: "{}", "mine": "1"}}}
    assert pod_view(kept).annotations == node_view(kept).annotations == {"mine": "1"}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"items": [{}, {"spec": {"containers": 1}}]}', r"items\[1\].spec.containers: expected a list"),
        (b'{"items": [{"metadata": {"name": "\xff"}}]}', "not valid UTF-8"),
        (b'{"items": ', "truncated"),
        (b'{"x": ' + b"[" * 100_000, "nested too deep"),
    ],
)
def test_broken_json_is_an_input_error(data: bytes, text: str) -> None:
    with pytest.raises(InputError, match=text):
        decode_pod_page(data)


PLACES = (
    ("spec", "affinity"),
    ("spec", "affinity", "nodeAffinity", REQUIRED),
    ("spec", "affinity", "podAntiAffinity", REQUIRED),
    ("spec", "tolerations"),
    ("spec", "resources"),
    ("status", "containerStatuses"),
    ("metadata", "resourceVersion"),
)


@settings(deadline=None)
@given(st.sampled_from(PLACES), JSON)
def test_any_json_is_a_view_or_an_input_error(place: tuple[str, ...], value: object) -> None:
    for key in reversed(place):
        value = {key: value}
    try:
        assert decode_pod(json.dumps(value).encode()) == pod_view(value)
    except InputError:
        with pytest.raises(InputError):
            pod_view(value)
