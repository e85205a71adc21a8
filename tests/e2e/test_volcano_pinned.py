"""Attacks on gated mode with a real Volcano: crashes between plan, patch and bind, lost nodes and objects, protected records."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from support.e2e.config_files import OWN_USERS
from support.e2e.invariants import all_is_well, chips_are_single
from support.e2e.node_objects import ascend, machine
from support.e2e.processes import wait_for
from support.e2e.protection import protected
from support.e2e.volcano_objects import pod_names, volcano_job, volcano_pod
from support.e2e.volcano_placing import chips

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.config.volcano import Mode
    from support.e2e.api_client import Raw
    from support.e2e.volcano_placing import VolcanoPlacing

NPU, GPU = "huawei.com/Ascend910", "nvidia.com/gpu"
GRANT = "linkwise.dev/grant"
SEED = "gputopology.scheduling.koordinator.sh"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups/{}"


@pytest.fixture(scope="module")
def volcano_mode() -> Mode:
    return "gated"


def nodes(volcano: VolcanoPlacing, *names: str) -> str:
    """Empty Ascend nodes; a new namespace."""
    volcano.nodes(*(thing for name in names for thing in ascend(name)))
    return volcano.namespace()


@contextmanager
def without_volcano(volcano: VolcanoPlacing) -> Iterator[None]:
    """Volcano's scheduler does not run meanwhile; its controllers do."""
    volcano.volcano.stop()
    try:
        yield
    finally:
        volcano.volcano.start()


def enqueued(volcano: VolcanoPlacing, namespace: str, name: str) -> None:
    """Let the controllers make the pods of a Job, as Volcano's action enqueue does."""
    wait_for(lambda: volcano.phases(namespace), 20, "the PodGroup is there")
    (found,) = [group for group in volcano.phases(namespace) if group.startswith(name)]
    volcano.cluster.api.patch(GROUPS.format(namespace, found), {"status": {"phase": "Inqueue"}})


def planned(volcano: VolcanoPlacing, namespace: str, names: list[str]) -> list[Raw]:
    """The pods as soon as they exist, have no gate, and have devices on record."""

    def there() -> list[Raw] | None:
        found = [volcano.find(namespace, name) for name in names]
        pods = [pod for pod in found if pod and GRANT in pod["metadata"].get("annotations", {})]
        return pods if len(pods) == len(names) and not any(pod["spec"].get("schedulingGates") for pod in pods) else None

    return wait_for(there, 20, f"{names} are planned and ungated")


def record(pod: Raw) -> tuple[str, str]:
    return pod["metadata"]["annotations"][NPU], pod["metadata"]["annotations"]["predicate-time"]


@pytest.mark.rule("003.in-session", "003.full", level="R")
def test_fifty_single_pods_at_once_fill_seven_nodes_and_share_no_chip(volcano: VolcanoPlacing) -> None:
    namespace = nodes(volcano, *(f"a{number}" for number in range(9)))
    volcano.cluster.create([volcano_pod(namespace, f"p{number}", {NPU: 1}) for number in range(50)])
    granted = [volcano.placed(namespace, f"p{number}", 60) for number in range(50)]
    assert len({found.node for found in granted}) == 7
    chips_are_single(volcano.cluster.api.list("/api/v1/pods"))
    times = [(found.node, int(found.annotations["predicate-time"])) for found in granted]
    assert len(set(times)) == 50
    all_is_well(volcano)


@pytest.mark.rule("003.allocate", "001.replan", level="R")
def test_a_service_that_is_killed_after_the_patch_keeps_the_plan_until_volcano_binds(volcano: VolcanoPlacing) -> None:
    namespace = nodes(volcano, "a", "b", "c")
    job = volcano_job(namespace, "train", {NPU: 8}, 2)
    with without_volcano(volcano):
        volcano.submit(job)
        enqueued(volcano, namespace, "train")
        before = {pod["metadata"]["name"]: record(pod) for pod in planned(volcano, namespace, pod_names(job))}
        volcano.serve.restart()
        assert len(volcano.entries()) == 2
    volcano.ran(job, 30)
    found = [volcano.cluster.pod(namespace, name) for name in pod_names(job)]
    assert {pod["metadata"]["name"]: record(pod) for pod in found} == before
    all_is_well(volcano)


@pytest.mark.rule("003.allocate", level="R")
def test_pods_that_are_created_while_the_service_is_down_are_planned_when_it_is_back(volcano: VolcanoPlacing) -> None:
    namespace = nodes(volcano, "a", "b")
    job = volcano_job(namespace, "train", {NPU: 8}, 2)
    with without_volcano(volcano):
        volcano.submit(job)
        enqueued(volcano, namespace, "train")
        wait_for(lambda: all(volcano.find(namespace, name) for name in pod_names(job)), 20, "the pods are there")
        volcano.serve.restart()
    volcano.ran(job, 30)
    all_is_well(volcano)


@pytest.mark.rule("001.replan", level="R")
def test_a_pod_whose_node_is_deleted_after_ungating_is_reported_and_its_successor_goes_elsewhere(
    volcano: VolcanoPlacing,
) -> None:
    namespace = nodes(volcano, "a", "b")
    with without_volcano(volcano):
        volcano.cluster.create([volcano_pod(namespace, "p", {NPU: 8})])
        (pod,) = planned(volcano, namespace, ["p"])
        assert pod["status"]["nominatedNodeName"] == "a"
        volcano.cluster.api.delete("/api/v1/nodes/a")
        said = wait_for(lambda: reported(volcano, namespace, "p", "PinnedNodeGone"), 20, "it is reported")
        assert "node a" in said
        wait_for(lambda: GRANT not in keys_of(volcano, namespace, "p"), 20, "its record is cleared")
        assert NPU not in keys_of(volcano, namespace, "p")
        assert volcano.entries() == []
        volcano.gone(namespace, "p")
    volcano.cluster.create([volcano_pod(namespace, "q", {NPU: 8})])
    assert volcano.placed(namespace, "q", 30).node == "b"
    all_is_well(volcano)


def reported(volcano: VolcanoPlacing, namespace: str, name: str, reason: str) -> str:
    return "\n".join(text for text in volcano.cluster.events(namespace, name) if text.startswith(reason))


def keys_of(volcano: VolcanoPlacing, namespace: str, name: str) -> dict[str, str]:
    found: dict[str, str] = volcano.cluster.pod(namespace, name)["metadata"]["annotations"]
    return found


@pytest.mark.rule("001.gang", level="R")
@pytest.mark.parametrize("lost", ["pod", "podgroup"])
def test_what_is_deleted_while_gated_leaves_nothing_behind(volcano: VolcanoPlacing, lost: str) -> None:
    namespace = nodes(volcano, "a")
    volcano.cluster.create([volcano_pod(namespace, "holder", {NPU: 4})])
    volcano.placed(namespace, "holder")
    volcano.cluster.create([volcano_pod(namespace, "p", {NPU: 8})])
    volcano.seen_groups(namespace, 2)
    wait_for(lambda: reported(volcano, namespace, "p", "GroupDoesNotFit"), 20, "it does not fit")
    if lost == "pod":
        volcano.gone(namespace, "p")
    else:
        uid = volcano.cluster.pod(namespace, "p")["metadata"]["uid"]
        volcano.cluster.api.delete(GROUPS.format(namespace, f"podgroup-{uid}"))
    volcano.gone(namespace, "holder")
    (granted,) = volcano.run(volcano_job(namespace, "next", {NPU: 4}))
    assert chips(granted) == (0, 1, 2, 3)


@pytest.mark.rule("001.group", "001.gang", "001.fewest-nodes", level="R")
def test_a_job_of_gpus_with_the_labels_of_the_seed_gets_one_machine_or_waits(volcano: VolcanoPlacing) -> None:
    volcano.nodes(*machine("g0", "nvlink"))
    namespace = volcano.namespace()
    volcano.cluster.create([volcano_pod(namespace, "holder", {GPU: 4})])
    volcano.placed(namespace, "holder")
    job = volcano_job(namespace, "nccl", {GPU: 4}, 2)
    template = job["spec"]["tasks"][0]["template"]
    template["metadata"] = {"labels": {f"{SEED}/name": "nccl", f"{SEED}/replica": "2"}}
    volcano.submit(job)
    volcano.volcano.pass_sessions(20)
    assert not any(
        pod and pod["spec"].get("nodeName") for pod in (volcano.find(namespace, each) for each in pod_names(job))
    )
    volcano.gone(namespace, "holder")
    granted = volcano.ran(job, 30)
    assert {found.node for found in granted} == {"g0"}
    assert len({device for found in granted for device in found.devices}) == 8


@pytest.mark.rule("003.record", level="R")
def test_volcano_binds_pods_whose_records_are_protected(volcano: VolcanoPlacing) -> None:
    namespace = nodes(volcano, "a")
    name = OWN_USERS["volcano"].name
    with protected(volcano.cluster, "--binder", name, "--controller", name):
        (granted,) = volcano.run(volcano_job(namespace, "train", {NPU: 4}))
        assert chips(granted) == (0, 1, 2, 3)
        status, body = volcano.cluster.connect("volcano").raw(
            "PATCH",
            f"/api/v1/namespaces/{namespace}/pods/train-worker-0",
            b'{"metadata": {"annotations": {"huawei.com/Ascend910": "Ascend910-7"}}}',
            "application/merge-patch+json",
        )
        assert (status, b"linkwise-records" in body) == (403, True)
