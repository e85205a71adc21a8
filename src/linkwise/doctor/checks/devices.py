"""Checks of nodes with devices: the inventories of their agents, CPU manager policies and supported models.

Source: seed 004, its preconditions and troubles.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.dialects.linkwise.dialect import VENDOR_LABEL
from linkwise.dialects.registry import managed_resources
from linkwise.doctor.facts import Check, names_text, problem, skipped, warning
from linkwise.doctor.objects import (
    condition,
    is_ready,
    items_at,
    labels,
    name,
    namespace,
    number_at,
    object_at,
    text_at,
    time_at,
)
from linkwise.policies.ring_profiles import known_profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from linkwise.doctor.facts import Facts, Finding
    from linkwise.doctor.objects import Raw

__all__ = ["CHECKS", "has_devices", "nodes_without_policy"]

STALE: Final = 900.0
"""seconds; a summary of usage is published every five minutes at the latest"""
_LABELS: Final = re.compile(
    r"nvidia\.com/gpu\.(present|count)|feature\.node\.kubernetes\.io/pci-(10de|1002|19e5|0302_10de|0300_10de)\S*\.present"
    r"|gpushare|amd\.com/gpu\S*|accelerator"
)
_NO: Final = frozenset({"", "false", "0"})
_EXPECTED: Final[dict[str, str]] = {
    "DevicesDiscovered": "check the driver on the node: `kubectl logs` of its agent has the details",
    "InventoryComplete": "the message names what is missing; `agent.driver` and `agent.source` select another way to discover",
    "CDIWritten": "mount the CDI folder into the agent writable, or set agent.cdi to never",
}
"""conditions that should be true, and what to do where one is not; the first that is not counts for a node"""
_SHARED: Final = "aliyun.com/gpu-mem"
_TYPE_LABEL: Final = "accelerator-type"
_FAKE_DEVICE: Final = re.compile(r"no-gpu-has-\d+\w*-to-run")
"""the device that gpushare's plugin puts into a container that it found no pod for"""


def has_devices(node: Raw) -> bool:
    """Whether a node has accelerators, by its resources or by labels that detectors and administrators set."""
    capacity = object_at(node, "status", "capacity")
    known = {each for names in managed_resources().values() for each in names}
    if any(each in known and str(capacity[each]) != "0" for each in capacity):
        return True
    found = labels(node)
    return VENDOR_LABEL in found or any(
        _LABELS.fullmatch(key) and value.lower() not in _NO for key, value in found.items()
    )


def missing(facts: Facts) -> Iterator[Finding]:
    """Every node with devices has an inventory."""
    known = facts.inventories
    nodes = [name(each) for each in facts.items("nodes") if has_devices(each) and name(each) not in known]
    if not nodes:
        return
    if not known:
        found = f"no node has a DeviceInventory, and {len(nodes)} have devices: {names_text(nodes)}"
        remedy = "run the agent on them, if Linkwise shall discover devices and allocate the ones it chose: docs/reference/agent.md"
        yield warning("", found, remedy, nodes)
        return
    found = f"{len(nodes)} node(s) with devices have no DeviceInventory: {names_text(nodes)}"
    remedy = "let the DaemonSet linkwise-agent select them (its nodeSelector and tolerations), and check the logs of their agents"
    yield problem(_subject(nodes), found, remedy, nodes)


def _subject(nodes: list[str]) -> str:
    return f"node/{nodes[0]}" if len(nodes) == 1 else ""


def running(facts: Facts) -> Iterator[Finding]:
    """The pods of the agent are ready."""
    pods = [each for each in facts.items("own-pods") if labels(each).get("app.kubernetes.io/component") == "agent"]
    if not pods:
        yield skipped(f"no pods of the agent are in namespace {facts.namespace}")
        return
    failing = [each for each in pods if not is_ready(each) and text_at(each, "metadata", "deletionTimestamp") == ""]
    nodes = [text_at(each, "spec", "nodeName") or name(each) for each in failing]
    if failing:
        reasons = sorted({_reason(each) for each in failing})
        found = f"{len(failing)} agent(s) are not ready, on {names_text(nodes)}: {names_text(reasons)}"
        remedy = f"`kubectl -n {facts.namespace} describe pod {name(failing[0])}` and its log say why"
        yield problem(f"pod/{name(failing[0])}" if len(failing) == 1 else "", found, remedy, nodes)


def _reason(pod: Raw) -> str:
    waiting = [
        text_at(each, "state", "waiting", "reason") or text_at(each, "state", "terminated", "reason")
        for each in items_at(pod, "status", "containerStatuses")
    ]
    ready = condition(pod, "Ready")
    return next(filter(None, waiting), "") or text_at(ready, "reason") or text_at(pod, "status", "phase") or "unknown"


def stale(facts: Facts) -> Iterator[Finding]:
    """Inventories are kept up to date."""
    old = [
        node
        for node, each in facts.inventories.items()
        if (when := time_at(each, "status", "usage", "time")) is not None
        and facts.time_of("inventories") - when > STALE
    ]
    if old:
        found = f"{len(old)} DeviceInventory object(s) have not been updated for 15 minutes: {names_text(old)}"
        remedy = "check the agents of these nodes, and the nodes: pods may be placed on devices that failed meanwhile"
        yield problem(_subject(old), found, remedy, old)


def conditions(facts: Facts) -> Iterator[Finding]:
    """Agents report no problem of their own; on nodes without accelerators they find no devices, as expected."""
    skipped_nodes = {name(each) for each in facts.items("nodes") if not has_devices(each)}
    for kind, remedy in _EXPECTED.items():
        wrong = {
            node: each
            for node, each in facts.inventories.items()
            if condition(each, kind).get("status") == "False" and node not in skipped_nodes
        }
        skipped_nodes |= wrong.keys()
        if wrong:
            first = min(wrong)
            message, _, _ = text_at(condition(wrong[first], kind), "message").partition(". ")
            found = f"{kind} is False on {len(wrong)} node(s): {names_text(wrong)}; {first}: {message}"
            yield warning(_subject(sorted(wrong)), found, remedy, sorted(wrong))
    failed = {
        node: text_at(condition(each, "PluginRegistered"), "message")
        for node, each in facts.inventories.items()
        if text_at(condition(each, "PluginRegistered"), "reason") in {"RegistrationFailed", "ModeNotServed"}
    }
    if failed:
        first = min(failed)
        found = f"the agent serves no devices on {len(failed)} node(s): {names_text(failed)}; {first}: {failed[first]}"
        remedy = (
            "the message says what the kubelet or the hardware refuses; agent.mode and agent.plugin are the settings"
        )
        yield problem(_subject(sorted(failed)), found, remedy, sorted(failed))


def versions(facts: Facts) -> Iterator[Finding]:
    """Agents and the service are of one version."""
    service = next(
        (
            key.partition('version="')[2].partition('"')[0]
            for key in facts.metrics
            if key.startswith("linkwise_build_info{")
        ),
        "",
    )
    known = {
        node: version
        for node, each in facts.inventories.items()
        if (version := text_at(each, "status", "agentVersion"))
    }
    if not service or not known:
        yield skipped("no version to compare: agents publish theirs in status.agentVersion, the service in its metrics")
        return
    others: dict[str, list[str]] = {}
    for node, version in known.items():
        if version != service:
            others.setdefault(version, []).append(node)
    for version, nodes in sorted(others.items()):
        found = f"{len(nodes)} agent(s) run version {version}, and the service {service}: {names_text(nodes)}"
        remedy = (
            "finish the upgrade: `kubectl rollout status daemonset/linkwise-agent`; records are compatible meanwhile"
        )
        yield warning(_subject(nodes), found, remedy, nodes)


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
        "agent-missing", "Node agents", "every node with devices has an inventory", missing, ("nodes", "inventories")
    ),
    Check("agent-ready", "Node agents", "agents are ready", running, ("own-pods",)),
    Check("agent-stale", "Node agents", "inventories are up to date", stale, ("inventories",)),
    Check("agent-conditions", "Node agents", "agents report no problem", conditions, ("inventories",), ("nodes",)),
    Check(
        "agent-version",
        "Node agents",
        "agents and the service are of one version",
        versions,
        ("inventories", "metrics"),
    ),
    Check(
        "kubelet-cpu-manager",
        "Nodes",
        "no node that shares devices has a static CPU Manager",
        cpu_manager,
        ("nodes", "inventories"),
        ("kubelets",),
    ),
    Check(
        "model-unsupported", "Nodes", "the models of devices support what nodes serve", models, ("nodes", "inventories")
    ),
    Check(
        "gpushare-allocation",
        "Nodes",
        "no container is started by gpushare's plugin without a card",
        allocations,
        ("pending",),
        ("inventories",),
    ),
)
