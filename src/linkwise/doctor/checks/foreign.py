"""Checks for other systems that serve or schedule the same devices: device plugins, DRA drivers, extenders, schedulers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.doctor.facts import Check, names_text, problem, warning
from linkwise.doctor.objects import (
    condition,
    images,
    items_at,
    labels,
    name,
    namespace,
    number_at,
    object_at,
    text_at,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.doctor.facts import Facts, Finding
    from linkwise.doctor.objects import Raw

__all__ = ["CHECKS", "known_plugin"]

GROUP: Final = "Other systems"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A device plugin of another system."""

    words: tuple[str, ...]
    """in the name of its DaemonSet or its image"""
    vendor: str
    what: str


PLUGINS: Final = (
    Plugin(("gpushare-device-plugin",), "nvidia", "gpushare's device plugin"),
    Plugin(("hami-device-plugin", "projecthami/hami"), "nvidia", "HAMi's device plugin"),
    Plugin(("nvidia-device-plugin", "nvidia/k8s-device-plugin"), "nvidia", "NVIDIA's device plugin"),
    Plugin(("ascend-device-plugin", "ascend-k8sdeviceplugin"), "ascend", "Huawei's device plugin"),
    Plugin(("amdgpu-device-plugin", "rocm/k8s-device-plugin"), "amd", "AMD's device plugin"),
    Plugin(("volcano-device-plugin", "volcano-vgpu-device-plugin"), "nvidia", "Volcano's device plugin"),
    Plugin(("koordlet",), "", "koordlet"),
)
DRIVERS: Final[dict[str, tuple[str, ...]]] = {
    "gpu.nvidia.com": ("nvidia.com/gpu", "aliyun.com/gpu-mem"),
    "gpu.amd.com": ("amd.com/gpu",),
    "npu.huawei.com": ("huawei.com/Ascend910", "huawei.com/Ascend310P"),
}
"""DRA drivers, and the resources by which device plugins serve the same hardware"""
_SCHEDULERS: Final[dict[str, tuple[str, str]]] = {
    "gpushare-schd-extender": (
        "gpushare's extender runs beside Linkwise: both record the cards of pods, and neither reads the other's choice in time",
        "remove it when no scheduler calls it any more: docs/how-to/scheduler-config.md; Linkwise serves its routes and reads its records",
    ),
    "hami-scheduler": (
        "HAMi's scheduler runs beside Linkwise, and its webhook sends pods with nvidia.com/gpu to itself",
        "keep their nodes apart by labels, or remove HAMi: devices that it allocates have no record that Linkwise reads",
    ),
    "koord-scheduler": (
        "Koordinator's scheduler runs beside Linkwise, and both allocate devices of Koordinator's names",
        "let one of them schedule these pods: their schedulerName decides, and the records of both are read",
    ),
}


def known_plugin(daemon_set: Raw) -> Plugin | None:
    """Which device plugin of another system a DaemonSet runs; None for any other, and for our own agent."""
    if labels(daemon_set).get("app.kubernetes.io/name") == "linkwise":
        return None
    texts = (name(daemon_set), *images(daemon_set))
    return next((each for each in PLUGINS if any(word in text for word in each.words for text in texts)), None)


def plugins(facts: Facts) -> Iterator[Finding]:
    """No other plugin serves devices of a node where our agent does."""
    enforced = {
        node: each for node, each in facts.inventories.items() if object_at(each, "spec").get("enforced") is True
    }
    nodes_of: dict[tuple[str, str], set[str]] = {}
    for pod in facts.items("foreign-pods"):
        owner = next((text_at(each, "name") for each in items_at(pod, "metadata", "ownerReferences")), "")
        nodes_of.setdefault((namespace(pod), owner), set()).add(text_at(pod, "spec", "nodeName"))
    for each in facts.items("daemon-sets"):
        plugin = known_plugin(each)
        if plugin is None or not plugin.vendor:
            continue
        nodes = sorted(nodes_of.get((namespace(each), name(each)), set()) & set(enforced))
        if nodes:
            found = f"{plugin.what} ({namespace(each)}/{name(each)}) and the agent serve devices of {len(nodes)} node(s): {names_text(nodes)}"
            remedy = (
                "keep one of them off these nodes by its nodeSelector: the kubelet uses the plugin that registered last"
            )
            yield problem(f"daemonset/{name(each)}", found, remedy, nodes)
    foreign = {
        node: text_at(condition(each, "PluginRegistered"), "message")
        for node, each in facts.inventories.items()
        if text_at(condition(each, "PluginRegistered"), "reason") == "ServedByAnotherPlugin"
    }
    if foreign:
        first = min(foreign)
        found = f"another device plugin serves the devices of {len(foreign)} node(s): {names_text(foreign)}; {first}: {foreign[first]}"
        remedy = "devices that Linkwise chooses are only expected there; remove that plugin for the agent to serve them"
        yield warning(f"node/{first}" if len(foreign) == 1 else "", found, remedy, sorted(foreign))


def drivers(facts: Facts) -> Iterator[Finding]:
    """No hardware is served by a DRA driver and a device plugin at once."""
    resources = {
        name(each): {key for key, amount in object_at(each, "status", "allocatable").items() if str(amount) != "0"}
        for each in facts.items("nodes")
    }
    both: dict[str, set[str]] = {}
    for each in facts.items("device-slices"):
        driver, node = text_at(each, "spec", "driver"), text_at(each, "spec", "nodeName")
        if resources.get(node, set()) & set(DRIVERS.get(driver, ())):
            both.setdefault(driver, set()).add(node)
    for driver, nodes in sorted(both.items()):
        found = f"DRA driver {driver} and a device plugin serve the same devices on {len(nodes)} node(s): {names_text(nodes)}"
        remedy = "serve them in one way per node: turn off the driver's GPU slices, or keep the device plugin off these nodes"
        yield problem(f"node/{next(iter(nodes))}" if len(nodes) == 1 else "", found, remedy, sorted(nodes))


def schedulers(facts: Facts) -> Iterator[Finding]:
    """No other scheduler allocates the same devices."""
    running = {
        name(each): each for each in facts.items("foreign-schedulers") if number_at(each, "spec", "replicas") != 0
    }
    for known, (found, remedy) in _SCHEDULERS.items():
        if known in running:
            report = problem if known == "gpushare-schd-extender" else warning
            yield report(f"deployment/{known}", f"{found} ({namespace(running[known])})", remedy)
    for each in facts.items("volcano"):
        text = " ".join(str(value) for value in object_at(each, "data").values())
        if "volcano-scheduler" in running and "deviceshare.VGPUEnable: true" in text.replace('"', ""):
            found = "Volcano's own vGPU plugin (deviceshare.VGPUEnable) allocates devices that Linkwise allocates too"
            yield warning(
                f"configmap/{name(each)}",
                found,
                "remove it: `linkwise config volcano` prints the configuration with Linkwise",
            )


CHECKS: Final = (
    Check(
        "foreign-plugin",
        GROUP,
        "no other device plugin serves the devices of our agents",
        plugins,
        ("inventories", "daemon-sets", "foreign-pods"),
    ),
    Check(
        "foreign-dra",
        GROUP,
        "no DRA driver serves devices that a plugin serves too",
        drivers,
        ("nodes", "device-slices"),
    ),
    Check(
        "foreign-scheduler",
        GROUP,
        "no other scheduler allocates the same devices",
        schedulers,
        ("foreign-schedulers",),
        ("volcano",),
    ),
)
