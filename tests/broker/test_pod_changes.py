"""Pods that request devices are changed so that they run; others stay as they are."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from linkwise.broker.admission import change_pod
from linkwise.broker.broker import Broker
from linkwise.model.access_policy import Requester
from linkwise.model.settings import AdmissionSettings, GroupSettings, PlacingSettings
from linkwise.wire.kubernetes.objects import pod_view
from support.builders.access_objects import access_policy
from support.builders.admission import GPU, applied, container, pod

ADA = Requester("ada", ("system:authenticated",))
JOB_CONTROLLER = Requester("system:serviceaccount:kube-system:job-controller")
SETTINGS = AdmissionSettings()
NPU = "huawei.com/Ascend910"
OLD = "alpha.kubernetes.io/nvidia-gpu"
GANG = {"gang.scheduling.koordinator.sh/name": "job", "gang.scheduling.koordinator.sh/min-available": "2"}


def changed(
    document: dict[str, Any], settings: AdmissionSettings = SETTINGS, requester: Requester = ADA
) -> tuple[dict[str, Any], tuple[str, ...]]:
    view = pod_view(document)
    verdict = change_pod(document, view, requester, settings, Broker().additions(view, requester))
    assert not verdict.refusal
    return applied(document, [asdict(operation) for operation in verdict.patch]), verdict.warnings


def unchanged(document: dict[str, Any], settings: AdmissionSettings = SETTINGS) -> bool:
    view = pod_view(document)
    verdict = change_pod(document, view, ADA, settings, Broker().additions(view, ADA))
    return not (verdict.patch or verdict.warnings or verdict.refusal)


@pytest.mark.rule("000.skip")
@pytest.mark.parametrize(
    "document",
    [
        pod(),
        pod(container({"cpu": "1"}, env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])),
        pod(container({"nvidia.com/mig-1g.5gb": 1})),
        pod(labels={"kueue.x-k8s.io/pod-group-name": "cpu-only"}),
        pod(annotations=GANG, schedulerName="koord-scheduler"),
        pod(schedulingGroup={"podGroupName": "native"}),
    ],
)
def test_a_pod_that_is_not_managed_is_not_changed(document: dict[str, Any]) -> None:
    assert unchanged(document)


@pytest.mark.rule("002.name")
def test_the_resource_name_of_2016_is_replaced_in_requests_and_limits() -> None:
    amounts = {OLD: "2", "cpu": "1"}
    document = pod({**container(), "resources": {"limits": amounts, "requests": amounts, "claims": [{"name": "x"}]}})
    made, warnings = changed(document)
    new = {GPU: "2", "cpu": "1"}
    assert made["spec"]["containers"][0]["resources"] == {"limits": new, "requests": new, "claims": [{"name": "x"}]}
    assert warnings == (f"{OLD}: replaced by {GPU}; Kubernetes no longer accepts the old name",)


@pytest.mark.rule("002.name")
def test_old_names_are_replaced_in_init_containers_and_in_each_container() -> None:
    document = pod(container(), container({OLD: 1}, "second"), initContainers=[container({OLD: 1}, "first")])
    made, warnings = changed(document)
    assert made["spec"]["initContainers"][0]["resources"] == {"limits": {GPU: 1}}
    assert made["spec"]["containers"][1]["resources"] == {"limits": {GPU: 1}}
    assert len(warnings) == 1


def test_an_old_name_beside_the_new_one_counts_once() -> None:
    made, warnings = changed(pod(container({OLD: 1, GPU: "1"})))
    assert made["spec"]["containers"][0]["resources"]["limits"] == {GPU: "1"}
    assert "replaced" in warnings[0]
    made, warnings = changed(pod(container({OLD: 1, GPU: 2})))
    assert made["spec"]["containers"][0]["resources"]["limits"] == {GPU: 2}
    assert warnings == (f"{OLD}: ignored, because the container requests {GPU} too",)


def test_names_of_the_bandwidth_design_become_koordinators_with_a_limit() -> None:
    requests = {"kubernetes.io/gpu-core": "50", "kubernetes.io/gpu-memory-ratio": "50"}
    made, warnings = changed(pod({**container(), "resources": {"requests": requests}}))
    new = {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"}
    assert made["spec"]["containers"][0]["resources"] == {"limits": new, "requests": new}
    assert len(warnings) == 2


@pytest.mark.rule("004.manifests")
def test_variables_that_select_devices_are_removed_from_containers_that_request_some() -> None:
    names = ["NVIDIA_VISIBLE_DEVICES", "HOME", "ASCEND_VISIBLE_DEVICES", "AMD_VISIBLE_DEVICES"]
    env = [{"name": name, "value": "all"} for name in names]
    made, warnings = changed(pod(container({GPU: 1}, env=env), container({}, "plain", env=[*env])))
    assert made["spec"]["containers"][0]["env"] == [{"name": "HOME", "value": "all"}]
    assert made["spec"]["containers"][1]["env"] == env
    assert "NVIDIA_VISIBLE_DEVICES: removed from container main; it gets the allocated devices" in warnings


def test_a_variable_from_a_config_map_is_removed_too() -> None:
    source = {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "y"}}}
    made, _ = changed(pod(container({GPU: 1}, env=[source])))
    assert made["spec"]["containers"][0]["env"] == []


def test_a_variable_that_a_program_reads_stays_with_a_warning() -> None:
    env = [{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]
    made, warnings = changed(pod(container({GPU: 1}, env=env)))
    assert made["spec"]["containers"][0]["env"] == env
    assert warnings == (
        "CUDA_VISIBLE_DEVICES: container main sets it itself and may not use the devices it is allocated",
    )


def test_devices_are_hidden_from_containers_that_request_none_if_the_administrator_says_so() -> None:
    hiding = AdmissionSettings(hide_devices=True)
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, {"name": "HOME", "value": "/"}]
    made, warnings = changed(pod(container({}, env=env)), hiding)
    found = {entry["name"]: entry["value"] for entry in made["spec"]["containers"][0]["env"]}
    assert (found["NVIDIA_VISIBLE_DEVICES"], found["HOME"]) == ("void", "/")
    assert not warnings
    assert unchanged(made, hiding)


@pytest.mark.parametrize("spec", [{}, {"schedulerName": ""}, {"schedulerName": "default-scheduler"}])
def test_a_pod_that_names_no_scheduler_gets_ours(spec: dict[str, Any]) -> None:
    document = pod(container({GPU: 1}), **spec)
    if not spec:
        del document["spec"]["schedulerName"]
    assert changed(document)[0]["spec"]["schedulerName"] == "linkwise-scheduler"


@pytest.mark.parametrize("name", ["volcano", "my-scheduler", "linkwise-scheduler"])
def test_a_pod_that_names_a_scheduler_keeps_it(name: str) -> None:
    assert changed(pod(container({GPU: 1}), schedulerName=name))[0]["spec"]["schedulerName"] == name


def test_a_pod_that_names_its_node_keeps_its_scheduler_and_gets_no_gate() -> None:
    made, _ = changed(pod(container({GPU: 1}), annotations=GANG, nodeName="gpu-1"))
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert "schedulingGates" not in made["spec"]


@pytest.mark.rule("001.gang")
@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        ({}, GANG),
        ({"scheduling.x-k8s.io/pod-group": "job"}, {}),
        ({}, {"scheduling.k8s.io/group-name": "job"}),
        ({}, {"pod-group-name": "job"}),
        ({"pod-group.scheduling.sigs.k8s.io": "job"}, {}),
        ({"kueue.x-k8s.io/pod-group-name": "job"}, {"kueue.x-k8s.io/pod-group-total-count": "2"}),
        (
            {
                f"gputopology.scheduling.koordinator.sh/{key}": value
                for key, value in (("name", "job"), ("replica", "2"))
            },
            GANG,
        ),
    ],
)
def test_members_of_gangs_wait_behind_a_gate(labels: dict[str, str], annotations: dict[str, str]) -> None:
    made, _ = changed(pod(container({GPU: 8}), labels=labels, annotations=annotations))
    assert made["spec"]["schedulingGates"] == [{"name": "linkwise.dev/gang"}]


def test_a_member_without_devices_is_scheduled_and_gated_with_the_others() -> None:
    made, _ = changed(pod(annotations=GANG))
    assert made["spec"]["schedulerName"] == "linkwise-scheduler"
    assert made["spec"]["schedulingGates"] == [{"name": "linkwise.dev/gang"}]


def test_a_group_that_is_not_a_gang_has_no_gate() -> None:
    labels = {"gputopology.scheduling.koordinator.sh/name": "job", "gputopology.scheduling.koordinator.sh/replica": "2"}
    assert "schedulingGates" not in changed(pod(container({GPU: 1}), labels=labels))[0]["spec"]


def test_kubernetes_gates_its_own_groups() -> None:
    made, _ = changed(pod(container({GPU: 1}), schedulingGroup={"podGroupName": "native"}))
    assert "schedulingGates" not in made["spec"]
    assert made["spec"]["schedulerName"] == "linkwise-scheduler"


def test_a_gang_of_another_scheduler_has_no_gate() -> None:
    made, _ = changed(pod(container({GPU: 1}), annotations=GANG, schedulerName="koord-scheduler"))
    assert "schedulingGates" not in made["spec"]


def test_the_gate_is_added_to_those_of_others_and_only_once() -> None:
    made, _ = changed(pod(container({GPU: 1}), annotations=GANG, schedulingGates=[{"name": "quota.example/wait"}]))
    assert [gate["name"] for gate in made["spec"]["schedulingGates"]] == ["quota.example/wait", "linkwise.dev/gang"]
    assert unchanged(made)


def test_gates_can_be_turned_off() -> None:
    made, _ = changed(pod(container({GPU: 1}), annotations=GANG), AdmissionSettings(gates=False))
    assert "schedulingGates" not in made["spec"]


@pytest.mark.rule("003.in-session")
@pytest.mark.parametrize("chips", [1, 8])
@pytest.mark.parametrize("annotations", [{}, {"scheduling.k8s.io/group-name": "job"}])
def test_every_pod_of_volcano_that_requests_devices_waits_behind_the_gate(
    chips: int, annotations: dict[str, str]
) -> None:
    document = pod(container({NPU: chips}), annotations=annotations, schedulerName="volcano")
    made, _ = changed(document)
    assert made["spec"]["schedulingGates"] == [{"name": "linkwise.dev/gang"}]
    assert made["spec"]["schedulerName"] == "volcano"
    assert unchanged(made)


@pytest.mark.parametrize(
    "document",
    [
        pod(annotations={"scheduling.k8s.io/group-name": "job"}, schedulerName="volcano"),
        pod(container({NPU: 1}), schedulerName="volcano", nodeName="here"),
        pod(container({NPU: 1}), schedulerName="volcano", annotations={"huawei.com/skip-ascend-plugin": "enabled"}),
        pod(container({NPU: 1}), schedulerName="yunikorn"),
    ],
)
def test_other_pods_of_other_schedulers_have_no_gate(document: dict[str, Any]) -> None:
    assert "schedulingGates" not in changed(document)[0]["spec"]


def test_the_gates_of_pods_of_volcano_can_be_turned_off_by_themselves() -> None:
    document = pod(container({NPU: 1}), schedulerName="volcano")
    assert "schedulingGates" not in changed(document, AdmissionSettings(volcano_gates=False))[0]["spec"]
    assert "schedulingGates" in changed(document, AdmissionSettings(gates=False))[0]["spec"]
    broker = Broker(PlacingSettings(group=GroupSettings(gates=False)))
    assert not broker.additions(pod_view(document), ADA).planned_for_volcano


def test_the_user_is_written_on_the_pod_whatever_the_pod_says() -> None:
    forged = {"linkwise.dev/user": "root"}
    assert changed(pod(container({GPU: 1})))[0]["metadata"]["annotations"] == {"linkwise.dev/user": "ada"}
    made, _ = changed(pod(container({GPU: 1}), annotations={"a": "b", **forged}))
    assert made["metadata"]["annotations"] == {"a": "b", "linkwise.dev/user": "ada"}


def test_pods_of_a_controller_keep_the_user_of_their_template() -> None:
    document = pod(container({GPU: 1}), annotations={"linkwise.dev/user": "ada"})
    for user in (JOB_CONTROLLER.user, "system:serviceaccount:volcano-system:volcano-controllers"):
        made, _ = changed(document, requester=Requester(user))
        assert made["metadata"]["annotations"]["linkwise.dev/user"] == "ada"
    others = Requester("system:serviceaccount:team:job-controller")
    assert changed(document, requester=others)[0]["metadata"]["annotations"]["linkwise.dev/user"] == others.user


def test_a_second_call_changes_nothing() -> None:
    document = pod(
        container({OLD: 1}, env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
        annotations={**GANG, "linkwise.dev/user": "root"},
    )
    assert unchanged(changed(document)[0])


@pytest.mark.parametrize("odd", [None, 7, "text", [], [None, 3, "x"], {"name": 1}])
@pytest.mark.parametrize("field", ["env", "resources"])
def test_fields_of_the_wrong_type_are_not_touched(field: str, odd: object) -> None:
    document = pod(container({GPU: 1}), {"name": "odd", field: odd})
    view = pod_view(pod(container({GPU: 1})))
    verdict = change_pod(document, view, ADA, AdmissionSettings(hide_devices=True), Broker().additions(view, ADA))
    assert not verdict.refusal


@pytest.mark.rule("002.access")
def test_the_default_share_of_a_policy_is_added_and_the_groups_that_policies_name_are_recorded() -> None:
    broker = Broker()
    sharing = {"defaultShare": "25%"}
    broker.observe([access_policy("p", {"groups": ["ops"]}, sharing=sharing)], 0.0)
    requester = Requester("ann", ("dev", "ops"))
    document = pod(container({"koordinator.sh/gpu-core": 40}), annotations={"linkwise.dev/groups": "admins"})
    view = pod_view(document)
    verdict = change_pod(document, view, requester, SETTINGS, broker.additions(view, requester))
    made = applied(document, [asdict(operation) for operation in verdict.patch])
    assert made["metadata"]["annotations"] == {"linkwise.dev/user": "ann", "linkwise.dev/groups": "ops"}
    assert made["spec"]["containers"][0]["resources"]["limits"]["koordinator.sh/gpu-memory-ratio"] == "25"
    assert "koordinator.sh/gpu-memory-ratio: set to 25, the default of an AcceleratorPolicy" in verdict.warnings


@pytest.mark.rule("001.gang")
def test_pods_of_a_job_are_gated_where_owners_make_gangs() -> None:
    broker = Broker(PlacingSettings(group=GroupSettings(owners={"team": "gang"})))
    owner = [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}]
    for namespace, gated in (("team", True), ("other", False)):
        document = pod(container({GPU: 1}))
        document["metadata"] |= {"namespace": namespace, "ownerReferences": owner}
        assert broker.additions(pod_view(document), JOB_CONTROLLER).in_gang == gated
