"""A cluster that fills, a device that fails, a gang that waits, and a plan: followed on one open page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from support.browser.window import page_of
from support.embedded.up_process import TriedCluster

if TYPE_CHECKING:
    from pathlib import Path

    from support.browser.window import Window

FLEET: Final = "dgx1-v100=2,dgx-a100=2"
SMALL: Final = """\
apiVersion: batch/v1
kind: Job
metadata: {name: probe, namespace: default}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: a
        image: x
        resources: {limits: {nvidia.com/gpu: 2}}
"""


def gang(name: str, members: int, devices: int) -> list[dict[str, Any]]:
    """Pods that start together."""
    prefix = "gang.scheduling.koordinator.sh"
    marks = {f"{prefix}/name": name, f"{prefix}/min-available": str(members), f"{prefix}/total-number": str(members)}
    container = {"name": "a", "image": "x", "resources": {"limits": {"nvidia.com/gpu": str(devices)}}}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{index}", "namespace": "default", "annotations": marks},
            "spec": {"schedulerName": "linkwise-scheduler", "containers": [container]},
        }
        for index in range(members)
    ]


def apply(running: TriedCluster, folder: Path, pods: list[dict[str, Any]]) -> None:
    file = folder / "pods.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}), "utf-8")
    assert "created" in running.shell(f"linkwise apply -f {file}")


def test_a_cluster_fills_a_device_fails_a_gang_waits_and_a_plan_finds_places(window: Window, tmp_path: Path) -> None:
    with TriedCluster(tmp_path, "--fleet", FLEET) as running, window() as opened:
        page = opened.page
        page.goto(page_of(running))
        in_use = page.locator(".card", has_text="Devices in use").locator(".figure b")
        in_use.get_by_text("0", exact=True).wait_for()

        apply(running, tmp_path, gang("train", 2, 8))
        in_use.get_by_text("16", exact=True).wait_for()

        running.shell("linkwise annotate node/dgx1-v100-0 sim.linkwise.dev/dead=5")
        running.shell('linkwise cordon node/dgx1-v100-1 --device 2 --reason "ECC errors"')
        page.get_by_role("button", name="Table").click()
        for name in ("dgx1-v100-0", "dgx1-v100-1"):
            page.get_by_role("row", name=f"{name} ").get_by_role("cell", name="1", exact=True).wait_for()

        apply(running, tmp_path, gang("tune", 2, 8))
        waiting = page.get_by_role("link", name="default/tune 2 pods")
        waiting.get_by_text("needs 2 nodes").wait_for()
        waiting.click()
        page.get_by_role("heading", name="group default/tune").wait_for()
        panel = page.locator(".panel")
        for sentence in (
            "Group default/tune does not fit now; no devices are reserved for it.",
            "It needs 2 nodes of one model with 8 free devices; none has them.",
            "8 devices requested, but 1 of 8 is unhealthy or cordoned: 5",
            "7 devices per member would fit now, on dgx1-v100-0, dgx1-v100-1.",
        ):
            panel.get_by_text(sentence).first.wait_for()
        remedy = panel.locator(".card-box", has_text="When these 2 pods finish")
        assert remedy.get_by_role("link").all_inner_texts() == [
            "dgx-a100-0",
            "dgx-a100-1",
            "default/train-0",
            "default/train-1",
        ]

        page.get_by_role("link", name="Plan").click()
        page.get_by_label("Manifest").fill(SMALL)
        page.get_by_role("button", name="Plan it").click()
        page.get_by_role("heading", name="2 pods on the picture").wait_for()
        panel.locator(".headline", has_text="Group default/probe/2 fits now: 2 members on 1 node.").wait_for()
        assert panel.get_by_role("row", name="probe-0 dgx1-v100-0").is_visible()
        assert opened.problems == []
