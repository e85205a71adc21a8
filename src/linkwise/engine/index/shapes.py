"""Shape of a node: everything that an offer of whole devices can depend on.

Bound: thousands of nodes have few shapes, and a policy is run once per shape. A shape consists of the node's build (links
without the noise of their samples, devices, profile) and of its free devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from linkwise.policies.alignment import is_aligned
from linkwise.topology.canonical import canonical_pairs

if TYPE_CHECKING:
    from collections.abc import Hashable

    from linkwise.model.node import Mode, Node
    from linkwise.model.topology import Topology

__all__ = ["Build", "Shape", "Shapes", "shape_of"]


class Shape(NamedTuple):
    """The number of the node's build, and its free devices as a bit mask in index order."""

    build: int
    free: int
    mode: Mode
    unattributed: int
    """twice the number of unattributed devices, plus one if there is unattributed memory"""


class Build(NamedTuple):
    """The constant part of a node: links, devices and profile; equal builds have equal numbers."""

    number: int
    key: Hashable
    node: tuple[object, ...]
    """the values it was computed from, compared by identity"""


class Shapes:
    """Builds and their numbers, reference-counted by node.

    Args:
        exact: distinguish builds by the noise of samples too; needed if a bandwidth floor in GB/s is set.
        nic: distinguish builds by NICs too.
    """

    def __init__(self, *, exact: bool = False, nic: bool = False) -> None:
        self._exact = exact
        self._nic = nic
        self._numbers: dict[Hashable, int] = {}
        self._users: dict[Hashable, int] = {}
        self._builds: dict[str, Build] = {}
        self._last = 0

    def shape(self, node: Node, words: frozenset[str]) -> Shape:
        """The node's shape now."""
        return shape_of(self._build(node, words).number, node)

    def drop(self, name: str) -> None:
        """Remove a node."""
        build = self._builds.pop(name, None)
        if build is not None:
            self._users[build.key] -= 1
            if not self._users[build.key]:
                del self._users[build.key], self._numbers[build.key]

    def __len__(self) -> int:
        return len(self._numbers)

    def _build(self, node: Node, words: frozenset[str]) -> Build:
        source = (node.devices, node.topology, node.profile, words, node.alignment)
        known = self._builds.get(node.name)
        if known is not None and all(map(_same, known.node, source)):
            return known
        self.drop(node.name)
        aligned = node.alignment if is_aligned(node) else None
        key = (self._links(node.topology), self._devices(node), node.profile, words, aligned)
        if key not in self._numbers:
            self._last += 1
            self._numbers[key] = self._last
        self._users[key] = self._users.get(key, 0) + 1
        build = Build(self._numbers[key], key, source)
        self._builds[node.name] = build
        return build

    def _devices(self, node: Node) -> Hashable:
        """Index, health, reachability and topology position of every device; NUMA nodes and NICs where they make a difference."""
        positions = node.positions()
        devices = tuple(
            (device.index, device.healthy, device.reachable, positions.get(device.id)) for device in node.devices
        )
        numa = tuple(device.numa for device in node.devices)
        nics = tuple(bool(device.nics) for device in node.devices) if self._nic else ()
        return (devices, numa, nics) if len(set(numa)) > 1 or any(nics) else devices

    def _links(self, topology: Topology | None) -> Hashable:
        if topology is None:
            return None
        if self._exact:
            return topology.links, topology.bandwidth
        return topology.links or (canonical_pairs(topology), not topology.bandwidth)  # a single device has no pairs


def shape_of(build: int, node: Node) -> Shape:
    """The shape of a node with this build."""
    used = node.used
    free = 0
    for position, device in enumerate(node.devices):
        if device.healthy and device.id not in used:
            free |= 1 << position
    return Shape(build, free, node.mode, 2 * node.unattributed + (node.unattributed_share > 0))


def _same(one: object, other: object) -> bool:
    return one is other or (isinstance(one, frozenset | str) and one == other)
