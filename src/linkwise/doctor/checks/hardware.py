"""Checks of nodes: kubelets and hardware that can't do what the node serves.

Source: seed 004, its preconditions and troubles.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.doctor.checks.agents import has_devices
from linkwise.doctor.facts import Check, names_text, problem, skipped, warning
from linkwise.doctor.objects import items_at, labels, name, namespace, number_at, object_at, text_at
from linkwise.policies.ring_profiles import known_profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from linkwise.doctor.facts import Facts, Finding
    from linkwise.doctor.objects import Raw

__all__ = ["CHECKS", "nodes_without_policy"]

GROUP: Final = "Nodes"
_SHARED: Final = "aliyun.com/gpu-mem"
_TYPE_LABEL: Final = "accelerator-type"
_FAKE_DEVICE: Final = re.compile(r"no-gpu-has-\d+\w*-to-run")
"""the device that gpushare's plugin puts into a container that it found no pod for"""


def cpu_manager(facts: Facts) -> Iterator[Finding]:
    """No node that shares devices has a static CPU Manager."""
    known = facts.inventories
    nodes = {name(each): each for each in facts.items("nodes")}
    static: dict[bool, list[str]] = {}
    unknown = []
    for node in sorted({*known, *(key for key, each in nodes.items() if has_devices(each))}):
        inventory = known.get(node, {})
        policy = text_at(inventory, "spec", "kubelet", "cpuManagerPolicy") or text_at(
            facts.kubelets.get(node, {}), "cpuManagerPolicy"
        )
        if not _shares(inventory, nodes.get(node, {})):
            continue
        if not policy:
            unknown.append(node)
        elif policy == "static":
            static.setdefault(object_at(inventory, "spec").get("enforced") is True, []).append(node)
    # rule 004.trouble: nodes whose devices are shared must not have the CPU Manager's policy static.
    if found := static.get(False):
        text = f"the kubelet's CPU Manager is static on {len(found)} node(s) that share devices by another plugin: {names_text(found)}"
        remedy = (
            "the kubelet rewrites the cgroup of running containers, and those that got their card by a variable lose it: set"
            " cpuManagerPolicy: none, remove /var/lib/kubelet/cpu_manager_state and restart the kubelet, or run our agent there"
        )
        yield problem(_subject(found), text, remedy, found)
    if found := static.get(True):
        text = f"the kubelet's CPU Manager is static on {len(found)} node(s) that share devices: {names_text(found)}"
        remedy = (
            "set cpuManagerPolicy: none, remove /var/lib/kubelet/cpu_manager_state and restart the kubelet; containers keep their"
            " devices, but pods with exclusive CPUs take those of the others on their card"
        )
        yield warning(_subject(found), text, remedy, found)
    if unknown:
        why = facts.unread.get("kubelets", "the agent does not publish it, and /configz of the kubelet was not read")
        yield skipped(
            f"the CPU Manager of {len(unknown)} node(s) that share devices is not known ({names_text(unknown)}): {why}"
        )


def nodes_without_policy(inventories: Mapping[str, Raw], nodes: Iterable[Raw]) -> list[str]:
    """Nodes that share devices and whose inventory does not say which policy their CPU Manager has."""
    return [
        name(each)
        for each in nodes
        if _shares(inventories.get(name(each), {}), each)
        and not text_at(inventories.get(name(each), {}), "spec", "kubelet", "cpuManagerPolicy")
    ]


def _shares(inventory: Raw, node: Raw) -> bool:
    amount = object_at(node, "status", "capacity").get(_SHARED)
    return (
        text_at(inventory, "spec", "mode") == "share"
        or str(amount or "0") != "0"
        or labels(node).get("gpushare") == "true"
    )


def _subject(nodes: list[str]) -> str:
    return f"node/{nodes[0]}" if len(nodes) == 1 else ""


def models(facts: Facts) -> Iterator[Finding]:
    """The models of devices support what their nodes serve."""
    without: dict[str, list[str]] = {}
    inventories = facts.inventories
    for node, each in inventories.items():
        if text_at(each, "spec", "mode") != "share":
            continue
        for device in items_at(each, "spec", "devices"):
            if not number_at(device, "memory"):
                without.setdefault(text_at(device, "model") or "unknown model", []).append(node)
    for model, found in sorted(without.items()):
        nodes = sorted(set(found))
        # rule 004.trouble: a model that can't be shared is named, and not found by a container that does not start.
        text = f"{model} reports no memory of its own, so it can't be shared by memory, on {names_text(nodes)}"
        remedy = "remove the label gpushare=true, or set agent.mode to whole: complete devices can be allocated"
        yield problem(_subject(nodes), text, remedy, nodes)
    profiles: dict[str, list[str]] = {}
    for each in facts.items("nodes"):
        inventory = inventories.get(name(each), {})
        for word in {text_at(inventory, "spec", "profile"), labels(each).get(_TYPE_LABEL, "")} - {""}:
            if known_profile(word) is None:
                profiles.setdefault(word, []).append(name(each))
    for word, nodes in sorted(profiles.items()):
        text = f"hardware profile {word!r} is not supported, on {names_text(nodes)}: rings of its chips are not known"
        remedy = "correct the label accelerator-type; docs/reference/hardware-profiles.md lists the supported ones"
        yield problem(_subject(nodes), text, remedy, nodes)


def allocations(facts: Facts) -> Iterator[Finding]:
    """No container was started by gpushare's plugin without a card."""
    for pod in facts.items("pending"):
        texts = [
            text_at(status, "state", "waiting", "message")
            for part in ("containerStatuses", "initContainerStatuses")
            for status in items_at(pod, "status", part)
        ]
        match = next(filter(None, map(_FAKE_DEVICE.search, texts)), None)
        if match is None:
            continue
        node = text_at(pod, "spec", "nodeName")
        found = {text_at(each, "model") for each in items_at(facts.inventories.get(node, {}), "spec", "devices")} - {""}
        model = f" ({names_text(found)})" if found else ""
        # rule 004.trouble: what looks like a model that is not supported is an allocation without a pod.
        text = f"gpushare's plugin on node {node}{model} found no pod for an allocation and answered {match[0]!r} instead of a card"
        remedy = "the model is not the cause: recreate the pod, and run our agent instead of the plugin, which refuses with the reason"
        yield problem(f"pod/{name(pod)}", f"{namespace(pod)}/{name(pod)}: {text}", remedy)


CHECKS: Final = (
    Check(
        "kubelet-cpu-manager",
        GROUP,
        "no node that shares devices has a static CPU Manager",
        cpu_manager,
        ("nodes", "inventories"),
        ("kubelets",),
    ),
    Check(
        "model-unsupported", GROUP, "the models of devices support what nodes serve", models, ("nodes", "inventories")
    ),
    Check(
        "gpushare-allocation",
        GROUP,
        "no container is started by gpushare's plugin without a card",
        allocations,
        ("pending",),
        ("inventories",),
    ),
)
