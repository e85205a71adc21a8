"""GPU share dialect: memory of one device, with the device's index written on the pod.

Source: seed 004. The keys hold one index and amounts, not the device's UUID, nor a grant's policy, score, plan and
generation; what each container holds is in the pod's spec.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from linkwise.dialects.dialect import DefaultPolicies, Dialect, Held, SourcePriority, where_node, where_pod
from linkwise.dialects.pod_resources import amount, by_container, resources_of, whole_quantity
from linkwise.errors import InputError
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.device import Device
from linkwise.model.inventory import NodeFacts
from linkwise.model.topology import MAX_DEVICES
from linkwise.model.verdict import Grant, Offer, Part, Problem

if TYPE_CHECKING:
    from linkwise.dialects.dialect import Writing
    from linkwise.model.node import Mode
    from linkwise.model.views import NodeView, PodView

__all__ = ["COUNT", "MEMORY", "Aliyun", "environment"]

MEMORY: Final = "aliyun.com/gpu-mem"
COUNT: Final = "aliyun.com/gpu-count"

INDEX: Final = "ALIYUN_COM_GPU_MEM_IDX"
DEVICE: Final = "ALIYUN_COM_GPU_MEM_DEV"
POD: Final = "ALIYUN_COM_GPU_MEM_POD"
CONTAINER: Final = "ALIYUN_COM_GPU_MEM_CONTAINER"
ASSIGNED: Final = "ALIYUN_COM_GPU_MEM_ASSIGNED"
ASSUME_TIME: Final = "ALIYUN_COM_GPU_MEM_ASSUME_TIME"
ASSIGN_TIME: Final = "ALIYUN_COM_GPU_MEM_ASSIGN_TIME"
ALLOCATION: Final = "scheduler.framework.gpushare.allocation"

EXPECTED: Final = {  # what each annotation looks like, and what it says
    INDEX: (r"[0-9]{1,9}", "the index of one device"),
    DEVICE: (r"[0-9]{1,18}", "the memory of the device"),
    POD: (r"[0-9]{1,18}", "the memory given to the pod"),
    ASSIGNED: ("true|false", "true or false"),
    ASSUME_TIME: (r"[0-9]{1,20}", "nanoseconds since 1970"),
}

RECORD: Final = (*EXPECTED, ASSIGN_TIME, ALLOCATION)
"""annotations of an allocation; the plugin and the tools read an empty one as missing"""

LABELS: Final = ("gpushare", "cgpu.disable.isolation")
FINISHED: Final = ("Succeeded", "Failed")  # phases in which a pod holds nothing
LARGEST_GIB: Final = 100  # a device with more units is counted in MiB; the reference tool guesses the same way


class Aliyun(Dialect):
    """Parts of one device's memory, in the unit that the node's plugin counts in."""

    name = "aliyun"
    vendor = "nvidia"
    # rule 004.manifests: pods of its own manifests request the memory; a request for the count is refused.
    resources = (MEMORY, COUNT)
    domains = frozenset({"aliyun.com", *LABELS})
    records = RECORD
    priority = SourcePriority.SHARED
    policies = DefaultPolicies("memory-share", "memory-share")
    scheduler_note = "GPU sharing. Pods can't request gpu-count; those that do are refused with a reason."

    def ask(self, pod: PodView) -> Ask | Problem | None:
        """Memory of one device, by container."""
        if COUNT in resources_of(pod):
            return Problem(where_pod(pod), COUNT, f"nodes report it, pods can't request it: request {MEMORY} instead")
        try:
            shares = _shares(pod)
        except ValueError as error:
            return Problem(where_pod(pod), MEMORY, f"{error}; request memory in the unit of the nodes, such as 4")
        wanted = tuple(ContainerAsk(name, share=share) for name, share in shares.items())
        return Ask(MEMORY, wanted, pod.namespace, mode="share") if wanted else None

    def held(self, pod: PodView) -> Held:
        """The device by its index. Annotations on a pod that is not bound are ignored: its binding failed."""
        if pod.phase in FINISHED or not pod.node or not any(map(pod.annotations.get, RECORD)):
            return Held(None)
        problems = _malformed(pod)
        parts = _allocation(pod, problems) or _indexed(pod, problems)
        grant = Grant(pod.uid, "", Offer(pod.node, parts), mode="share") if parts else None
        return Held(grant, tuple(problems))

    def write(self, writing: Writing) -> dict[str, str]:
        """The five annotations; nothing for a grant of other than a part of one device, which they can't hold."""
        offer = writing.grant.offer
        share = sum(part.share for part in offer.parts)
        if len(offer.devices) != 1 or not share:
            return {}
        device = writing.devices[offer.devices[0]]
        return {
            INDEX: str(device.index),
            DEVICE: str(device.memory),
            POD: str(share),
            ASSIGNED: "false",
            ASSUME_TIME: str(writing.now),
        }

    def cleared(self, pod: PodView) -> dict[str, str]:
        """Empty texts: no index, no allocation, and not a pod that the plugin is about to serve."""
        return {key: "" for key in RECORD if pod.annotations.get(key)}

    def node(self, view: NodeView, objects: Mapping[str, Mapping[str, object]]) -> NodeFacts | None:
        """Equal devices, as many as are counted, without those that the ConfigMap of unhealthy ones lists."""
        labels = {key: view.labels[key] for key in LABELS if key in view.labels}
        problems: list[Problem] = []
        total, count = (_capacity(view, resource, problems) for resource in (MEMORY, COUNT))
        if not (total or labels or problems):
            return None
        each = _each(view, total, count, problems)
        unhealthy = _unhealthy(view, objects, count, problems) if each else ()
        devices = tuple(
            Device(f"#{index}", index, memory=each, healthy=index not in unhealthy)
            for index in range(count if each else 0)
        )
        # rule 004.units: a node does not report its unit; the size of one device determines it.
        unit = ("MiB" if each > LARGEST_GIB else "GiB") if each else ""
        mode: Mode = "share" if total else "any"
        return NodeFacts(self.name, devices, None, "", mode, unit, labels, problems=tuple(problems))


def environment(grant: Grant, ids: int, devices: Mapping[str, Device], *, isolated: bool = True) -> dict[str, str]:
    """Environment of a container of `ids` units; `isolated` is false where the node's label disables cGPU."""
    device = devices[grant.offer.devices[0]]
    pod = sum(part.share for part in grant.offer.parts)
    amounts = {INDEX: device.index, POD: pod, CONTAINER: ids, DEVICE: device.memory}
    return {name: str(value) for name, value in amounts.items()} | ({} if isolated else {"CGPU_DISABLE": "true"})


def _shares(pod: PodView) -> dict[str, int]:
    """Memory of each container, in the order of the pod."""
    shares = by_container(pod, MEMORY)
    return {container.name: shares[container.name] for container in pod.containers if container.name in shares}


def _fits(key: str, text: str) -> bool:
    return re.fullmatch(EXPECTED[key][0], text) is not None


def _malformed(pod: PodView) -> list[Problem]:
    problems = []
    for key, (_, meaning) in EXPECTED.items():
        text = pod.annotations.get(key) or None
        missing = text is None and key == INDEX and not pod.annotations.get(ALLOCATION)
        if missing or (text is not None and not _fits(key, text)):
            problem = "it is missing and the device not known" if text is None else f"{text[:40]!r} is not {meaning}"
            problems.append(Problem(where_pod(pod), key, f"{problem}; delete the pod, so that it is placed again"))
    return problems


def _allocation(pod: PodView, problems: list[Problem]) -> tuple[Part, ...]:
    """The newer form, container by container; nothing if it is missing, empty or broken."""
    try:
        parts = _allocated(pod, json.loads(pod.annotations.get(ALLOCATION) or "{}"))
    except (ValueError, RecursionError) as error:
        cause = str(error) if isinstance(error, InputError) else "it is not valid JSON"
        sentence = f"{cause}; {{container index: {{device index: memory}}}} is expected, {INDEX} is used instead"
        problems.append(Problem(where_pod(pod), ALLOCATION, sentence))
        return ()
    index = pod.annotations.get(INDEX, "")
    if parts and _fits(INDEX, index) and {part.devices for part in parts} != {(f"#{int(index)}",)}:
        problems.append(Problem(where_pod(pod), INDEX, f"{ALLOCATION} names other devices and is used"))
    return parts


def _allocated(pod: PodView, document: object) -> tuple[Part, ...]:
    names = {str(index): found.name for index, found in enumerate(found for found in pod.containers if not found.init)}
    parts = []
    for container, shares in _mapping(document).items():
        if container not in names:
            raise InputError(f"the pod has no container {container[:40]!r}")
        for index, share in _mapping(shares).items():
            if not _fits(INDEX, index) or type(share) is not int or share < 0:
                raise InputError(f"container {container} has no amount of a device")
            parts += [Part(names[container], (f"#{int(index)}",), share)] if share else []
    return tuple(parts)


def _mapping(document: object) -> dict[str, object]:
    if not isinstance(document, dict):
        raise InputError("an object is missing")
    return document


def _indexed(pod: PodView, problems: list[Problem]) -> tuple[Part, ...]:
    """The memory that the containers request, on the one device that is named."""
    index = pod.annotations.get(INDEX, "")
    if not _fits(INDEX, index):
        return ()
    try:
        shares = _shares(pod)
    except ValueError as error:
        problems.append(Problem(where_pod(pod), MEMORY, f"{error}; what the pod holds is not known"))
        return ()
    if not shares:
        problems.append(Problem(where_pod(pod), INDEX, f"no container requests {MEMORY}: remove the annotation"))
    _compare(pod, sum(shares.values()), problems)
    return tuple(Part(name, (f"#{int(index)}",), share) for name, share in shares.items())


def _compare(pod: PodView, total: int, problems: list[Problem]) -> None:
    """The pod's own record against its spec, which is what kubelet counts; the reference leaves init containers out."""
    written = pod.annotations.get(POD, "")
    running = sum(amount(container, MEMORY) for container in pod.containers if not container.init)
    if _fits(POD, written) and int(written) not in {total, running}:
        sentence = f"it is {int(written)} but the containers request {total}, which is used"
        problems.append(Problem(where_pod(pod), POD, sentence))


def _capacity(view: NodeView, resource: str, problems: list[Problem]) -> int:
    try:
        return whole_quantity(view.capacity.get(resource, "0"))
    except InputError as error:
        problems.append(Problem(where_node(view), resource, f"{error}; check the device plugin of this node"))
        return 0


def _each(view: NodeView, total: int, count: int, problems: list[Problem]) -> int:
    """Memory of one device; 0 if it can't be determined."""
    if not total:
        if view.labels.get("gpushare") == "true":
            sentence = f"the label enables sharing but the node reports no {MEMORY}; check the device plugin"
            problems.append(Problem(where_node(view), "gpushare", sentence))
        return 0
    if not 0 < count <= MAX_DEVICES:
        sentence = (
            f"{MEMORY} needs a count of 1 to {MAX_DEVICES} beside it: the devices are not known; check the plugin"
        )
        problems.append(Problem(where_node(view), COUNT, sentence))
        return 0
    # rule 004.units: a node's total is the sum of its devices, which are taken to be equal.
    each, rest = divmod(total, count)
    if rest:
        sentence = f"{total} is not {count} equal devices: {each} is counted for each, and unlike devices can't be distinguished"
        problems.append(Problem(where_node(view), MEMORY, sentence))
    return each


def _unhealthy(
    view: NodeView, objects: Mapping[str, Mapping[str, object]], count: int, problems: list[Problem]
) -> set[int]:
    key = f"ConfigMap/unhealthy-gpu-{view.name}"
    value: object = objects.get(key, {})
    data = (value.get("data") or {}) if isinstance(value, Mapping) else None
    text = data.get("gpus", "") if isinstance(data, Mapping) else None
    items = [item.strip() for item in text.split(",")] if isinstance(text, str) and text.strip() else []
    known = {str(index) for index in range(count)}
    bad = [item for item in items if item not in known]
    if not isinstance(text, str) or bad:
        shown = ", ".join(repr(item[:40]) for item in bad[:8]) or "data"
        sentence = f"{shown} names no device: indices from 0 to {count - 1}, with commas between, are expected in gpus"
        problems.append(Problem(where_node(view), key, sentence))
    return {int(item) for item in items if item in known}
