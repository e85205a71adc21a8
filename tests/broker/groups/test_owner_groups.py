"""Pods that name no group and belong to one workload are a group, where that is set."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Wake
from linkwise.broker.snapshot import BrokerState
from linkwise.broker.watch_events import PodDeleted
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.model.views import ContainerView, Owner, PodView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile
from linkwise.wire.snapshot import decode_snapshot, encode_snapshot

GANG = "gang.scheduling.koordinator.sh/"
JOBSET = "jobset.sigs.k8s.io/"
LWS = "leaderworkerset.sigs.k8s.io/"
TRAINING = "training.kubeflow.org/"
NODES = ["n0", "n1"]
SETTLED = 1.0  # seconds: the default of `settle`
STEPS = 100_000


def job_pod(number: int, job: str = "a", kind: str = "Job", devices: int = 4) -> PodView:
    asks = (ContainerView("main", limits={"nvidia.com/gpu": str(devices)}),)
    index = {"batch.kubernetes.io/job-completion-index": str(number)}
    owner = Owner(kind, "train", f"uid-{job}")
    return PodView("team", f"{job}{number}", f"{job}{number}", asks, labels=index, owner=owner, created=float(number))


def lws_pod(group: int, worker: int, devices: int = 4) -> PodView:
    """A pod of a LeaderWorkerSet with groups of two."""
    labels = {
        f"{LWS}name": "vllm",
        f"{LWS}group-index": str(group),
        f"{LWS}group-key": f"hash{group}",
        f"{LWS}worker-index": str(worker),
    }
    owner = Owner("StatefulSet", f"vllm-{group}" if worker else "vllm", f"set{group}" if worker else "set")
    name = f"vllm-{group}-{worker}" if worker else f"vllm-{group}"
    limits = {"nvidia.com/gpu": str(devices)} if devices else {"cpu": "1"}
    asks = (ContainerView("main", limits=limits),)
    return PodView("team", name, name, asks, labels=labels, annotations={f"{LWS}size": "2"}, owner=owner)


def jobset_pod(job: int, index: int, attempt: int = 0) -> PodView:
    labels = {
        f"{JOBSET}jobset-name": "llama",
        f"{JOBSET}jobset-uid": "js",
        f"{JOBSET}replicatedjob-name": "head" if job == 0 else "workers",
        f"{JOBSET}job-global-index": str(job),
        f"{JOBSET}restart-attempt": str(attempt),
    }
    name = f"llama-{job}-{index}-{attempt}"
    pod = replace(job_pod(index), name=name, uid=name, owner=Owner("Job", f"llama-{job}", f"job{job}{attempt}"))
    return replace(pod, labels={**pod.labels, **labels})


def training_pod(kind: str, role: str, index: int) -> PodView:
    labels = {
        f"{TRAINING}job-name": "bert",
        f"{TRAINING}replica-type": role,
        f"{TRAINING}replica-index": str(index),
    }
    return replace(
        job_pod(index), name=role + str(index), uid=role + str(index), labels=labels, owner=Owner(kind, "bert", "u")
    )


def ray_pod(kind: str, index: int) -> PodView:
    labels = {"ray.io/cluster": "tune", "ray.io/node-type": kind, "ray.io/group": kind}
    return replace(
        job_pod(index),
        name=kind + str(index),
        uid=kind + str(index),
        labels=labels,
        owner=Owner("RayCluster", "tune", "rc"),
    )


def settings(mode: str = "group", **more: object) -> PlacingSettings:
    return PlacingSettings(group=replace(GroupSettings(owners={"team": mode}), **more))  # type: ignore[arg-type]


def owned(*pods: PodView, mode: str = "group", nodes: list[str] | None = None) -> Broker:
    broker = Broker(settings(mode))
    for name in NODES if nodes is None else nodes:
        broker.observe(fleet_node(profile("dgx1-v100"), name), 0.0)
    broker.observe(pods, 0.0)
    return broker


def tried(broker: Broker, pods: tuple[PodView, ...] | list[PodView], now: float = 0.0) -> list[list[str]]:
    return [broker.filter(pod, NODES, now).nodes for pod in pods]


def settled(broker: Broker, pods: tuple[PodView, ...] | list[PodView], now: float = SETTLED) -> list[list[str]]:
    """What members get that are tried, wait until no more follow, and are tried again."""
    assert tried(broker, pods, now - SETTLED) == [[]] * len(pods)
    woken = [effect.uid for effect in broker.step(now, STEPS) if isinstance(effect, Wake)]
    answers = tried(broker, pods, now)
    assert set(woken) >= {pod.uid for pod, nodes in zip(pods, answers, strict=True) if nodes}
    return answers


WORKLOADS = {
    "Job": [job_pod(0), job_pod(1), job_pod(2)],
    "JobSet": [jobset_pod(0, 0), jobset_pod(1, 0), jobset_pod(1, 1)],
    "PyTorchJob": [
        training_pod("PyTorchJob", "master", 0),
        *(training_pod("PyTorchJob", "worker", n) for n in range(2)),
    ],
    "MPIJob": [training_pod("MPIJob", "launcher", 0), *(training_pod("MPIJob", "worker", n) for n in range(2))],
    "RayCluster": [ray_pod("head", 0), ray_pod("worker", 1), ray_pod("worker", 2)],
}


@pytest.mark.parametrize("kind", WORKLOADS)
def test_pods_of_a_workload_get_one_plan_in_any_order_of_arrival(kind: str) -> None:
    plans = set()
    for pods in permutations(WORKLOADS[kind]):
        broker = owned(*pods)
        assert len(broker.group_keys()) == 1
        answers = settled(broker, list(pods))
        plans.add(tuple(sorted((pod.uid, *nodes) for pod, nodes in zip(pods, answers, strict=True))))
    assert len(plans) == 1
    assert all(nodes for _, *nodes in plans.pop())


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_groups_of_a_leaderworkerset_are_planned_each_on_its_own_in_any_order(order: tuple[int, ...]) -> None:
    pods = [lws_pod(number // 2, number % 2) for number in order]
    broker = owned(*pods, mode="gang")
    assert len(broker.group_keys()) == 2
    nodes = {pod.uid: answer for pod, answer in zip(pods, tried(broker, pods), strict=True)}
    assert nodes["vllm-0"] == nodes["vllm-0-1"] != nodes["vllm-1"] == nodes["vllm-1-1"]


def test_a_leader_waits_for_its_workers_where_they_are_a_gang() -> None:
    broker = owned(lws_pod(0, 0), mode="gang")
    assert tried(broker, [lws_pod(0, 0)], 60.0) == [[]]
    broker.observe([lws_pod(0, 1)], 61.0)
    assert all(tried(broker, [lws_pod(0, 0), lws_pod(0, 1)], 61.0))


def test_a_leader_without_devices_counts_for_the_size_of_its_group() -> None:
    leader, worker = lws_pod(0, 0, devices=0), lws_pod(0, 1)
    broker = owned(worker, mode="gang")
    assert tried(broker, [worker]) == [[]]
    broker.observe([leader], 0.0)
    assert all(tried(broker, [worker]))


def test_a_leader_without_devices_may_be_left_to_the_default_scheduler() -> None:
    leader = replace(lws_pod(0, 0, devices=0), scheduler="default-scheduler")
    worker = replace(lws_pod(0, 1), scheduler="linkwise-scheduler")
    assert all(tried(owned(leader, worker, mode="gang"), [worker]))


def test_a_leader_starts_first_after_the_window_where_its_group_is_not_a_gang() -> None:
    broker = owned(lws_pod(0, 0))
    assert tried(broker, [lws_pod(0, 0)]) == [[]]
    broker.step(10.0, STEPS)
    assert all(tried(broker, [lws_pod(0, 0)], 10.0))


def test_pods_of_other_namespaces_are_placed_alone() -> None:
    other = [replace(pod, namespace="other") for pod in WORKLOADS["Job"]]
    broker = owned(*other)
    assert broker.group_keys() == []
    assert all(tried(broker, other))


def test_the_global_setting_makes_groups_in_every_namespace() -> None:
    pods = (job_pod(0), job_pod(1), job_pod(0, "b"))
    broker = Broker(PlacingSettings(group=GroupSettings(by_owner=True)))
    broker.observe(pods, 0.0)
    assert sorted(broker.group_keys()) == ["team/train.uid-a", "team/train.uid-b"]


def test_pods_that_ask_for_no_devices_or_have_their_nodes_already_are_in_no_group_of_their_owner() -> None:
    idle = replace(job_pod(0), containers=(ContainerView("main", limits={"cpu": "1"}),))
    assert owned(idle, job_pod(1, "b", "DaemonSet"), replace(job_pod(2, "c"), owner=None)).group_keys() == []


def test_words_of_a_group_count_before_the_owner_also_where_they_are_broken() -> None:
    named = replace(job_pod(0), annotations={f"{GANG}name": "g", f"{GANG}min-available": "2"})
    broken = replace(job_pod(1), annotations={f"{GANG}name": "g", f"{GANG}min-available": "many"})
    assert owned(named, broken).group_keys() == ["team/g"]


def test_more_pods_of_a_job_prolong_the_wait_for_the_next_up_to_the_window() -> None:
    broker = owned(job_pod(0, devices=1), nodes=["n0"])
    now, created = 0.0, 1
    assert tried(broker, [job_pod(0, devices=1)]) == [[]]
    while now < 9.5:
        now += 0.5
        broker.observe([job_pod(created % 8, f"j{created}", devices=1)], now)  # of other jobs: they do not count
        broker.observe([replace(job_pod(created, devices=1))], now)
        created += 1
        assert broker.step(now, STEPS) is not None
        assert tried(broker, [job_pod(0, devices=1)], now) == [[]]
    broker.step(10.0, STEPS)
    assert tried(broker, [job_pod(0, devices=1)], 10.0) == [["n0"]]


def test_a_snapshot_while_a_job_settles_gives_the_same_answers() -> None:
    pods = WORKLOADS["Job"]
    broker = owned(*pods)
    tried(broker, pods)
    kept = Broker.restore(decode_snapshot(encode_snapshot(broker.snapshot(0.5)), BrokerState))
    assert kept.group_keys() == ["team/train.uid-a"]
    for each in (broker, kept):
        each.step(SETTLED, STEPS)
    assert tried(kept, pods, SETTLED) == tried(broker, pods, SETTLED)


def bound(pod: PodView, node: str) -> PodView:
    return replace(pod, node=node, phase="Running", begun=True)


def test_a_recreated_pod_of_a_job_joins_its_siblings_without_waiting() -> None:
    broker = owned(nodes=["n0", "n1"])
    broker.observe([bound(job_pod(0), "n1"), job_pod(1)], 0.0)
    assert tried(broker, [job_pod(1)]) == [["n1"]]


def test_a_gang_of_a_job_starts_whole_or_not_at_all() -> None:
    pods = [job_pod(number, devices=8) for number in range(3)]
    broker = owned(*pods, mode="gang")
    assert settled(broker, pods) == [[], [], []], "two nodes"
    broker.observe(fleet_node(profile("dgx1-v100"), "n2"), 2.0)
    broker.step(2.0, STEPS)
    assert all(broker.filter(pod, [*NODES, "n2"], 2.0).nodes for pod in pods)


def test_a_group_of_a_job_places_as_many_as_fit() -> None:
    pods = [job_pod(number, devices=8) for number in range(3)]
    answers = settled(owned(*pods), pods)
    assert [bool(nodes) for nodes in answers] == [True, True, False]


def test_a_gang_that_grew_before_it_was_bound_is_planned_again_as_a_whole() -> None:
    pods = [job_pod(number, devices=8) for number in range(3)]
    broker = owned(*pods[:2], mode="gang")
    assert all(settled(broker, pods[:2]))
    broker.observe([pods[2]], 2.0)
    assert tried(broker, pods, 2.0) == [[], [], []]
    broker.observe([PodDeleted(pods[2].uid)], 3.0)
    broker.step(3.0, STEPS)
    assert all(tried(broker, pods[:2], 3.0))


def test_an_elastic_job_grows_beside_its_running_pods() -> None:
    broker = owned(mode="gang")
    more = [job_pod(2), job_pod(3)]
    broker.observe([bound(job_pod(0), "n0"), bound(job_pod(1), "n0"), *more], 0.0)
    assert tried(broker, more) == [["n1"], ["n1"]]


def test_a_restarted_jobset_is_a_new_gang_while_its_old_pods_terminate() -> None:
    old = [replace(bound(jobset_pod(0, number), "n0"), deleting=True) for number in range(2)]
    new = [
        replace(jobset_pod(0, number, attempt=1), containers=job_pod(0, devices=8).containers) for number in range(2)
    ]
    broker = owned(*old, *new, mode="gang")
    assert settled(broker, new) == [[], []], "the devices of the old pods are not free yet"
    broker.observe([PodDeleted(pod.uid) for pod in old], 2.0)
    broker.step(2.0, STEPS)
    assert sorted(nodes[0] for nodes in tried(broker, new, 2.0)) == NODES


def test_replicas_of_a_service_do_not_wait_for_each_other() -> None:
    pods = [job_pod(0, kind="ReplicaSet"), job_pod(1, kind="ReplicaSet")]
    answers = tried(owned(*pods, mode="gang"), pods)
    assert answers in ([["n0"], ["n0"]], [["n1"], ["n1"]])


def test_a_pod_that_gets_an_owner_wants_what_a_member_wants() -> None:
    orphan = replace(job_pod(0), owner=None)
    broker = owned(orphan)
    alone = broker.request(orphan)
    adopted = broker.request(job_pod(0))
    assert (alone.group, adopted.group and adopted.group.source) == (None, "owner")
    assert alone.policy != adopted.policy
