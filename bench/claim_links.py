"""Slowest link that pods get where ResourceClaims allocate devices: planned by links, beside kube-scheduler's first fit.

Each real topology we have is one node. Pods of 1, 2 and 4 devices arrive and finish in the same order for both; whether a
pod fits depends on the number of free devices alone, so both run the same pods. First fit takes the first free devices in
the order of their slice, as kube-scheduler's allocator does. GB/s are the typical values of link kinds, or what was measured.
"""

from __future__ import annotations

import json
import random
import sys
from collections import defaultdict
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, cast

from rich.console import Console
from rich.table import Table

from linkwise.broker.watch_events import NodeObject
from linkwise.model.views import NodeView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.topology.canonical import canonical
from linkwise.vendors.machine import machine_devices
from linkwise.vendors.machines import profile
from linkwise.vendors.readers import parse_topology
from support.builders.dra_objects import device, resource_slice
from support.claim_cluster import ClaimCluster, claim_pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.testing.cluster import FakeNode
    from linkwise.vendors.machines import MachineProfile

DATA = Path(__file__).parents[2] / "shared/data/topology-text"
SIZES = {1: 0.4, 2: 0.35, 4: 0.25}
"""the devices that pods ask for, and how often"""
ARRIVALS, LOAD, SEEDS = 150, 0.8, (1, 2, 3)


@dataclass
class Slowest:
    """The slowest pair of each pod in GB/s, by the number of its devices."""

    first_fit: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    planned: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))


def machines() -> Iterator[tuple[str, MachineProfile]]:
    """The machines of at least four devices whose links a tool printed."""
    for line in (DATA / "INDEX.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(line)
        if entry["expect"] != "ok" or (entry["n_gpus"] or 0) < max(SIZES):
            continue
        topology = parse_topology((DATA / entry["file"]).read_text("utf-8", errors="replace"))
        if topology.links or topology.bandwidth:
            yield entry["hardware"], replace(profile("v100-pcie"), topology=topology)


@dataclass
class ClaimNode:
    """A node of a machine without a device plugin; its agent publishes the links."""

    machine: MachineProfile
    name: str = "n"

    @property
    def count(self) -> int:
        """Number of devices."""
        return self.machine.devices

    def events(self) -> Iterator[NodeView | NodeObject]:
        """The node as the API server has it."""
        view, inventory = fleet_node(self.machine, self.name)
        if not isinstance(view, NodeView) or not isinstance(inventory, NodeObject):
            raise TypeError(view)
        yield replace(view, capacity={"cpu": "64", "pods": "110"}, allocatable={"cpu": "64", "pods": "110"})
        yield inventory

    def published(self) -> dict[str, object]:
        """The slice of its devices."""
        ids = [each.id for each in machine_devices(self.machine, self.name)]
        devices = [device(f"gpu-{index}") for index in range(len(ids))]
        for each, uuid in zip(devices, ids, strict=True):
            each["attributes"]["uuid"] = {"string": uuid}
        return resource_slice(self.name, devices)


def run(machine: MachineProfile, seed: int, found: Slowest) -> None:
    """Send the pods of one seed to a node of the machine, twice."""
    chance, values = random.Random(seed), canonical(machine.topology)
    node = ClaimNode(machine)
    cluster = ClaimCluster(cast("FakeNode", node), objects=[node.published()])  # it has what is used of one
    free, leaving = set(range(machine.devices)), list[tuple[float, str, tuple[int, ...]]]()
    mean_stay = LOAD * machine.devices / sum(size * part for size, part in SIZES.items())
    now = 0.0
    for number in range(ARRIVALS):
        now += chance.expovariate(1.0)
        while leaving and leaving[0][0] <= now:
            _, name, devices = heappop(leaving)
            free.update(devices)
            cluster.remove(name)
        (size,) = chance.choices(list(SIZES), list(SIZES.values()))
        stay = chance.expovariate(1 / mean_stay)
        if size > len(free):
            continue
        name = f"{number:x}"
        cluster.create(claim_pod(name, size))
        cluster.settle(200)
        planned = [int(each.rpartition("-")[2]) for each in cluster.devices_of(name)]
        if len(planned) != size:
            raise AssertionError(f"a pod of {size} got {planned}, {len(free)} devices were free")
        first = tuple(sorted(free)[:size])
        free.difference_update(first)
        heappush(leaving, (now + stay, name, first))
        if size > 1:
            found.first_fit[size].append(slowest(values, first))
            found.planned[size].append(slowest(values, planned))


def slowest(values: tuple[tuple[float, ...], ...], devices: list[int] | tuple[int, ...]) -> float:
    """The slowest pair of some devices."""
    return min(values[i][j] for i, j in combinations(devices, 2))


def main() -> None:
    """Measure, print, and exit with 1 if a plan is slower than first fit anywhere."""
    terminal = Console(highlight=False, width=130)
    if not DATA.is_dir():
        terminal.print(f"claim_links: skipped, there are no topologies in {DATA}")
        return
    seeds = SEEDS[:1] if "--small" in sys.argv else SEEDS
    title = f"Slowest link of a pod, mean GB/s, {len(seeds)} times {ARRIVALS} pods on one node"
    table = Table("machine", "pods of 2: first fit", "planned", "pods of 4: first fit", "planned", "", title=title)
    missed = False
    for name, machine in machines():
        found = Slowest()
        for seed in seeds:
            run(machine, seed, found)
        means = [(fmean(found.first_fit[size]), fmean(found.planned[size])) for size in (2, 4)]
        slower = any(planned < first * 0.999 for first, planned in means)
        missed |= slower
        cells = [
            text for first, planned in means for text in (f"{first:.1f}", f"{planned:.1f} ({planned / first:.2f}x)")
        ]
        table.add_row(name[:48], *cells, "MISSED" if slower else "passed")
    terminal.print(table)
    sys.exit(missed)


if __name__ == "__main__":
    main()
