"""Volcano Jobs on a real kubelet: Volcano binds, the agent allocates, and containers have exactly the chips on record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.dcmi_stub.machine import atlas_800
from support.e2e.ascend_agent import ASCEND, AscendAgent
from support.e2e.real_node.node import scheduled_pod
from support.e2e.volcano_objects import pod_names, volcano_job
from support.e2e.volcano_placing import chips

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from linkwise.config.volcano import Mode
    from support.e2e.api_client import Raw
    from support.e2e.real_node.node import RealNode
    from support.e2e.volcano_placing import VolcanoPlacing


@pytest.fixture(scope="module", params=["gated", "extender"])
def volcano_mode(request: pytest.FixtureRequest) -> Mode:
    mode: Mode = request.param
    return mode


@pytest.fixture
def npus(
    request: pytest.FixtureRequest, volcano: VolcanoPlacing, real_node: RealNode, tmp_path: Path
) -> Iterator[AscendAgent]:
    """The agent serves eight chips in two rings, and the service and Volcano know."""
    request.getfixturevalue("agents_role")
    made = AscendAgent(real_node, tmp_path)
    made.start_npus(atlas_800())
    real_node.wait_allocatable(ASCEND, 8)
    made.wait_seen(volcano)
    volcano.volcano.pass_sessions()
    yield made
    made.stop()


def job_of_containers(namespace: str, name: str, devices: int) -> Raw:
    """A Volcano Job of one pod that runs a container."""
    made = volcano_job(namespace, name, {ASCEND: devices})
    spec = scheduled_pod(namespace, name, {ASCEND: devices})["spec"]
    (task,) = made["spec"]["tasks"]
    task["template"]["spec"] |= {"containers": spec["containers"], "terminationGracePeriodSeconds": 5}
    return made


@pytest.mark.rule("003.record", "003.allocate", "000.agree", level="R")
def test_containers_of_volcano_jobs_have_exactly_their_chips(
    volcano: VolcanoPlacing, npus: AscendAgent, real_node: RealNode
) -> None:
    namespace, mounted = volcano.namespace(), []
    for devices in (2, 4):
        job = job_of_containers(namespace, f"train-{devices}", devices)
        (granted,) = volcano.run(job)
        (name,) = pod_names(job)
        pod = volcano.cluster.pod(namespace, name)
        real_node.wait_phase({**pod, "apiVersion": "v1", "kind": "Pod"}, "Running")
        assert npus.in_container(pod) == npus.by_kubelet(pod) == list(chips(granted))
        assert real_node.environment(pod)["ASCEND_VISIBLE_DEVICES"] == ",".join(map(str, chips(granted)))
        npus.served(pod)
        mounted.append(list(chips(granted)))
    assert mounted == [[0, 1], [4, 5, 6, 7]]
