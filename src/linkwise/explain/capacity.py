"""Capacity: how many pods of a size could be placed now, and what is too scattered for them.

Pods of one size are placed on each node one after the other, with the choice of devices that a bind would make, until the
node refuses. Nodes of one shape are tried once. A node's answer does not depend on other nodes, so the sum is the number of
pods that the scheduler would place. Nothing is reserved.

Fragmentation of a size is the part of what is free that pods of that size could not use, compared with empty and healthy
nodes, of which a part may be of no use either, as 2 of 22 GiB for pods of 5:

    1 - (pods / free) / (pods on empty nodes / total of these nodes)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from linkwise.dialects.registry import owners
from linkwise.engine.usage import node_after
from linkwise.model.node import FREE
from linkwise.model.verdict import Offer
from linkwise.model.views import ContainerView, PodView
from linkwise.policies.ring_profiles import known_profile
from linkwise.topology.rings import rings

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from linkwise.broker.broker import Broker
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.node import AskMode, Node
    from linkwise.model.views import NodeView

__all__ = ["CapacityRow", "capacity_rows"]

_PROBE: Final = "capacity"
"""name and UID of the pods that are tried"""
MAX_SIZE: Final = 64
"""devices of the largest pod that is tried"""


@dataclass(frozen=True, slots=True)
class CapacityRow:
    """Pods of one size, on the devices of one model."""

    resource: str
    model: str
    """empty if it is not known"""
    sharing: AskMode
    size: int
    """amount of the resource that a pod requests: devices, memory or percent"""
    unit: str
    """of the size: empty for devices"""
    pods: int
    """that could be placed now"""
    linked: int | None
    """of these, pods whose devices are all in one ring or one island of direct links; None for one device, or without link data"""
    nodes: int
    """on which at least one could be placed"""
    free: int
    """amount of the resource that is free, on nodes that accept pods"""
    total: int
    """amount of the resource of all nodes"""
    fragmentation: int
    """percent of what is free that pods of this size could use on empty and healthy nodes, and can't use now"""


@dataclass(slots=True)
class _Pool:
    """Nodes with devices of one model that serve one resource."""

    resource: str
    model: str
    whole: bool
    """whether the resource counts devices"""
    names: list[str] = field(default_factory=list)


def capacity_rows(
    broker: Broker, now: float, namespace: str, selects: Callable[[NodeView], bool] = lambda _: True
) -> list[CapacityRow]:
    """Return a row per resource, model and size, for pods of that namespace; `selects` limits the nodes."""
    state = broker.state_at(now)
    requests = _Requests(state, namespace)
    rows = (
        _row(state, pool, amount, query)
        for pool in _pools(state, requests, selects)
        for amount in _sizes(state, pool, requests)
        if (query := requests.query(pool.resource, amount))  # not every number can be requested of every hardware
    )
    return list(rows)


def _pools(state: State, requests: _Requests, selects: Callable[[NodeView], bool]) -> list[_Pool]:
    """Return pools by resource and model; a node is in one pool per sharing mode that it may still get."""
    cluster = state.cluster
    pools: dict[tuple[str, str], _Pool] = {}
    for name in state.pausing(sorted(cluster.inventories)):
        inventory, view = cluster.inventories.get(name), cluster.nodes.get(name)  # nodes may come and go in a pause
        if view is None or inventory is None or not inventory.devices or not selects(view):
            continue
        model = ", ".join(sorted({device.model for device in inventory.devices if device.model}))
        for resource, whole in _resources(state, inventory, view, requests):
            pools.setdefault((resource, model), _Pool(resource, model, whole)).names.append(name)
    return [pools[key] for key in sorted(pools)]


def _resources(
    state: State, inventory: NodeInventory, view: NodeView, requests: _Requests
) -> Iterator[tuple[str, bool]]:
    """Yield the resources by which devices of the node can be requested, one per sharing mode."""
    mode, modes = state.cluster.index.nodes[inventory.name].mode, set[str]()
    for resource in sorted(view.allocatable, key=_order):
        query = requests.query(resource, 1)
        if query is None or query.ask.in_bytes or query.ask.mode in modes or mode not in {"any", query.ask.mode}:
            continue
        if state.cluster.index.unserved(query, inventory.name) is None and view.allocatable[resource] != "0":
            modes.add(query.ask.mode)
            yield resource, bool(query.ask.devices)


@cache
def _order(resource: str) -> tuple[int, str]:
    """Sort the resources of a dialect as it lists them: the usual ones first."""
    places = [list(dialect.resources).index(resource) for dialect in owners(resource) if resource in dialect.resources]
    return min(places, default=MAX_SIZE), resource


@dataclass(frozen=True, slots=True)
class _Requests:
    """Requests of pods of one namespace, each read once."""

    state: State
    namespace: str
    _known: dict[tuple[str, int], Query | None] = field(default_factory=dict)

    def query(self, resource: str, amount: int) -> Query | None:
        """Return the query of a pod that requests this and nothing else; None if such a request is not valid."""
        if (resource, amount) not in self._known:
            self._known[resource, amount] = self._read(resource, str(amount)) if owners(resource) else None
        return self._known[resource, amount]

    def _read(self, resource: str, amount: str) -> Query | None:
        box = ContainerView(_PROBE, requests={resource: amount}, limits={resource: amount})
        pod = PodView(self.namespace, _PROBE, _PROBE, (box,))
        query = self.state.query(pod)
        self.state.access.forget(pod.uid)
        return None if query is None or query.policy.admit(query.ask) else query


def _sizes(state: State, pool: _Pool, requests: _Requests) -> list[int]:
    """Return the amounts to try: 1, 2, 4 ... devices, or a quarter, half and all of a device and its multiples."""
    nodes = [state.cluster.index.nodes[name] for name in pool.names]
    most = min(MAX_SIZE, max(len(node.devices) for node in nodes))
    powers = [1 << power for power in range(most.bit_length()) if 1 << power <= most]
    if pool.whole:
        return powers
    memory = max((device.memory for node in nodes for device in node.devices), default=0)
    sizes = sorted({memory // 4, memory // 2, memory} - {0})
    for count in powers[1:]:
        query = requests.query(pool.resource, memory * count)
        if query and query.ask.devices == count:
            sizes.append(memory * count)
    return sizes


def _row(state: State, pool: _Pool, amount: int, query: Query) -> CapacityRow:
    cluster = state.cluster
    known: dict[Hashable, tuple[int, int | None]] = {}
    pods, linked, used, free, total = 0, [], 0, 0, 0
    empty_pods, empty_total = 0, 0
    known_empty: dict[Hashable, tuple[int, int]] = {}
    """by build, the pods on an empty node and its total"""
    for name in state.pausing(pool.names):
        node, view = cluster.index.nodes[name], cluster.nodes[name]
        healthy = node.healthy()
        total += len(healthy) if pool.whole else sum(device.memory for device in healthy)
        if not view.ready or view.unschedulable or name in cluster.unready:
            continue
        free += _free(node, whole=pool.whole)
        build = (cluster.index.shape(name).build, node.mode, () if pool.whole else _memory(node))
        if build not in known_empty:
            empty = _empty(node)
            amount_of_all = _amount(empty, [device.id for device in empty.devices], whole=pool.whole)
            known_empty[build] = _placed(query, empty, cluster.inventories[name])[0], amount_of_all
        empty_pods += known_empty[build][0]
        empty_total += known_empty[build][1]
        key = _shape(state, query, node)
        if key not in known:
            known[key] = _placed(query, node, cluster.inventories[name])
        count, together = known[key]
        pods, used = pods + count, used + bool(count)
        linked.append(together)
    counted = [count for count in linked if count is not None]
    return CapacityRow(
        pool.resource,
        pool.model,
        query.ask.mode,
        amount,
        "" if pool.whole else cluster.inventories[pool.names[0]].unit,
        pods,
        sum(counted) if counted and query.ask.devices > 1 else None,
        used,
        free,
        total,
        _fragmentation(pods, free, empty_pods, empty_total),
    )


def _memory(node: Node) -> tuple[tuple[int, str], ...]:
    return tuple((device.memory, device.model) for device in node.devices)


def _empty(node: Node) -> Node:
    """Return the node without pods and faults."""
    devices = tuple(replace(device, healthy=True) for device in node.devices)
    return replace(node, devices=devices, used={}, unattributed=0, unattributed_share=0, unattributed_core=0)


def _fragmentation(pods: int, free: int, empty_pods: int, empty_total: int) -> int:
    """Return the percent of what is free that would be of use on empty nodes and is not."""
    if not (free and empty_pods):
        return 0
    return max(0, round(100 * (1 - pods * empty_total / (free * empty_pods))))


def _shape(state: State, query: Query, node: Node) -> Hashable:
    """Return what the answer of a node depends on."""
    shape = state.cluster.index.shape(node.name)
    if query.ask.requirement is not None:
        return node.name
    if query.ask.devices:
        return shape, query.ask.mode == "percent" and node.mode
    devices = tuple((device.memory, device.bytes, device.healthy, node.used.get(device.id)) for device in node.devices)
    return devices, node.mode, node.unattributed, node.unattributed_share, node.unattributed_core, node.steered


def _placed(query: Query, node: Node, inventory: NodeInventory) -> tuple[int, int | None]:
    """Return how many pods the node takes, one after the other, and how many of them get linked devices."""
    ask, islands, pods, linked = query.ask, _islands(node, inventory), 0, 0
    while isinstance(offer := query.pick(node), Offer):
        pods += 1
        linked += any(island.issuperset(offer.devices) for island in islands)
        node = node_after(node, offer, ask.domain, ask.mode)
    return pods, linked if islands else None


def _islands(node: Node, inventory: NodeInventory) -> list[frozenset[str]]:
    """Return the rings of the node, or its islands of direct links; empty without link data."""
    profile = known_profile(inventory.profile) if inventory.profile else None
    if profile and profile.group > 1:
        groups: Sequence[Sequence[int]] = profile.groups(len(node.devices))
        return [frozenset(node.devices[place].id for place in group if place < len(node.devices)) for group in groups]
    topology = node.topology
    if topology is None or not topology.links:
        return []
    at = {position: device for device, position in node.positions().items()}
    return [frozenset(at[place] for place in ring if place in at) for ring in rings(topology)]


def _amount(node: Node, devices: Sequence[str], *, whole: bool) -> int:
    memory: Mapping[str, int] = {device.id: device.memory for device in node.devices}
    return len(devices) if whole else sum(memory[device] for device in devices)


def _free(node: Node, *, whole: bool) -> int:
    """Return the amount of the resource that is free on the node."""
    if whole:
        return max(0, len(node.free()) - node.unattributed)
    rooms = node.room()
    # Memory of unknown devices was subtracted from each of them, because it may be on any.
    shared = sum(
        device.memory - node.used.get(device.id, FREE).share for device in node.healthy() if device.id in rooms
    )
    return sum(rooms.values()) if not node.unattributed_share else max(0, shared - node.unattributed_share)
