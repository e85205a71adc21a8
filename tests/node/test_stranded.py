"""Nodes with idle devices keep room for pods that request them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkwise.model.views import ContainerView, NodeView, PodView, Taint
from linkwise.node.publishing import IDLE_ACCELERATORS, Reserve, should_taint

VIEW = NodeView("n", allocatable={"cpu": "8", "memory": "16Gi"})
TAINTED = replace(VIEW, taints=(Taint("other"), IDLE_ACCELERATORS))


def pod(cpu: str = "0", memory: str = "0", phase: str = "Running") -> PodView:
    return PodView(
        "team", "web", f"u-{cpu}-{memory}", (ContainerView("c", {"cpu": cpu, "memory": memory}),), phase=phase
    )


@pytest.mark.rule("002.stranded")
def test_a_node_is_tainted_before_its_cpus_run_out_beside_idle_devices() -> None:
    assert not should_taint(VIEW, [pod(cpu="4")], idle=4)
    assert should_taint(VIEW, [pod(cpu="4100m")], idle=4)


@pytest.mark.rule("002.stranded")
def test_memory_counts_as_cpus_do() -> None:
    assert not should_taint(VIEW, [pod(memory="14Gi")], idle=2)
    assert should_taint(VIEW, [pod(memory="15Gi")], idle=2)


def test_the_taint_stays_until_clearly_more_is_free() -> None:
    assert should_taint(TAINTED, [pod(cpu="3")], idle=4)
    assert not should_taint(TAINTED, [pod(cpu="2")], idle=4)


def test_a_node_without_idle_devices_is_not_tainted() -> None:
    assert not should_taint(TAINTED, [pod(cpu="8")], idle=0)


def test_pods_that_have_finished_take_nothing() -> None:
    assert not should_taint(VIEW, [pod(cpu="8", phase="Succeeded"), pod(cpu="8", phase="Failed")], idle=4)


def test_what_a_node_does_not_report_is_no_limit() -> None:
    assert not should_taint(NodeView("n"), [pod(cpu="8")], idle=4)


def test_the_reserve_is_a_setting() -> None:
    reserve = Reserve(cpu=3000, memory=1 << 20)
    assert should_taint(VIEW, [pod(cpu="3")], idle=2, reserve=reserve)
    assert not should_taint(VIEW, [pod(cpu="2")], idle=2, reserve=reserve)


def test_the_taint_only_lowers_the_preference_for_a_node() -> None:
    assert Taint("linkwise.dev/idle-accelerators", "", "PreferNoSchedule") == IDLE_ACCELERATORS
