"""The samples of the page on explanations are what the code says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import PodDeleted
from linkwise.explain.node import explain_node
from linkwise.explain.pod import explain_pod, explanation_lines
from linkwise.model.views import ContainerView, NodeView, PodView
from linkwise.sim.replay import Runner
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile
from support.doc_examples import blocks

PAGE = Path(__file__).resolve().parents[2] / "docs/explanation/why-it-waits.md"
GPU, NPU, MEMORY = "nvidia.com/gpu", "huawei.com/Ascend910", "aliyun.com/gpu-mem"


def pod(name: str, resource: str, count: int, cpu: int = 1) -> PodView:
    limits = {resource: str(count), "cpu": str(cpu)}
    return PodView("team", name, name, (ContainerView("main", limits=limits),))


def cluster(**machines: str) -> Runner:
    runner = Runner(Broker())
    for name, machine in machines.items():
        runner.show(*fleet_node(profile(machine), name))
    return runner


def explained(runner: Runner, uid: str) -> str:
    found = explain_pod(runner.broker, uid, runner.now)
    assert found is not None
    return "\n".join(explanation_lines(found)) + "\n"


def rings() -> Runner:
    runner = cluster(npu="atlas-800", gpu="dgx-a100")
    for name, count in (("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 2), ("f", 1)):
        runner.place(pod(name, NPU, count))
    runner.show(PodDeleted("c"))
    return runner


def two_rings() -> str:
    runner = rings()
    runner.place(pod("train", NPU, 2))
    return explained(runner, "train")


def figure_2() -> str:
    runner = Runner(Broker())
    for name, left in {"n1": (0, 4069), "n2": (4069, 4069), "n3": (8138, 0)}.items():
        runner.show(NodeView(name, capacity={MEMORY: "32552", "aliyun.com/gpu-count": "2"}))
        for card, room in enumerate(left):
            taken = 16276 - room
            keys = {"ALIYUN_COM_GPU_MEM_IDX": str(card), "ALIYUN_COM_GPU_MEM_POD": str(taken)}
            runner.show(replace(pod(f"{name}-{card}", MEMORY, taken), node=name, annotations=keys))
    runner.place(pod("serve", MEMORY, 8138))
    runner.place(pod("next", MEMORY, 8138))
    return explained(runner, "next")


def full_cpu() -> str:
    runner = cluster(a="dgx-a100", b="dgx-a100")
    runner.show(replace(runner.broker.nodes["b"], unschedulable=True))
    runner.show(replace(pod("web", "pods", 1, cpu=253), node="a", phase="Running"))
    runner.show(pod("train", GPU, 2, cpu=6))
    return explained(runner, "train")


def short_group() -> str:
    runner = cluster(a="dgx1-v100", b="dgx1-v100", c="dgx1-v100")
    runner.show(replace(pod("solo", GPU, 1), node="a", phase="Running"))
    words = {"gang.scheduling.koordinator.sh/name": "llm", "gang.scheduling.koordinator.sh/min-available": "3"}
    runner.show(*(replace(pod(f"llm-{number}", GPU, 8), annotations=words) for number in range(3)))
    return explained(runner, "llm-0")


def story() -> str:
    runner = cluster(nvlink="dgx1-v100", pcie="v100-pcie")
    runner.place(pod("train", GPU, 2))
    return explained(runner, "train")


def shared_card() -> str:
    runner = cluster(p40="p40-share")
    runner.place(pod("first", MEMORY, 8))
    runner.place(pod("second", MEMORY, 8))
    return explained(runner, "first")


def a_node() -> str:
    found = explain_node(rings().broker, "npu", 0.0)
    assert found is not None
    return "\n".join(explanation_lines(found)) + "\n"


SAMPLES = [block.text for block in blocks(PAGE.read_text("utf-8")) if block.language == "text"]


@pytest.mark.parametrize("tell", [two_rings, figure_2, full_cpu, short_group, story, shared_card, a_node])
def test_a_sample_is_what_the_code_says(tell: object) -> None:
    assert callable(tell)
    assert tell() in SAMPLES


def test_every_sample_is_tried() -> None:
    assert len(SAMPLES) == 7
