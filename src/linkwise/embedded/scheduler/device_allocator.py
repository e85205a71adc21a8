"""Allocates devices of ResourceSlices to ResourceClaims: the first that fit, as kube-scheduler's structured allocator does.

Nothing is scored, and links are unknown. Requests are served in order, devices are tried in the order of their slices, and
alternatives in theirs; what does not fit together is undone. The search ends after a number of steps.

Devices that allow several allocations are allocated once: capacities are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from linkwise.dialects.kubernetes.claims.pools import current_slices, pool_problem
from linkwise.dialects.kubernetes.claims.selectors import selects
from linkwise.dialects.pod_resources import quantity
from linkwise.errors import LinkwiseError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from decimal import Decimal

    from linkwise.dialects.kubernetes.claims.objects import DeviceName, Slice, SliceDevice
    from linkwise.embedded.storage.collection import Raw

__all__ = [
    "AllocationError",
    "ClaimSpec",
    "Pool",
    "PoolDevice",
    "PublishedSlice",
    "Result",
    "allocate",
    "allocation_document",
    "claim_spec",
]

_BLOCKING: Final = ("NoSchedule", "NoExecute")
_MAX_STEPS: Final = 20_000


class AllocationError(LinkwiseError):
    """Claims that can't be allocated on any node."""


@dataclass(frozen=True, slots=True)
class PublishedSlice:
    """A ResourceSlice, with what only allocation reads of it."""

    slice: Slice
    node_selector: Raw | None
    """of the nodes that have access, if the slice names no node"""
    taints: Mapping[str, Sequence[Raw]]
    """by device"""


@dataclass(frozen=True, slots=True)
class PoolDevice:
    """A device of a pool."""

    name: DeviceName
    device: SliceDevice
    taints: Sequence[Raw]
    node: str
    """the only node that has access; empty for several"""
    node_selector: Raw | None


class Pool:
    """The current slices of a pool.

    The devices of a class are selected once.
    """

    def __init__(self, slices: Iterable[PublishedSlice]) -> None:
        published = {each.slice.name: each for each in slices}
        current = current_slices(each.slice for each in published.values())
        self.problem: Final = pool_problem(current)
        self.devices: Final = tuple(
            PoolDevice(
                (each.driver, each.pool, device.name),
                device,
                published[each.name].taints.get(device.name, ()),
                each.node or device.node,
                published[each.name].node_selector,
            )
            for each in current
            for device in each.devices
        )
        self.counters: Final = {
            (each.pool, name, counter): quantity(amount) for each in current for name, counter, amount in each.counters
        }
        self._selected: dict[tuple[str, ...], tuple[PoolDevice, ...]] = {}

    def selected(self, selectors: tuple[str, ...]) -> tuple[PoolDevice, ...]:
        """The devices for which all expressions are true; AllocationError if one can't be evaluated."""
        if selectors not in self._selected:
            self._selected[selectors] = tuple(each for each in self.devices if _is_selected(selectors, each))
        return self._selected[selectors]


@dataclass(frozen=True, slots=True)
class _Request:
    """A request of a claim, or one of its alternatives."""

    name: str
    class_name: str
    selectors: tuple[str, ...]
    count: int
    """0 for all devices"""
    tolerations: Sequence[Raw]
    admin: bool


@dataclass(frozen=True, slots=True)
class _Constraint:
    requests: tuple[str, ...]
    """empty for all"""
    attribute: str
    distinct: bool

    def applies_to(self, request: str) -> bool:
        """Whether the devices of a request or of an alternative must meet it."""
        return not self.requests or request in self.requests or request.partition("/")[0] in self.requests


@dataclass(frozen=True, slots=True)
class ClaimSpec:
    """What a claim requests."""

    requests: tuple[tuple[_Request, ...], ...]
    """the alternatives of each request"""
    constraints: tuple[_Constraint, ...]

    @property
    def classes(self) -> list[tuple[str, str]]:
        """Each request with its class."""
        return [(each.name, each.class_name) for alternatives in self.requests for each in alternatives]


Result = tuple[_Request, PoolDevice]
"""a request and one of its devices"""


def claim_spec(document: Raw) -> ClaimSpec:
    """Read the spec of a ResourceClaim, which the API server has validated."""
    devices: Raw = (document.get("spec") or {}).get("devices") or {}
    return ClaimSpec(
        tuple(_alternatives(request) for request in devices.get("requests") or ()),
        tuple(
            _Constraint(
                tuple(each.get("requests") or ()),
                each.get("matchAttribute") or each.get("distinctAttribute") or "",
                "matchAttribute" not in each,
            )
            for each in devices.get("constraints") or ()
        ),
    )


def allocate(
    claims: Sequence[ClaimSpec],
    pools: Sequence[Pool],
    classes: Mapping[str, tuple[str, ...]],
    has_access: Callable[[PoolDevice], bool],
    used: Collection[DeviceName],
) -> list[list[Result]] | None:
    """Allocate devices of one node.

    Args:
        claims: none of them is allocated.
        pools: those that the node has access to.
        classes: the selectors of all classes.
        has_access: whether the node has access to a device.
        used: devices that are allocated already.

    Returns:
        The devices of each claim; None if not all claims can be allocated.
    """
    search = _Search(claims, pools, classes, has_access, used)
    return search.results() if search.request(0) else None


def allocation_document(results: Sequence[Result], node: str, now: str) -> Raw:
    """The allocation of a claim as the API has it."""
    listed: list[Raw] = []
    for request, device in results:
        driver, pool, name = device.name
        result: Raw = {"request": request.name, "driver": driver, "pool": pool, "device": name}
        if request.admin:
            result["adminAccess"] = True
        if request.tolerations:
            result["tolerations"] = list(request.tolerations)
        listed.append(result)
    allocation: Raw = {"devices": {"results": listed} if listed else {}, "allocationTimestamp": now}
    if any(device.node for _, device in results):
        fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": fields}]}
    elif terms := [device.node_selector["nodeSelectorTerms"][0] for _, device in results if device.node_selector]:
        keys = ("matchExpressions", "matchFields")
        merged = {key: [entry for term in terms for entry in term.get(key) or ()] for key in keys}
        term = {key: entries for key, entries in merged.items() if entries}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [term]}
    return allocation


class _Search:
    """Depth-first search over requests, alternatives and devices."""

    def __init__(
        self,
        claims: Sequence[ClaimSpec],
        pools: Sequence[Pool],
        classes: Mapping[str, tuple[str, ...]],
        has_access: Callable[[PoolDevice], bool],
        used: Collection[DeviceName],
    ) -> None:
        self._claims, self._classes = claims, classes
        self._pools = [pool for pool in pools if not pool.problem]
        self._has_access = has_access
        self._tasks = [(number, each) for number, claim in enumerate(claims) for each in claim.requests]
        self._used = used
        self._own: set[DeviceName] = set()
        self._taken: list[tuple[int, _Request, PoolDevice]] = []
        self._left: dict[tuple[str, str, str], Decimal] = {}
        for pool in self._pools:
            self._left |= pool.counters
            if pool.counters:
                for device in pool.devices:
                    if device.name in self._used:
                        self._consume(device, 1)
        self._steps = _MAX_STEPS

    def results(self) -> list[list[Result]]:
        """The devices of each claim."""
        return [
            [(request, device) for each, request, device in self._taken if each == number]
            for number in range(len(self._claims))
        ]

    def request(self, index: int) -> bool:
        """Serve the requests from this one on."""
        if index == len(self._tasks):
            return True
        number, alternatives = self._tasks[index]
        return any(self._serve(index, number, each) for each in alternatives)

    def _serve(self, index: int, number: int, request: _Request) -> bool:
        selectors = (*self._classes[request.class_name], *request.selectors)
        devices = [each for pool in self._pools for each in pool.selected(selectors) if self._has_access(each)]
        if request.count:
            return self._choose(index, number, request, devices, 0, request.count)
        return bool(devices) and self._choose(index, number, request, devices, 0, len(devices))

    def _choose(  # noqa: PLR0913, PLR0917 - the state of the search
        self, index: int, number: int, request: _Request, devices: Sequence[PoolDevice], start: int, count: int
    ) -> bool:
        """Take this many of the devices from a position on, and serve the requests after this one."""
        if not count:
            return self.request(index + 1)
        for place in range(start, len(devices) - count + 1):
            self._steps -= 1
            if self._steps < 0:
                return False
            if self._take(number, request, devices[place]):
                if self._choose(index, number, request, devices, place + 1, count - 1):
                    return True
                self._give_back()
        return False

    def _take(self, number: int, request: _Request, device: PoolDevice) -> bool:
        if not request.admin:
            needs = ((key, amount) for key, amount in _consumed(device))
            taken = device.name in self._used or device.name in self._own
            if taken or any(self._left.get(key, quantity("0")) < amount for key, amount in needs):
                return False
        if not _tolerates(request.tolerations, device.taints) or not self._meets(number, request, device):
            return False
        self._taken.append((number, request, device))
        if not request.admin:
            self._own.add(device.name)
            self._consume(device, 1)
        return True

    def _give_back(self) -> None:
        _, request, device = self._taken.pop()
        if not request.admin:
            self._own.discard(device.name)
            self._consume(device, -1)

    def _consume(self, device: PoolDevice, times: int) -> None:
        for key, amount in _consumed(device):
            if key in self._left:
                self._left[key] -= times * amount

    def _meets(self, number: int, request: _Request, device: PoolDevice) -> bool:
        """Whether a device meets the constraints of its claim, beside the devices taken so far."""
        for constraint in self._claims[number].constraints:
            if not constraint.applies_to(request.name):
                continue
            value = device.device.attribute(constraint.attribute)
            others = [
                taken.device.attribute(constraint.attribute)
                for each, earlier, taken in self._taken
                if each == number and constraint.applies_to(earlier.name)
            ]
            if value is None or any((other == value) == constraint.distinct for other in others):
                return False
        return True


def _alternatives(request: Raw) -> tuple[_Request, ...]:
    if "exactly" in request:
        return (_request(request["name"], request["exactly"]),)
    return tuple(_request(f"{request['name']}/{each['name']}", each) for each in request["firstAvailable"])


def _request(name: str, body: Raw) -> _Request:
    return _Request(
        name,
        body["deviceClassName"],
        tuple(each["cel"]["expression"] for each in body.get("selectors") or ()),
        0 if body["allocationMode"] == "All" else body["count"],
        tuple(body.get("tolerations") or ()),
        body.get("adminAccess") is True,
    )


def _is_selected(selectors: Iterable[str], device: PoolDevice) -> bool:
    for expression in selectors:
        verdict = selects(expression, device.name[0], device.device)
        if verdict is None:
            raise AllocationError(f"this cluster can't evaluate the selector {expression!r}")
        if not verdict:
            return False
    return True


def _consumed(device: PoolDevice) -> list[tuple[tuple[str, str, str], Decimal]]:
    pool = device.name[1]
    return [((pool, name, counter), quantity(amount)) for name, counter, amount in device.device.consumes]


def _tolerates(tolerations: Iterable[Raw], taints: Iterable[Raw]) -> bool:
    return all(
        taint.get("effect") not in _BLOCKING or any(_matches(toleration, taint) for toleration in tolerations)
        for taint in taints
    )


def _matches(toleration: Raw, taint: Raw) -> bool:
    same_value: Any = toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
    return (
        toleration.get("effect", "") in {"", taint.get("effect")}
        and toleration.get("key", "") in {"", taint.get("key")}
        and bool(same_value)
    )
