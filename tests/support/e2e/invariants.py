"""Invariants of a cluster, checked on API objects.

Only the last check reads the service too: its state must agree with the API objects. A violation is an UnsafeError, which a
passing second run does not excuse.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from support.e2e.processes import wait_for
from support.e2e.safety_plugin import UnsafeError
from support.e2e.service import grant
from support.properties.broker_invariants import must

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from support.e2e.api_client import Api, Raw
    from support.e2e.service import Granted, Placing

__all__ = [
    "INVENTORIES",
    "Claim",
    "all_is_well",
    "chips_are_single",
    "claims",
    "held",
    "nothing_is_sold_twice",
    "records_are_whole",
    "the_ledger_is_true",
]

GRANT: Final = "linkwise.dev/grant"
MEMORY: Final = "aliyun.com/gpu-mem"
WHOLE: Final = ("nvidia.com/gpu", "amd.com/gpu", "huawei.com/Ascend910")
CHIPS: Final = "huawei.com/Ascend910"
"""resource of Ascend 910 chips, and the annotation with those of a pod"""
PERCENT: Final = "koordinator.sh/gpu"
FINISHED: Final = ("Succeeded", "Failed")
INVENTORIES: Final = "/apis/linkwise.dev/v1alpha1/deviceinventories"
SECONDS: Final = 15.0

Parts = dict[str, tuple[tuple[str, ...], int, int]]
"""by container: devices, share, compute"""
Places = dict[str, dict[str, int]]
"""by node, the index of a device by its id"""


@dataclass(frozen=True, slots=True)
class Claim:
    """What one container of a pod has of one device."""

    pod: str
    node: str
    device: str
    mode: str
    share: int
    """of memory; none of both is all of the device"""
    core: int


def claims(pods: Iterable[Raw]) -> list[Claim]:
    """What the records of bound pods that are not over say."""
    return [
        Claim(_name(pod), found.node, device, _record(pod)["mode"], part["share"], part["core"])
        for pod in pods
        if _holds(pod)
        for found in [grant(pod)]
        for part in found.containers.values()
        for device in part["devices"]
    ]


def held(pods: Iterable[Raw]) -> dict[str, tuple[str, Parts]]:
    """By UID, node and parts of the pods that hold something."""
    return {
        pod["metadata"]["uid"]: (
            found.node,
            {name: (tuple(part["devices"]), part["share"], part["core"]) for name, part in found.containers.items()},
        )
        for pod in pods
        if _holds(pod) and (found := grant(pod)).containers
    }


def all_is_well(placing: Placing) -> list[Raw]:
    """No device twice, no share over its card, every record whole, and the service believes just that; all pods."""
    pods = placing.cluster.api.list("/api/v1/pods")
    nothing_is_sold_twice(placing.cluster.api, pods)
    chips_are_single(pods)
    records_are_whole(pods, placing.cluster.api.list(INVENTORIES))
    the_ledger_is_true(placing)
    return pods


def nothing_is_sold_twice(api: Api, pods: Iterable[Raw]) -> None:
    """A whole device has one pod, and the parts of a shared one are no more than it has."""
    cards, wrong = _cards(api), []
    by_device: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims(pods):
        by_device.setdefault((claim.node, claim.device), []).append(claim)
    for (node, device), found in by_device.items():
        wrong += [f"{node} has no {device}: {found}"] if device not in cards.get(node, {}) else []
        if any(not (claim.share or claim.core) for claim in found):
            wrong += [f"{device} of {node} has several pods: {found}"] if len(found) > 1 else []
            continue
        room = 100 if found[0].mode == "percent" else cards.get(node, {}).get(device, 0)
        total, core = sum(claim.share for claim in found), sum(claim.core for claim in found)
        wrong += [f"{device} of {node} has {room} and gave {total}, and {core} %: {found}"] * (
            total > room or core > 100
        )
    _safe(wrong)


def chips_are_single(pods: Iterable[Raw]) -> None:
    """By Huawei's annotation alone, which its device plugin reads: no chip has two pods, and our record says the same."""
    wrong: list[str] = []
    by_chip: dict[tuple[str, str], list[str]] = {}
    for pod in pods:
        text = _annotations(pod).get(CHIPS, "")
        if not text or not _holds(pod):
            continue
        found = text.split(",")
        for chip in found:
            by_chip.setdefault((pod["spec"]["nodeName"], chip), []).append(_name(pod))
        recorded = [device.replace("#", "Ascend910-") for device in grant(pod).devices]
        wrong += [f"{_name(pod)} has {text} by annotation and {recorded} by its record"] * (
            bool(recorded) and sorted(recorded) != sorted(found)
        )
    wrong += [
        f"{chip} of {node} has several pods: {names}" for (node, chip), names in by_chip.items() if len(names) > 1
    ]
    _safe(wrong)


def records_are_whole(pods: Iterable[Raw], inventories: Iterable[Raw]) -> None:
    """Every bound pod that asked for devices has a record of its own, of its node, with what it asked for."""
    places: Places = {
        inventory["metadata"]["name"]: {device["uuid"]: device["index"] for device in inventory["spec"]["devices"]}
        for inventory in inventories
    }
    wrong = [f"{_name(pod)}: {sentence}" for pod in pods if _holds(pod) and (sentence := _lacks(pod, places))]
    _safe(wrong)


def the_ledger_is_true(placing: Placing, seconds: float = SECONDS) -> None:
    """What the service holds for whom is what the API objects say, no more and no less, as soon as it has seen them."""

    def equal() -> bool:
        entries = placing.entries()
        must(not any("purpose" in entry for entry in entries), "devices are kept free for a pod")
        offers = {entry["grant"]["pod"]: entry["grant"]["offer"] for entry in entries}
        believed = {uid: (offer["node"], _parts(offer)) for uid, offer in offers.items()}
        written = held(placing.cluster.api.list("/api/v1/pods"))
        states = {entry["grant"]["pod"]: entry["state"] for entry in entries}
        for uid in believed.keys() | written.keys():
            mine, theirs = believed.get(uid), written.get(uid)
            must(mine == theirs, f"pod {uid} ({states.get(uid)}): the service has {mine}, the pod says {theirs}")
        return True

    try:
        wait_for(equal, seconds, "the ledger is what the API objects say")
    except AssertionError as error:
        raise UnsafeError(str(error)) from error


def _safe(wrong: Iterable[str]) -> None:
    if sentences := "\n".join(wrong):
        raise UnsafeError(sentences)


def _cards(api: Api) -> dict[str, dict[str, int]]:
    """By node, the memory of its devices by id: in the node's unit where parts are given by memory."""
    found: dict[str, dict[str, int]] = {}
    for node in api.list("/api/v1/nodes"):
        # A faulty chip is not allocatable, and may be any of those that the node has.
        amounts = node["status"]["capacity" if CHIPS in node["status"]["capacity"] else "allocatable"]
        count = int(amounts.get("aliyun.com/gpu-count", 0)) or max(int(amounts.get(name, 0)) for name in WHOLE)
        each = int(amounts.get(MEMORY, 0)) // max(1, count)
        found[node["metadata"]["name"]] = {f"#{index}": each for index in range(count)}
    for inventory in api.list(INVENTORIES):
        cards = {device["uuid"]: int(device["memory"]) for device in inventory["spec"]["devices"] if device["healthy"]}
        found[inventory["metadata"]["name"]] = cards
    path = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
    for report in api.list(path) if api.answers(path) else ():
        cards = {card["id"]: 100 for card in report["spec"]["devices"] if card["health"]}
        found.setdefault(report["metadata"]["name"], {}).update(cards)
    return found


def _holds(pod: Raw) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in FINISHED


def _lacks(pod: Raw, places: Places) -> str:
    """What is wrong with the record of a bound pod; empty if nothing is."""
    asked = _asked(pod)
    if not asked:
        return "it asked for nothing and has a record" if GRANT in _annotations(pod) else ""
    if GRANT not in _annotations(pod):
        return f"it asked for {asked} and has no record"
    record, found = _record(pod), grant(pod)
    if (record["pod"], record["node"]) != (pod["metadata"]["uid"], found.node):
        return f"the record is that of {record['pod']} on {record['node']}"
    return "; ".join(filter(None, (_short(found, name, amount, places) for name, amount in asked.items())))


def _short(found: Granted, name: str, amount: int, places: Places) -> str:
    """How what a pod was given differs from what it asked for under one name; empty if it does not."""
    given = [part for part in found.containers.values() for _ in part["devices"]]
    fits = True
    if name in WHOLE:
        fits = len(found.devices) == len(given) == amount and not any(part["share"] for part in given)
    elif name == MEMORY:
        fits = [part["share"] for part in given] == [amount] and _gpushare(found, amount, places)
    else:
        fits = "topology.scheduling.koordinator.sh/gpu" in found.annotations
        fits = fits and (name != PERCENT or sum(part["share"] or 100 for part in given) == amount)
    return "" if fits else f"it asked for {amount} of {name} and has {given} by {dict(found.annotations)}"


def _gpushare(found: Granted, amount: int, places: Places) -> bool:
    """Whether gpushare's own keys are there, and its plugin reads from them the card of our record."""
    keys = {name: found.annotations.get(f"ALIYUN_COM_GPU_MEM_{name}") for name in ("IDX", "POD", "DEV", "ASSUME_TIME")}
    (device,) = found.devices
    # Which card that was is unknown once its node is gone.
    card = device.removeprefix("#") if device.startswith("#") else places.get(found.node, {}).get(device, keys["IDX"])
    return all(keys.values()) and keys["POD"] == str(amount) and keys["IDX"] == str(card)


def _asked(pod: Raw) -> dict[str, int]:
    """Devices, memory or percents by resource; bytes of memory are not counted."""
    found: dict[str, int] = {}
    for container in pod["spec"]["containers"]:
        for name, amount in (container.get("resources", {}).get("limits") or {}).items():
            if name in {*WHOLE, MEMORY} or name.startswith(PERCENT):
                found[name] = found.get(name, 0) + (int(amount) if amount.isdecimal() else 0)
    return found


def _parts(offer: Mapping[str, list[Raw]]) -> Parts:
    return {
        part["container"]: (tuple(part["devices"]), part.get("share", 0), part.get("core", 0))
        for part in offer.get("parts", ())
    }


def _record(pod: Raw) -> Raw:
    return dict(json.loads(_annotations(pod).get(GRANT, '{"mode": ""}')))


def _annotations(pod: Raw) -> Mapping[str, str]:
    return pod["metadata"].get("annotations") or {}


def _name(pod: Raw) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
