"""Pods for the web page to show: some run, some share devices, and some wait."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from support.e2e.processes import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from support.embedded.up_process import TriedCluster

__all__ = ["FLEET", "fill", "scene"]

FLEET: Final = (
    "dgx1-v100=14,dgx-a100=12,hgx-h100=10,atlas-800=6,mi300=4,a100-bridged=4,"
    "p40-share=4,dgx1-v100/percent=2,dgx1-v100-measured=4"
)

_GROUP: Final = "gang.scheduling.koordinator.sh"


def _pod(
    namespace: str, name: str, resource: str, amount: int, annotations: dict[str, str] | None = None, **spec: object
) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"limits": {resource: str(amount)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "annotations": annotations or {}},
        "spec": {"schedulerName": "linkwise-scheduler", "containers": [container], **spec},
    }


def _gang(namespace: str, name: str, members: int, amount: int) -> list[dict[str, Any]]:
    group = {f"{_GROUP}/name": name, f"{_GROUP}/min-available": str(members), f"{_GROUP}/total-number": str(members)}
    return [_pod(namespace, f"{name}-{index}", "nvidia.com/gpu", amount, group) for index in range(members)]


def fill(running: TriedCluster, folder: Path) -> None:
    """Create the pods of the scene, and cordon a device that one of them uses."""
    manifest = folder / "scene.json"
    manifest.write_text(json.dumps(scene()), "utf-8")
    running.shell(f"linkwise apply -f {manifest}")
    # A device that is cordoned before the gang is placed keeps it off the node.
    groups = "linkwise get groups pretrain --namespace llm --output json"
    wait_for(lambda: '"placed"' in running.shell(groups), 120, "the gang of the scene is placed")
    running.shell('linkwise cordon node/dgx1-v100-01 --device 3 --reason "ECC errors"')


def scene() -> dict[str, Any]:
    """A List of namespaces and pods."""
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in ("llm", "research", "serving", "vision")
    ]
    pods = [
        *_gang("llm", "pretrain", 14, 8),
        *(_pod("serving", f"chat-{index}", "nvidia.com/gpu", 1) for index in range(12)),
        *(_pod("vision", f"detect-{index}", "nvidia.com/gpu", 2) for index in range(8)),
        *(_pod("research", f"sweep-{index}", "nvidia.com/gpu", 4) for index in range(12)),
        _pod("research", "npu", "huawei.com/Ascend910", 4),
        _pod("serving", "share", "aliyun.com/gpu-mem", 10),
        _pod("research", "too-many", "nvidia.com/gpu", 16),
        _pod("research", "wide-eval", "nvidia.com/gpu", 8, nodeSelector={"kubernetes.io/hostname": "dgx1-v100-02"}),
        _pod("serving", "gated", "nvidia.com/gpu", 2, schedulingGates=[{"name": "example.com/approval"}]),
        *_gang("llm", "moe", 30, 8),
    ]
    return {"apiVersion": "v1", "kind": "List", "items": [*namespaces, *pods]}
