"""Huawei's own device plugin beside our scheduler: it mounts exactly the chips that were chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.testing.cluster import ASCEND, FakeNode, broker_of, device_pod, place
from support.huawei_plugin import CONSUMED, HuaweiPlugin, NoPodError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.views import PodView
    from support.huawei_plugin import AnnotatedPod


class Node:
    """One node: pods that our scheduler has bound, and Huawei's plugin."""

    def __init__(self) -> None:
        self.broker = broker_of(FakeNode("npu-1", "ring", 8))
        self.pods: dict[str, PodView] = {}
        self.pauses: list[float] = []
        self.plugin = HuaweiPlugin(ASCEND, 8, lambda: list(self.pods.values()), self._annotate, self.pauses.append)

    def bind(self, name: str, chips: int, now: float = 1000.0) -> str:
        """The list of chips that our scheduler writes on the pod."""
        pod = place(self.broker, device_pod(name, chips, ASCEND), "npu-1", now)
        self.pods[name] = pod
        return pod.annotations[ASCEND]

    def _annotate(self, pod: AnnotatedPod, annotations: Mapping[str, str]) -> None:
        (name,) = (name for name, known in self.pods.items() if known is pod)
        self.pods[name] = replace(self.pods[name], annotations={**pod.annotations, **annotations})


@pytest.mark.rule("003.record")
def test_the_plugin_mounts_the_chosen_chips_and_not_the_kubelets() -> None:
    node = Node()
    node.bind("first", 1)
    chosen = node.bind("second", 2)
    mounted = node.plugin.allocate(["Ascend910-7", "Ascend910-0"])
    assert ",".join(mounted) == chosen
    assert node.pods["second"].annotations["predicate-time"] == str(CONSUMED)
    assert node.pods["second"].annotations["huawei.com/kltDev"] == "Ascend910-0,Ascend910-7"


@pytest.mark.rule("003.record")
def test_pods_of_the_same_size_are_served_in_the_order_in_which_they_were_bound() -> None:
    node = Node()
    chosen = [node.bind(name, 2) for name in ("first", "second", "third")]  # at the same moment of the clock
    calls = [["Ascend910-6", "Ascend910-7"], ["Ascend910-4", "Ascend910-5"], ["Ascend910-0", "Ascend910-1"]]
    assert [",".join(node.plugin.allocate(ids)) for ids in calls] == chosen
    assert node.pauses == []


def test_a_pod_of_another_size_does_not_take_the_call() -> None:
    node = Node()
    one, four = node.bind("one", 1), node.bind("four", 4)
    assert ",".join(node.plugin.allocate([f"Ascend910-{number}" for number in range(4)])) == four
    assert ",".join(node.plugin.allocate(["Ascend910-5"])) == one


def test_without_a_pod_on_record_the_plugin_gives_up_after_three_tries() -> None:
    node = Node()
    with pytest.raises(NoPodError):
        node.plugin.allocate(["Ascend910-0"])
    assert node.pauses == [1.0, 1.0]


def test_a_pod_with_the_whole_node_needs_no_record() -> None:
    node = Node()
    chosen = node.bind("whole", 8)
    assert ",".join(node.plugin.allocate([f"Ascend910-{number}" for number in reversed(range(8))])) == chosen
    assert node.pods["whole"].annotations["huawei.com/AscendReal"] == chosen


def test_what_the_plugin_has_mounted_is_what_our_scheduler_counts_as_used() -> None:
    node = Node()
    node.bind("first", 2)
    node.plugin.allocate(["Ascend910-6", "Ascend910-7"])
    node.broker.observe([node.pods["first"]], 1001.0)
    assert node.bind("second", 2, 1002.0) == "Ascend910-2,Ascend910-3"
