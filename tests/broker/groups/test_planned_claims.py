"""Devices that claims allocate are planned: a claim names them before the gate of its pod is removed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.effects import Evict
from linkwise.broker.snapshot import BrokerState
from linkwise.broker.watch_events import ClusterObject
from linkwise.dialects.groups.conventions import VOLCANO
from linkwise.dialects.groups.koordinator_gang import TOTAL
from linkwise.explain.pod import explain_pod
from linkwise.explain.published.lists import group_rows
from linkwise.explain.text.pod import explanation_lines
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.testing.cluster import in_gang
from linkwise.wire.snapshot import decode_snapshot, encode_snapshot
from support.builders.dra_objects import DRIVER, claim
from support.claim_cluster import ClaimCluster, claim_node, claim_pod

if TYPE_CHECKING:
    from linkwise.model.views import PodView


def gang(*names: str, size: int = 2, least: int = 0) -> list[PodView]:
    pods = [claim_pod(name, size) for name in names]
    return [
        replace(member, annotations={**pod.annotations, **member.annotations})
        for pod, member in zip(pods, in_gang(*pods, least=least or len(pods)), strict=True)
    ]


def test_a_single_pod_gets_a_claim_that_names_linked_devices_before_its_gate_is_removed() -> None:
    cluster = ClaimCluster(claim_node("n"))
    cluster.create(claim_pod("a", 2))
    assert not cluster.queued
    (wanted,) = cluster.to_write.values()
    written = json.loads(wanted.text)
    assert written["metadata"]["ownerReferences"][0]["uid"] == "uid-a"
    assert written["spec"]["devices"]["requests"] == [
        {
            "name": "main",
            "exactly": {
                "deviceClassName": DRIVER,
                "count": 2,
                "selectors": [
                    {"cel": {"expression": f'device.attributes["{DRIVER}"].uuid in ["GPU-gpu-0","GPU-gpu-1"]'}}
                ],
            },
        }
    ]
    assert json.loads(written["metadata"]["annotations"]["linkwise.dev/plan"]) == {
        "node": "n",
        "devices": {"main": ["GPU-gpu-0", "GPU-gpu-1"]},
    }
    cluster.write_claims()
    (steer,) = cluster.queued.values()
    assert (steer.gate, steer.pin, steer.node) == ("linkwise.dev/gang", "n", "n")
    cluster.write()
    assert cluster.schedule() == ["a"]
    assert cluster.devices_of("a") == ["gpu-0", "gpu-1"]


def test_planned_devices_are_linked_where_first_fit_would_take_others() -> None:
    cluster = ClaimCluster(claim_node("n"))
    cluster.put_claim(claim("foreign", "n", ["gpu-0"]))
    cluster.create(claim_pod("a", 2))
    cluster.settle()
    assert cluster.devices_of("a") == ["gpu-2", "gpu-3"]


def test_no_gate_of_a_gang_is_removed_before_all_its_claims_exist() -> None:
    cluster = ClaimCluster(claim_node("n"), claim_node("m"))
    cluster.create(*gang("a", "b", "c"))
    assert len(cluster.to_write) == 3
    cluster.write_claims(2)
    assert not cluster.queued
    cluster.write_claims()
    assert len(cluster.queued) == 3
    cluster.settle()
    assert len(cluster.bound()) == 3
    assert {tuple(cluster.devices_of(name)) for name in "abc"} <= {("gpu-0", "gpu-1"), ("gpu-2", "gpu-3")}


def test_a_gang_that_does_not_fit_has_no_claims_and_keeps_its_gates() -> None:
    cluster = ClaimCluster(claim_node("n"))
    cluster.create(*gang("a", "b", "c"))
    cluster.settle()
    assert not cluster.claims
    assert cluster.gated() == {"a", "b", "c"}


def test_each_container_has_a_request_of_its_own() -> None:
    cluster = ClaimCluster(claim_node("n"))
    cluster.create(claim_pod("a", one=1, two=2))
    cluster.settle()
    (document,) = cluster.claims.values()
    assert [(each["name"], each["exactly"]["count"]) for each in document["spec"]["devices"]["requests"]] == [
        ("one", 1),
        ("two", 2),
    ]
    assert len(cluster.devices_of("a")) == 3


def test_a_device_taken_by_another_claim_before_the_allocation_leads_to_another_plan_under_the_same_name() -> None:
    cluster = ClaimCluster(claim_node("n"))
    cluster.create(claim_pod("a", 2))
    cluster.write_claims()
    cluster.write()
    (name,) = cluster.claims
    cluster.put_claim(claim("foreign", "n", ["gpu-0"]))
    cluster.settle()
    assert cluster.bound() == {"a": "n"}
    assert cluster.devices_of("a") == ["gpu-2", "gpu-3"]
    assert name in cluster.claims


def test_devices_of_a_bound_pod_are_those_of_its_claim_after_a_restart() -> None:
    cluster = ClaimCluster(claim_node("n"))
    cluster.create(claim_pod("a", 2))
    cluster.settle()
    cluster.start()
    cluster.create(claim_pod("b", 2), claim_pod("c", 1))
    cluster.settle()
    assert cluster.devices_of("b") == ["gpu-2", "gpu-3"]
    assert cluster.gated() == {"c"}
    cluster.remove("a")
    cluster.settle()
    assert cluster.bound() == {"b": "n", "c": "n"}


@pytest.mark.parametrize("claims", [0, 1, 2])
@pytest.mark.parametrize("steers", [0, 1])
def test_a_restart_between_claims_and_gates_leaves_nothing_stuck(claims: int, steers: int) -> None:
    cluster = ClaimCluster(claim_node("n"), claim_node("m"))
    cluster.create(*gang("a", "b"))
    cluster.write_claims(claims)
    cluster.write(steers)
    cluster.start()
    cluster.settle()
    assert len(cluster.bound()) == 2
    assert len(cluster.claims) == 2


def test_a_snapshot_in_the_middle_continues_where_it_was() -> None:
    cluster = ClaimCluster(claim_node("n"))
    cluster.create(claim_pod("a", 2))
    taken = cluster.broker.snapshot(cluster.now)
    again = type(cluster.broker).restore(decode_snapshot(encode_snapshot(taken), BrokerState))
    assert again.snapshot(cluster.now) == taken
    cluster.broker = again
    cluster.settle()
    assert cluster.devices_of("a") == ["gpu-0", "gpu-1"]


def test_a_deleted_claim_of_a_waiting_pod_is_written_again() -> None:
    cluster = ClaimCluster(claim_node("n"))
    cluster.create(claim_pod("a", 2))
    cluster.write_claims()
    cluster.write()
    cluster.delete_claim(next(iter(cluster.claims)))
    cluster.settle()
    assert cluster.bound() == {"a": "n"}


def test_a_refused_claim_undoes_the_claims_of_the_whole_group_and_is_explained() -> None:
    cluster = ClaimCluster(claim_node("n"), claim_node("m"))
    cluster.create(*gang("a", "b"))
    cluster.write_claims(1)
    assert len(cluster.claims) == 1
    (refused,) = cluster.to_write.values()
    cluster.to_write.clear()
    cluster.take(cluster.broker.claim_refused(refused.uid, "exceeded quota: gpus", cluster.now))
    cluster.step()
    cluster.write_claims()
    assert not cluster.claims
    assert cluster.gated() == {"a", "b"}
    assert cluster.events("PlanExpired") == ["a", "b"]
    report = explain_pod(cluster.broker, "uid-a", cluster.now)
    assert report
    assert any("exceeded quota: gpus" in line for line in explanation_lines(report))
    cluster.step(60)
    cluster.settle()
    assert len(cluster.bound()) == 2


def test_an_allocated_member_counts_as_bound_after_a_restart_and_the_others_keep_their_places() -> None:
    cluster = ClaimCluster(claim_node("n"))
    cluster.create(*gang("a", "b"))
    cluster.write_claims()
    cluster.write()
    places = {key: document["spec"] for key, document in cluster.claims.items()}
    cluster.allocate("a")
    cluster.start()
    cluster.create(claim_pod("late", 1))
    cluster.settle()
    assert cluster.bound() == {"a": "n", "b": "n"}
    assert {key: cluster.claims[key]["spec"] for key in places} == places


def test_an_allocation_that_is_cleared_is_planned_again() -> None:
    cluster = ClaimCluster(claim_node("n"))
    cluster.create(claim_pod("a", 2))
    cluster.write_claims()
    cluster.write()
    assert cluster.allocate("a") == "n"
    (document,) = cluster.claims.values()
    cluster.put_claim({**document, "status": {}})
    cluster.settle()
    assert cluster.bound() == {"a": "n"}


def test_pods_of_lower_priority_are_evicted_and_claims_are_written_when_their_devices_are_given_up() -> None:
    cluster = ClaimCluster(claim_node("n"))
    cluster.create(claim_pod("low", 4))
    cluster.settle()
    cluster.create(replace(claim_pod("high", 2), priority=10))
    for _ in range(5):
        cluster.step(2.0)
    evicted = [effect.name for effect in cluster.effects if isinstance(effect, Evict)]
    assert evicted == ["low"]
    claim_of_low = next(key for key in cluster.claims)
    cluster.delete("low")
    cluster.step(1.0)
    assert not cluster.to_write
    cluster.delete_claim(claim_of_low)
    cluster.settle()
    assert cluster.bound() == {"high": "n"}
    assert cluster.devices_of("high") == ["gpu-0", "gpu-1"]


def test_a_gang_on_a_full_cluster_waits_and_starts_when_devices_are_given_up() -> None:
    cluster = ClaimCluster(claim_node("n"))
    cluster.create(claim_pod("first", 1))
    cluster.settle()
    cluster.create(*gang("a", "b"))
    cluster.settle()
    assert cluster.gated() == {"a", "b"}
    cluster.remove("first")
    cluster.settle()
    assert len(cluster.bound()) == 2


def test_members_beyond_the_size_of_a_group_get_claims_that_name_no_devices() -> None:
    cluster = ClaimCluster(claim_node("n", 8))
    members = [replace(pod, annotations={**pod.annotations, TOTAL: "2"}) for pod in gang("a", "b", "c", least=2)]
    cluster.create(*members)
    cluster.settle()
    assert len(cluster.bound()) == 3
    named = [
        bool(document["spec"]["devices"]["requests"][0]["exactly"].get("selectors"))
        for document in cluster.claims.values()
    ]
    assert sorted(named) == [False, True, True]


def test_without_gates_claims_name_no_devices_so_that_no_pod_waits_in_vain() -> None:
    cluster = ClaimCluster(claim_node("n"), settings=PlacingSettings(group=GroupSettings(gates=False)))
    cluster.create(claim_pod("a", 2))
    cluster.settle()
    assert cluster.bound() == {"a": "n"}
    (document,) = cluster.claims.values()
    assert "selectors" not in document["spec"]["devices"]["requests"][0]["exactly"]


def test_a_gate_that_an_administrator_removed_does_not_keep_the_pod_from_its_claim() -> None:
    cluster = ClaimCluster(claim_node("n"))
    cluster.create(replace(claim_pod("a", 2), gates=()))
    cluster.settle()
    assert cluster.devices_of("a") == ["gpu-0", "gpu-1"]


def test_a_bound_pod_without_a_record_is_no_drift_because_its_claim_has_its_devices() -> None:
    cluster = ClaimCluster(claim_node("n"))
    cluster.create(claim_pod("a", 2))
    cluster.settle()
    running = replace(cluster.pods["a"], phase="Running", version=99)
    cluster.see(running)
    assert not cluster.broker.drift.get("n")
    assert not cluster.events("Drift")


def test_devices_have_the_memory_and_the_links_that_the_agent_publishes() -> None:
    inventory = ClaimCluster(claim_node("n")).broker.inventories["n"]
    assert [device.memory for device in inventory.devices] == [16] * 4
    assert inventory.unit == "GiB"
    assert inventory.topology
    assert inventory.topology.devices == tuple(f"GPU-gpu-{index}" for index in range(4))


def test_a_single_pod_is_listed_in_no_group_and_told_that_no_node_serves_it() -> None:
    cluster = ClaimCluster(claim_node("n"))
    cluster.create(claim_pod("a", 5))
    assert group_rows(cluster.broker, cluster.now, None) == []
    assert cluster.events("DoesNotFit") == ["a"]
    report = explain_pod(cluster.broker, "uid-a", cluster.now)
    assert report
    lines = explanation_lines(report)
    assert not any("group" in line or "extender" in line for line in lines if "split it into" not in line)


def test_pods_of_volcano_wait_for_their_pod_group_and_get_claims_too() -> None:
    cluster = ClaimCluster(claim_node("n"))
    pods = [
        replace(pod, scheduler="volcano", annotations={**pod.annotations, VOLCANO[0]: "job"})
        for pod in (claim_pod("a", 2), claim_pod("b", 2))
    ]
    cluster.create(*pods)
    assert not cluster.to_write
    about = {"metadata": {"name": "job", "namespace": "default"}, "spec": {"minMember": 2}}
    cluster.see(ClusterObject("PodGroup.scheduling.volcano.sh", "default/job", json.dumps(about).encode()))
    cluster.settle()
    assert cluster.bound() == {"a": "n", "b": "n"}
    assert {tuple(cluster.devices_of(name)) for name in "ab"} == {("gpu-0", "gpu-1"), ("gpu-2", "gpu-3")}
