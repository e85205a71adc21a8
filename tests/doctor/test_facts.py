"""Findings say what was found, how bad it is, and what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.doctor.examine import CHECKS, examine
from linkwise.doctor.facts import Connected, names_text
from linkwise.doctor.permissions import needed
from support.builders.installation import (
    GROUPS,
    NOW,
    at,
    configuration,
    found,
    installation,
    inventory,
    node,
    pending,
    with_items,
)

if TYPE_CHECKING:
    from linkwise.doctor.facts import Facts, Finding


def only(facts: Facts, check: str) -> Finding:
    (finding,) = found(facts, check)
    return finding


def test_sampling_is_an_error_only_where_nodes_are_sampled() -> None:
    facts = installation(schedulers=(configuration({"percentageOfNodesToScore": 50}),))
    assert only(facts, "scheduler-sampling").severity == "warning"
    many = with_items(facts, "nodes", *(node(f"n{number}") for number in range(101)))
    assert only(many, "scheduler-sampling").severity == "error"


def test_a_resource_that_no_node_has_is_a_warning() -> None:
    facts = installation(schedulers=(configuration(managedResources=[{"name": "nvidia.com/gpu"}]),))
    assert only(facts, "scheduler-resources").severity == "warning"
    amd = with_items(facts, "nodes", node("a", {"amd.com/gpu": "8"}))
    finding = only(amd, "scheduler-resources")
    assert finding.severity == "error"
    assert "lacks amd.com/gpu, which nodes have" in finding.found


def test_a_missing_right_is_named_with_the_command_that_grants_it() -> None:
    facts = installation()
    lost = {each: each.resource != "pods/binding" for each in facts.allowed}
    finding = only(replace(facts, allowed=lost), "rbac-service")
    assert "it may not create pods/binding (feature extender: " in finding.found
    assert "`linkwise manifests rbac --namespace linkwise-system | kubectl apply -f -`" in finding.remedy
    assert finding.objects == ("create pods/binding",)


def test_what_exists_need_not_be_created() -> None:
    facts = installation()
    lost = {each: (each.verb, each.resource) != ("create", "leases") for each in facts.allowed}
    assert only(replace(facts, allowed=lost), "rbac-service").severity == "ok"
    finding = only(with_items(replace(facts, allowed=lost), "leases"), "rbac-service")
    assert (finding.subject, finding.objects) == ("lease/linkwise", ("linkwise",))
    assert "`helm upgrade` does" in finding.remedy


def test_a_role_that_does_not_create_secrets_is_to_be_applied_again() -> None:
    facts = installation()
    tls = replace(facts.settings, tls=replace(facts.settings.tls, enabled=True))
    allowed = {each: True for need in needed(tls, "linkwise-system", GROUPS) for each in need.permissions}
    lost = {each: (each.verb, each.resource) != ("create", "secrets") for each in allowed}
    (finding,) = (
        one
        for one in found(replace(facts, allowed=lost, settings=tls), "rbac-service")
        if "secrets" in one.found and "tls" in one.found
    )
    wanted = (
        f"create secrets {name} in namespace linkwise-system" for name in ("linkwise-tls", "linkwise-scheduler-tls")
    )
    assert (finding.severity, finding.subject) == ("error", "serviceaccount/linkwise")
    assert finding.objects == tuple(wanted)
    assert (
        finding.remedy == "grant it: `linkwise manifests rbac --tls --namespace linkwise-system | kubectl apply -f -`"
    )


def test_both_webhook_configurations_are_deleted_in_an_emergency() -> None:
    facts = with_items(installation(), "slices", dict(installation().items("slices")[0]))
    assert (
        "`kubectl delete mutatingwebhookconfiguration/linkwise validatingwebhookconfiguration/linkwise`"
        in only(facts, "webhook-endpoints").remedy
    )


def test_pods_that_wait_because_calls_fail_are_named_with_the_age_of_the_oldest() -> None:
    def failing(name: str, seconds: float, message: str) -> dict[str, Any]:
        tried = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": message}
        return pending(name, conditions=[{**tried, "lastTransitionTime": at(-seconds)}])

    refused = "this replica of Linkwise is not the leader: it is a standby"
    facts = with_items(
        installation(), "pending", failing("a", 90, "x"), failing("b", 600, refused), failing("c", 5, "x")
    )
    finding = only(facts, "pods-failing")
    assert finding.objects == ("default/a", "default/b")
    assert "end with an error, the oldest for 600 s: this replica of Linkwise is not the leader" in finding.found
    assert "restarting the scheduler ends its connections" in finding.remedy


def test_a_feature_that_is_turned_off_needs_no_rights() -> None:
    facts = installation()
    lost = replace(facts, allowed={each: each.resource != "events" for each in facts.allowed})
    assert only(lost, "rbac-service").severity == "warning"
    without = replace(lost.settings, kube=replace(lost.settings.kube, without=("events",)))
    assert only(replace(lost, settings=without), "rbac-service").severity == "ok"


def test_a_feature_without_any_of_its_rights_may_have_been_left_out() -> None:
    facts = installation()
    lost = {each: each.resource != "events" or each.account != "linkwise" for each in facts.allowed}
    finding = only(replace(facts, allowed=lost), "rbac-service")
    assert finding.severity == "warning"
    assert "nothing to do if the feature was left out on purpose" in finding.remedy


def test_rights_about_kinds_that_are_not_served_are_not_needed() -> None:
    assert {each.group for each in installation().allowed} <= {
        "",
        *installation().groups,
        "admissionregistration.k8s.io",
    }


def test_an_agent_without_devices_is_a_finding_only_where_there_should_be_some() -> None:
    empty = inventory("gpu-1")
    sentence = "no devices were found. Tried: nvml"
    kinds = ("DevicesDiscovered", "InventoryComplete")
    empty["status"]["conditions"] = [{"type": kind, "status": "False", "message": sentence} for kind in kinds]
    facts = with_items(installation(), "inventories", empty)
    assert only(facts, "agent-conditions").found.endswith("gpu-1: no devices were found")
    plain = with_items(facts, "nodes", node("gpu-1", {"cpu": "8"}))
    assert only(plain, "agent-conditions").severity == "ok"


@pytest.mark.parametrize(("enforced", "severity"), [(True, "warning"), (False, "error")])
def test_a_static_cpu_manager_takes_devices_only_from_containers_of_other_plugins(
    enforced: bool,  # noqa: FBT001 - a parameter of the test
    severity: str,
) -> None:
    shared = inventory("gpu-1", "share", enforced=enforced, kubelet={"cpuManagerPolicy": "static"})
    finding = only(with_items(installation(), "inventories", shared), "kubelet-cpu-manager")
    assert finding.severity == severity
    assert "cpuManagerPolicy: none" in finding.remedy


def test_a_static_cpu_manager_is_no_problem_where_devices_are_not_shared() -> None:
    whole = inventory("gpu-1", kubelet={"cpuManagerPolicy": "static"})
    assert only(with_items(installation(), "inventories", whole), "kubelet-cpu-manager").severity == "ok"


def test_a_kubelet_is_asked_where_no_agent_publishes_its_policy() -> None:
    bare = with_items(installation(), "nodes", node("gs", {"aliyun.com/gpu-mem": "88"}, gpushare="true"))
    unknown = only(replace(bare, unread={"kubelets": "grant the verb get on nodes/proxy"}), "kubelet-cpu-manager")
    assert unknown.severity == "skipped"
    assert "grant the verb get on nodes/proxy" in unknown.found
    asked = only(replace(bare, kubelets={"gs": {"cpuManagerPolicy": "static"}}), "kubelet-cpu-manager")
    assert (asked.severity, asked.subject) == ("error", "node/gs")


def test_the_port_of_gpushare_is_named_with_the_address_where_it_is_open() -> None:
    url = "http://127.0.0.1:32766/gpushare-scheduler"
    document = replace(configuration(urlPrefix=url, tlsConfig=None), local=True)
    tried = Connected("Connection refused", ("10.0.0.5:32766",))
    finding = only(installation(schedulers=(document,), connections={url: tried}), "extender-port")
    assert "; the port is open at 10.0.0.5:32766" in finding.found
    assert "localhostNodePorts" in finding.remedy


def test_a_scheduler_that_stopped_calling_is_named_with_since_when() -> None:
    metrics = {'linkwise_last_call_timestamp_seconds{verb="filter"}': NOW - 3 * 3600}
    assert "has called the service for 3 h" in only(installation(metrics=metrics), "extender-called").found


def test_nodes_with_other_clocks_are_found_by_their_leases() -> None:
    def leased(seconds: float) -> Finding:
        lease = {"metadata": {"name": "gpu-1"}, "spec": {"renewTime": at(seconds), "leaseDurationSeconds": 40}}
        return only(with_items(installation(), "node-leases", lease), "clock-nodes")

    assert "ahead of" in leased(30).found
    assert "behind" in leased(-120).found
    assert leased(-30).severity == "ok"


def test_the_lease_of_a_slow_reading_is_not_stale() -> None:
    facts = replace(installation(), now=NOW + 600, server_time=NOW + 600, read_at={"leases": NOW, "node-leases": NOW})
    assert only(facts, "extender-leader").severity == "ok"
    assert only(facts, "clock-nodes").severity == "ok"


def test_a_passed_check_says_what_it_could_not_read() -> None:
    facts = replace(installation(), unread={"slices": "may not list endpointslices"}, cut=frozenset({"services"}))
    finding = only(with_items(facts, "slices", *map(dict, facts.items("slices"))), "extender-service")
    assert finding.severity == "ok"
    assert "(as far as could be read: may not list endpointslices; only the first services)" in finding.found


@pytest.mark.parametrize("garbage", [None, 7, "text", [], {"spec": 3}, {"metadata": {"labels": [1]}}])
def test_objects_of_unexpected_form_break_no_check(garbage: Any) -> None:  # noqa: ANN401 - anything
    facts = installation()
    spoilt = replace(facts, lists={source: (*items, garbage) for source, items in facts.lists.items()})
    assert len(examine(spoilt, {each.id for each in CHECKS})) >= len(CHECKS)


def test_long_lists_of_names_are_cut() -> None:
    assert names_text(f"n{number}" for number in range(7)) == "n0, n1, n2, n3, n4 and 2 more"
