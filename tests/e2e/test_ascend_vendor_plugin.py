"""Huawei's own device plugin on a real kubelet: it mounts the chips of the record, which our agent leaves as they are."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from support.dcmi_stub.machine import atlas_800
from support.e2e.api_client import MERGE
from support.e2e.ascend_agent import ASCEND, CONSUMED, AscendAgent, chips
from support.e2e.processes import wait_for
from support.e2e.real_node.device_plugin import Answer, DevicePlugin
from support.e2e.real_node.node import scheduled_pod
from support.huawei_plugin import HuaweiPlugin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from support.e2e.api_client import Raw
    from support.e2e.real_node.node import RealNode
    from support.e2e.service import Placing
    from support.huawei_plugin import AnnotatedPod

NAMES = [f"Ascend910-{number}" for number in range(8)]
REAL = "huawei.com/AscendReal"


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of the node."""

    document: Raw
    annotations: Mapping[str, str]


class Vendor:
    """Huawei's plugin on a real node."""

    def __init__(self, node: RealNode) -> None:
        self.node = node
        self.rules = HuaweiPlugin(ASCEND, len(NAMES), self._pods, self._annotate, time.sleep)
        self.plugin = DevicePlugin(node.device_plugins, ASCEND, NAMES, self._allocate)

    def _allocate(self, ids: Sequence[str]) -> Answer:
        numbers = chips(",".join(self.rules.allocate(ids)))
        return Answer({}, ["/dev/davinci_manager", *(f"/dev/davinci{number}" for number in numbers)])

    def _pods(self) -> list[Pod]:
        found = self.node.cluster.api.list(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self.node.name}")
        return [
            Pod(pod, pod["metadata"].get("annotations", {}))
            for pod in found
            if "deletionTimestamp" not in pod["metadata"]
            and ASCEND in pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
        ]

    def _annotate(self, pod: AnnotatedPod, annotations: Mapping[str, str]) -> None:
        assert isinstance(pod, Pod)
        about = pod.document["metadata"]
        path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"
        self.node.cluster.api.call("PATCH", path, {"metadata": {"annotations": dict(annotations)}}, MERGE)

    def mounted(self, pod: Raw) -> list[int]:
        """Numbers of the chips in the container of a pod."""
        paths = [path.removeprefix("/dev/davinci") for path in self.node.devices(pod)]
        return sorted(int(number) for number in paths if number.isdecimal())


@pytest.fixture
def vendor(real_node: RealNode) -> Iterator[Vendor]:
    """The plugin, which serves eight chips; the scheduler knows them by their number alone."""
    real_node.add_ascend(len(NAMES))
    made = Vendor(real_node)
    made.plugin.start()
    real_node.wait_allocatable(ASCEND, 8)
    yield made
    made.plugin.stop()


def wait_known(placing: Placing, node: RealNode) -> None:
    """Wait until the service counts the chips of the node."""

    def known() -> bool:
        nodes = {one["metadata"]["name"]: one for one in placing.snapshot()["nodes"]}
        return bool(nodes.get(node.name, {}).get("status", {}).get("allocatable", {}).get(ASCEND) == "8")

    wait_for(known, 20.0, "the service counts the chips")


@pytest.mark.rule("003.record")
def test_the_vendors_plugin_mounts_what_our_scheduler_chose(
    vendor: Vendor, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    wait_known(placing, real_node)
    pods = [scheduled_pod(namespace, f"pod-{number}", {ASCEND: size}) for number, size in enumerate((2, 2, 4))]
    for pod in pods:
        real_node.run(pod)
    found = [real_node.cluster.pod(namespace, pod["metadata"]["name"])["metadata"]["annotations"] for pod in pods]
    assert [chips(one[ASCEND]) for one in found] == [[0, 1], [2, 3], [4, 5, 6, 7]]
    assert (
        [vendor.mounted(pod) for pod in pods]
        == [chips(one[REAL]) for one in found]
        == [chips(one[ASCEND]) for one in found]
    )
    assert {one["predicate-time"] for one in found} == {CONSUMED}


@pytest.fixture
def beside(request: pytest.FixtureRequest, vendor: Vendor, placing: Placing, tmp_path: Path) -> Iterator[AscendAgent]:
    """Our agent, which publishes the chips while the vendor's plugin serves them."""
    request.getfixturevalue("agents_role")
    agent = AscendAgent(vendor.node, tmp_path)
    agent.start_npus(atlas_800(), nodes=False)
    agent.wait_seen(placing, enforced=False)
    yield agent
    agent.stop()


@pytest.mark.rule("003.record")
def test_our_agent_beside_the_vendors_plugin_leaves_its_records_alone(
    beside: AscendAgent, vendor: Vendor, real_node: RealNode, namespace: str
) -> None:
    assert beside.condition("PluginRegistered")["reason"] == "ServedByAnotherPlugin"
    pod = scheduled_pod(namespace, "train", {ASCEND: 2})
    real_node.run(pod)
    before = real_node.cluster.pod(namespace, "train")["metadata"]["annotations"]
    rounds = beside.metric("linkwise_agent_discoveries_total")
    wait_for(lambda: beside.metric("linkwise_agent_discoveries_total") > rounds + 3, 20.0, "the agent looks again")
    after = real_node.cluster.pod(namespace, "train")["metadata"]["annotations"]
    assert after == before
    assert vendor.mounted(pod) == chips(after[ASCEND]) == chips(after[REAL])
    assert ASCEND not in real_node.object()["metadata"].get("annotations", {})


@pytest.mark.rule("003.record")
def test_our_agent_takes_over_from_the_vendors_plugin_while_pods_run(
    beside: AscendAgent, vendor: Vendor, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    old = [scheduled_pod(namespace, f"old-{number}", {ASCEND: 2}) for number in range(2)]
    for pod in old:
        real_node.run(pod)
    before = [real_node.cluster.pod(namespace, pod["metadata"]["name"])["metadata"]["annotations"] for pod in old]
    vendor.plugin.stop()
    beside.wait_enforced()
    beside.wait_seen(placing)
    real_node.wait_allocatable(ASCEND, 8)
    new = scheduled_pod(namespace, "new", {ASCEND: 4})
    real_node.run(new)
    served = beside.served(new)["metadata"]["annotations"]
    assert beside.in_container(new) == chips(served[ASCEND]) == [4, 5, 6, 7]
    after = [real_node.cluster.pod(namespace, pod["metadata"]["name"])["metadata"]["annotations"] for pod in old]
    assert (
        [one[ASCEND] for one in after]
        == [one[ASCEND] for one in before]
        == ["Ascend910-0,Ascend910-1", "Ascend910-2,Ascend910-3"]
    )
    assert [vendor.mounted(pod) for pod in old] == [[0, 1], [2, 3]]
