"""Ascend dialect: whole NPU chips by Huawei's resource names, and the annotations that name a pod's chips.

Source: seed 003, steps 3 and 4 of the algorithm; contract ascend, sections 1 to 5 and 8. A list names the chips of a
pod, not those of each container: read again, containers get theirs in the order of the pod, ascending, as `#index`.
Policy, plan and generation are not held, and devices lose their UUIDs.

Source: contract ascend, section 3. Huawei's device plugin writes them after the kubelet has allocated the chips.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.dialects.ascend.node import DEVICE_INFO, PROFILES, TYPE_LABEL, node_facts
from linkwise.dialects.ascend.rank_table import (
    DETAILS,
    RANK_KEYS,
    VENDOR,
    ChipDetails,
    Ranks,
    Server,
    chip_names,
    chip_number,
    chip_numbers,
    rank_key,
    rank_text,
    shown,
)
from linkwise.dialects.dialect import Advertised, DefaultPolicies, Dialect, Held, SourcePriority, where_pod
from linkwise.dialects.pod_resources import by_container, resources_of
from linkwise.errors import InputError
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.verdict import Grant, Offer, Part, Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from linkwise.dialects.dialect import Writing
    from linkwise.model.inventory import NodeFacts
    from linkwise.model.views import NodeView, PodView


__all__ = ["CONSUMED", "KUBELET", "PREDICATE_TIME", "REAL", "Ascend", "requested_chips", "served_annotations"]

REAL: Final = "huawei.com/AscendReal"
KUBELET: Final = "huawei.com/kltDev"
PREDICATE_TIME: Final = "predicate-time"
POLICY: Final = "huawei.com/schedule_policy"
SKIP: Final = "huawei.com/skip-ascend-plugin"

CONSUMED: Final = 18446744073709551615
"""what the device plugin sets `predicate-time` to once it has served the pod"""

_OWN_PLUGIN: Final = frozenset(f"huawei.com/{word}" for word in ("Ascend910", "npu", "Ascend310", "Ascend310P"))
_PARTS: Final = re.compile(
    r"huawei\.com/(?:npu-core|Ascend(?:310P|910)-[0-9]+c(?:\.[0-9a-z]+)*|Ascend[0-9A-Z]+-(?:memory|core))"
)
_RECORD: Final = (REAL, KUBELET, PREDICATE_TIME, *PROFILES, *RANK_KEYS)
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_NUMBERED: Final = re.compile(r"#(0|[1-9][0-9]{0,3})")
_TIME: Final = re.compile(r"[0-9]{1,20}")
_RESOURCES: Final = {"ascend-910": "huawei.com/Ascend910", "ascend-910b": "huawei.com/Ascend910B3"}
_ASTRAY: Final = "the list names chips that no container requests; it is ignored: remove it"


class Ascend(Dialect):
    """Huawei's chips, in the API of its scheduler plug-in and device plugin."""

    name = "ascend"
    vendor = "ascend"
    resources = tuple(PROFILES)
    whole_devices = frozenset(PROFILES)
    domains = frozenset({"huawei.com", TYPE_LABEL, "accelerator", "ConfigMap"})
    inventories = (DEVICE_INFO, *DETAILS)
    records = _RECORD
    resource_pattern = record_pattern = _PARTS.pattern
    priority = SourcePriority.LISTED
    policies = DefaultPolicies("ring-affinity", "ring-affinity")
    plugin_maps_ids = True
    scheduler_note = (
        "Huawei Ascend. The names of vNPU slices are too many to list; Huawei's device plugin accounts for them."
    )

    def owns(self, resource: str) -> bool:
        """Whole chips, and parts of chips, so that a request for a part is refused with a reason."""
        return resource in PROFILES or _PARTS.fullmatch(resource) is not None

    def ask(self, pod: PodView) -> Ask | Problem | None:
        """Number of chips of each container, and the hardware profile."""
        if pod.annotations.get(SKIP) == "enabled":
            return None
        wanted = _wanted(pod)
        if not isinstance(wanted, _Wanted):
            return wanted
        containers = tuple(ContainerAsk(name, devices=count) for name, count in wanted.amounts.items())
        return Ask(wanted.resource, containers, pod.namespace, _profile(pod, wanted.resource))

    def held(self, pod: PodView) -> Held:
        """The chips that the device plugin mounted, or else those that the scheduler chose."""
        listed = [key for key in (REAL, *PROFILES) if pod.annotations.get(key, "").strip()]
        if pod.phase in _FINISHED or not listed:
            return Held(None)
        wanted = _wanted(pod)
        if isinstance(wanted, Problem):
            return Held(None, (wanted,))
        resources = {REAL, wanted.resource} if wanted else set()
        astray = [_problem(pod, key, _ASTRAY) for key in listed if key not in resources]
        if wanted is None:
            return Held(None, tuple(astray))
        chips, problems = _believed(pod, wanted)
        parts = _dealt(chips, wanted.amounts)
        grant = Grant(pod.uid, "", Offer(pod.node, parts)) if parts else None
        return Held(grant, (*astray, *problems, *_time_problem(pod)))

    def write(self, writing: Writing) -> dict[str, str]:
        """The list of chips, and when it was chosen: the plugin serves the oldest first.

        Raises:
            InputError: the grant names a device that the node does not have.
        """
        wanted, devices = _wanted(writing.pod), writing.grant.offer.devices
        if not isinstance(wanted, _Wanted) or not devices:
            return {}
        resource = wanted.resource
        numbers = {_number(device, resource, writing) for device in devices}
        # rule 003.record: the chosen chips under the resource's own name, ascending, with commas and no blanks.
        chips = chip_names(numbers, resource)
        written = {resource: chips, PREDICATE_TIME: str(writing.now)}
        # The plugin reads no list if a pod uses the whole node, so the devices to mount are written for it.
        whole = numbers == {device.index for device in writing.devices.values()}
        return {**written, REAL: chips} if whole and resource in _OWN_PLUGIN else written

    def cleared(self, pod: PodView) -> dict[str, str]:
        """Empty texts, which are lists of no chips; the plugin writes its own keys again when it mounts chips."""
        texts = pod.annotations.items()
        return {key: "" for key, text in texts if text and (key in _RECORD or _PARTS.fullmatch(key))}

    def node(self, view: NodeView, objects: Mapping[str, Mapping[str, object]]) -> NodeFacts | None:
        """The node's chips as the device plugin reports them."""
        return node_facts(view, objects)

    def resource_for(self, names: Collection[str]) -> str:
        """The resource in the names of chips, `Ascend310P-0`; without such names that of the 910."""
        words = {name.rpartition("-")[0] for name in names}
        resources = [f"{VENDOR}{word}" for word in words if f"{VENDOR}{word}" in _OWN_PLUGIN]
        return resources[0] if len(words) == 1 and resources else "huawei.com/Ascend910"

    def advertised(self, count: int, model: str, hardware: str) -> Advertised:
        """The resource of the hardware profile, and the label by which 910 nodes of modules are known."""
        del model
        labels = {TYPE_LABEL: "module"} if hardware == "ascend-910" else {}
        return Advertised({_RESOURCES.get(hardware, "huawei.com/Ascend910"): str(count)}, labels)


def requested_chips(pod: PodView) -> str:
    """The resource of the chips that a pod requests; empty if it requests none that Huawei's device plugin serves."""
    wanted = _wanted(pod)
    return wanted.resource if isinstance(wanted, _Wanted) and wanted.resource in _OWN_PLUGIN else ""


@dataclass(frozen=True, slots=True)
class _Wanted:
    resource: str
    amounts: Mapping[str, int]
    """chips of each container, in the order of the pod"""


def served_annotations(
    pod: PodView, numbers: Collection[int], addresses: Mapping[int, str], server: str
) -> dict[str, str]:
    """The annotations of a pod all of whose containers have chips, as far as they differ from those it has.

    Args:
        pod: as the API server has it.
        numbers: of the chips that its containers have, and that the kubelet has allocated.
        addresses: IP addresses of chips by number; without those of all its chips there is no entry for a rank table.
        server: IP address of the node.
    """
    resource = requested_chips(pod)
    if not resource or not numbers:
        return {}
    # rule 003.record: what is mounted, under Huawei's own keys.
    chips = chip_names(numbers, resource)
    desired = {REAL: chips, KUBELET: chips}
    if pod.annotations.get(PREDICATE_TIME):
        desired[PREDICATE_TIME] = str(CONSUMED)
    if server and all(addresses.get(number) for number in numbers):
        details = {number: ChipDetails(addresses[number]) for number in numbers}
        desired[rank_key(resource)] = rank_text(Ranks(pod.name, Server(server, host=server), details))
    return {key: text for key, text in desired.items() if pod.annotations.get(key) != text}


def _wanted(pod: PodView) -> _Wanted | Problem | None:
    """The one kind of chip that the pod requests."""
    kinds: list[_Wanted] = []
    for resource in resources_of(pod):
        try:
            amounts = _amounts(pod, resource)
        except InputError as error:
            return _problem(pod, resource, str(error))
        except ValueError:
            odd = "the amounts of the containers do not add up; name each container once, and remove the overhead"
            return _problem(pod, resource, odd)
        if amounts:
            kinds.append(_Wanted(resource, amounts))
    if any(kind.resource not in PROFILES for kind in kinds):
        part = next(kind.resource for kind in kinds if kind.resource not in PROFILES)
        return _problem(pod, part, "parts of a chip (vNPU) are not supported; request whole chips")
    if len(kinds) > 1:
        names = " and ".join(kind.resource for kind in kinds)
        return _problem(pod, kinds[1].resource, f"the pod asks for {names}; request one kind of chip")
    return kinds[0] if kinds else None


def _amounts(pod: PodView, resource: str) -> dict[str, int]:
    if resource not in PROFILES and not _PARTS.fullmatch(resource):
        return {}
    amounts = by_container(pod, resource)
    return {container.name: amounts[container.name] for container in pod.containers if container.name in amounts}


def _problem(pod: PodView, key: str, sentence: str) -> Problem:
    return Problem(where_pod(pod), key, sentence)


def _profile(pod: PodView, resource: str) -> str:
    return pod.node_selector.get(TYPE_LABEL) or pod.annotations.get(POLICY) or PROFILES[resource]


def _believed(pod: PodView, wanted: _Wanted) -> tuple[tuple[int, ...], tuple[Problem, ...]]:
    """The chips the pod has: mounted ones in any case, chosen ones only if their number is right."""
    resource, count = wanted.resource, sum(wanted.amounts.values())
    problems: list[Problem] = []
    lists: dict[str, tuple[int, ...]] = {}
    for key in (REAL, resource):
        try:
            lists[key] = chip_numbers(pod.annotations.get(key, ""), resource)
        except InputError as error:
            problems.append(_problem(pod, key, f"{error}; the list is ignored"))
            continue
        if lists[key] and len(lists[key]) != count:
            other = f"{len(lists[key])} chips are listed and {count} are requested; check what wrote the list"
            problems.append(_problem(pod, key, other))
    real, chosen = lists.get(REAL), lists.get(resource)
    if real and chosen and real != chosen:
        differ = f"{chip_names(real, resource)} are mounted and {chip_names(chosen, resource)} were chosen"
        problems.append(_problem(pod, REAL, f"{differ}; what is mounted counts"))
    fitting = chosen if chosen and len(chosen) == count else ()
    return real or fitting, tuple(problems)


def _dealt(chips: tuple[int, ...], amounts: Mapping[str, int]) -> tuple[Part, ...]:
    """The chips container by container; what is left over is the last one's."""
    parts: list[Part] = []
    left = [f"#{chip}" for chip in chips]
    for number, (name, count) in enumerate(amounts.items(), start=1):
        mine = tuple(left if number == len(amounts) else left[:count])
        left = left[len(mine) :]
        parts += [Part(name, mine)] if mine else []
    return tuple(parts)


def _time_problem(pod: PodView) -> list[Problem]:
    text = pod.annotations.get(PREDICATE_TIME, "0")
    if _TIME.fullmatch(text):
        return []
    return [
        _problem(pod, PREDICATE_TIME, f"{shown(text)} is not a time in nanoseconds; the device plugin skips the pod")
    ]


def _number(device: str, resource: str, writing: Writing) -> int:
    """The number of a device's chip: by its index on the node, or by a name that holds the number."""
    if device in writing.devices:
        return writing.devices[device].index
    if match := _NUMBERED.fullmatch(device):
        return int(match[1])
    try:
        return chip_number(device, resource)
    except InputError as error:
        raise InputError(f"{shown(device)} is not a device of node {writing.grant.offer.node}") from error
