"""Sample manifests of the user's guide on a real Kubernetes: they are admitted, and their pods get devices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from support.e2e.node_objects import ascend, gpushare, machine
from support.e2e.processes import wait_for
from support.e2e.service import grant

if TYPE_CHECKING:
    from support.e2e.api_client import Raw
    from support.e2e.service import Granted, Placing

SAMPLES: Final = Path(__file__).resolve().parents[2] / "docs/guides/samples"
SECONDS: Final = 30.0


def granted(placing: Placing, sample: str, count: int) -> list[Granted]:
    """What the pods of a sample have, once so many are bound."""
    namespace = placing.namespace()
    placing.cluster.apply((SAMPLES / sample).read_text("utf-8"), namespace)

    def bound() -> list[Raw] | None:
        pods = placing.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")
        found = [pod for pod in pods if pod["spec"].get("nodeName")]
        return found if len(found) == count else None

    return [grant(pod) for pod in wait_for(bound, SECONDS, f"{count} pods of {sample} have a node")]


def test_workers_of_the_gang_get_different_devices_of_the_fewest_nodes(admitting: Placing) -> None:
    admitting.nodes(*machine("gpu-1", "nvlink"), *machine("gpu-2", "nvlink"))
    found = granted(admitting, "ddp-gang.yaml", 4)
    assert len({one.node for one in found}) == 1
    assert len({device for one in found for device in one.devices}) == 8


def test_replicas_of_the_deployment_share_a_card(admitting: Placing) -> None:
    admitting.nodes(*gpushare("share"))
    found = granted(admitting, "inference-share.yaml", 3)
    assert len({(one.node, *one.devices) for one in found}) == 1


def test_the_chips_of_the_job_are_in_one_ring(admitting: Placing) -> None:
    admitting.nodes(*ascend("npu", unhealthy=[0]))
    (found,) = granted(admitting, "ascend-job.yaml", 1)
    assert found.devices == ("#4", "#5", "#6", "#7")


def test_the_report_and_its_role_are_accepted(admitting: Placing) -> None:
    sample = (SAMPLES / "usage-report.yaml").read_text("utf-8")
    here = sample.replace("namespace: linkwise-system", f"namespace: {admitting.namespace()}")
    made = admitting.cluster.kubectl("apply", "--dry-run=server", "--output=name", "--filename", "-", stdin=here)
    assert sorted(name.partition("/")[0] for name in made.splitlines()) == [
        "clusterrole.rbac.authorization.k8s.io",
        "clusterrolebinding.rbac.authorization.k8s.io",
        "cronjob.batch",
        "serviceaccount",
    ]
