"""Pods that name no group and have one owner are a group, where that is set."""

from __future__ import annotations

from dataclasses import replace

from linkwise.broker.broker import Broker
from linkwise.broker.sample_nodes import fleet_node
from linkwise.broker.snapshot import BrokerState
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.model.views import ContainerView, Owner, PodView
from linkwise.vendors.machines import profile
from linkwise.wire.snapshot import decode_snapshot, encode_snapshot

GANG = "gang.scheduling.koordinator.sh/"
NODES = ["n0", "n1"]


def job_pod(number: int, job: str = "a", kind: str = "Job") -> PodView:
    asks = (ContainerView("main", limits={"nvidia.com/gpu": "4"}),)
    return PodView("team", f"{job}{number}", f"{job}{number}", asks, owner=Owner(kind, "train", f"uid-{job}"))


def owned(*pods: PodView, by_owner: bool = True) -> Broker:
    broker = Broker(PlacingSettings(group=GroupSettings(by_owner=by_owner)))
    broker.observe(pods, 0.0)
    return broker


def test_pods_of_one_owner_are_one_group_where_that_is_set() -> None:
    pods = (job_pod(0), job_pod(1), job_pod(0, "b"))
    assert sorted(owned(*pods).group_keys()) == ["team/train.uid-a", "team/train.uid-b"]
    assert owned(*pods, by_owner=False).group_keys() == []


def test_pods_that_ask_for_no_devices_or_have_their_nodes_already_are_in_no_group_of_their_owner() -> None:
    idle = replace(job_pod(0), containers=(ContainerView("main", limits={"cpu": "1"}),))
    assert owned(idle, job_pod(1, "b", "DaemonSet"), replace(job_pod(2, "c"), owner=None)).group_keys() == []


def test_words_of_a_group_count_before_the_owner_also_where_they_are_broken() -> None:
    named = replace(job_pod(0), annotations={f"{GANG}name": "g", f"{GANG}min-available": "2"})
    broken = replace(job_pod(1), annotations={f"{GANG}name": "g", f"{GANG}min-available": "many"})
    assert owned(named, broken).group_keys() == ["team/g"]


def test_pods_of_one_owner_are_planned_together_and_do_not_wait_for_each_other() -> None:
    broker = owned(job_pod(0), job_pod(1))
    for name in NODES:
        broker.observe(fleet_node(profile("dgx1-v100"), name), 0.0)
    nodes = [broker.filter(job_pod(number), NODES, 0.0).nodes for number in range(2)]
    assert nodes in ([["n0"], ["n0"]], [["n1"], ["n1"]])
    kept = Broker.restore(decode_snapshot(encode_snapshot(broker.snapshot(0.0)), BrokerState))
    assert kept.group_keys() == ["team/train.uid-a"]


def test_a_pod_that_gets_an_owner_wants_what_a_member_wants() -> None:
    orphan = replace(job_pod(0), owner=None)
    broker = owned(orphan)
    alone = broker.request(orphan)
    adopted = broker.request(job_pod(0))
    assert (alone.group, adopted.group and adopted.group.source) == (None, "owner")
    assert alone.policy != adopted.policy
