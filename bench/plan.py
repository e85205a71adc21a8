"""Speed of planning groups, cold tables included: from members and nodes to a node and devices for each member.

And of gated gangs in the process: from the last member that is observed to the verdict that the gang does not fit, and to what
is written on each member if it does. And of gangs whose members are filtered, bound and observed one after the other.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Table

from clusters import node_names, noisy
from linkwise.broker.broker import Broker
from linkwise.broker.effects import Steer
from linkwise.broker.groups.planning.runs import planning
from linkwise.broker.records.members import GroupView, Run
from linkwise.dialects.linkwise.dialect import GRANT, grant_text
from linkwise.dialects.linkwise.group_plan import GATE
from linkwise.engine.reasons.catalog import refusal
from linkwise.model.ask import Group
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.model.views import ContainerView, PodView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import KOORDINATOR, FakeNode, binds, broker_of, device_pod, in_gang, seen_bound
from linkwise.vendors.machine import machine_devices
from linkwise.vendors.machines import profile

if TYPE_CHECKING:
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.engine.planning.plan import Plan

LEVELS = tuple(f"network.topology.nvidia.com/{name}" for name in ("spine", "block", "accelerator"))
STEP = 0.015  # seconds at most, so that other requests are answered between two steps


class Case(NamedTuple):
    """A group on a cluster."""

    title: str
    nodes: int
    sizes: tuple[int, ...]
    bar: float  # seconds


UNEQUAL = (8,) * 8 + (4,) * 16 + (2,) * 20 + (1,) * 20
FEW = (4,) * 4 + (3,) * 4 + (2,) * 4 + (1,) * 4  # few enough for the exact table
CASES = (
    Case("1,024 pods of 8", 5_000, (8,) * 1024, 0.25),
    Case("64 unequal pods", 1_000, UNEQUAL, 0.15),
    Case("16 unequal pods", 30, FEW, 0.15),
    Case("6 unequal pods", 2_000, (8, 4, 4, 2, 2, 1), 1.0),
    Case("1,024 pods of 8", 10_000, (8,) * 1024, 0.5),
    Case("1,024 pods of 8", 20_000, (8,) * 1024, 1.0),
    Case("1,024 pods of 8", 40_000, (8,) * 1024, 2.0),
)


PARTS = tuple(
    Case(title, nodes, percents, bar)
    for title, nodes, percents, bar in (
        ("64 parts of 30%", 200, (30,) * 64, 0.3),
        ("256 parts of 30%", 1_000, (30,) * 256, 1.0),
        ("12 unequal parts", 30, (20,) * 3 + (35,) * 3 + (50,) * 3 + (70,) * 3, 0.15),
        ("24 unequal parts", 1_000, (20,) * 6 + (35,) * 6 + (50,) * 6 + (70,) * 6, 1.0),
        ("48 unequal parts", 30, (20,) * 12 + (35,) * 12 + (50,) * 12 + (70,) * 12, 0.15),
        ("12 kinds of parts", 1_000, tuple(range(20, 80, 5)), 1.5),
    )
)
"""percent of a device per member"""


def cluster(count: int) -> list[WatchEvent]:
    """Half of the nodes free, the others partly; different amounts of CPU; three network levels."""
    chance = random.Random(count)
    sights: list[WatchEvent] = []
    for number, name in enumerate(node_names(count, 13)):
        machine = noisy(replace(profile("dgx-a100"), cpus=chance.choice((96, 128, 192, 256))), chance)
        labels = dict(zip(LEVELS, (f"s{number // 1000}", f"b{number // 100}", f"a{number // 20}"), strict=True))
        sights += fleet_node(machine, name, labels=labels)
        if number % 2:
            devices = [device.id for device in machine_devices(machine, name)]
            sights.append(_bound(name, number, chance.sample(devices, chance.randint(1, 8))))
    return sights


def members(sizes: tuple[int, ...]) -> tuple[PodView, ...]:
    """Pods of one group."""
    return tuple(
        PodView(
            "default",
            f"worker-{number}",
            f"uid-{number}",
            (ContainerView("main", limits={"nvidia.com/gpu": str(size), "cpu": str(4 * size), "memory": "16Gi"}),),
            annotations={"linkwise.dev/policy": "bandwidth"},
            version=1,
        )
        for number, size in enumerate(sizes)
    )


def shared_cluster(count: int) -> Broker:
    """Nodes of eight devices, most of which are used in part."""
    chance = random.Random(count)
    nodes = [FakeNode(name, "percent", count=8) for name in node_names(count, 13)]
    broker = broker_of(*nodes)
    for node in nodes:
        for card in range(node.count):
            if chance.random() < 0.7:
                percent, uid = chance.choice((10, 20, 30, 45, 50, 60, 75, 80, 90)), f"{node.name}-{card}"
                part = Part("main", (node.device(card),), percent, percent)
                grant = Grant(uid, "memory-share", Offer(node.name, (part,)), mode="percent")
                pod = device_pod(f"old-{uid}", percent, KOORDINATOR, uid=uid)
                annotations = {GRANT: grant_text(grant)}
                broker.observe([replace(pod, node=node.name, phase="Running", annotations=annotations)], 0.0)
    return broker


def planned(case: Case) -> tuple[float, float, Plan | None]:
    """Seconds in all, seconds of the longest step, and the plan."""
    if case in PARTS:
        broker = shared_cluster(case.nodes)
        pods = tuple(device_pod(f"m{number}", size, KOORDINATOR) for number, size in enumerate(case.sizes))
    else:
        broker, pods = Broker(), members(case.sizes)
        broker.observe(cluster(case.nodes), 0.0)
    gc.collect()
    gc.freeze()
    begin = before = time.process_time()
    view = GroupView(Group("default/g", "koordinator", len(pods)), pods)
    run = Run((view.key,), (), planning(broker.state_at(0.0), view))
    longest = 0.0
    while not run.done:
        run.advance(1)
        now = time.process_time()
        longest, before = max(longest, now - before), now
    end = time.process_time()
    gc.unfreeze()
    return end - begin, max(longest, end - before), run.plan


GANG = 512
GANG_NODES = 1_000
GANG_BAR = 1.0  # seconds from the last member to the verdict, or to the last plan that is to be written
STEPS_PER_TURN = 4
"""as the service makes them"""


class Gated(NamedTuple):
    """What became of a gated gang."""

    seconds: float
    longest: float  # seconds, of one verb
    written: int
    """plans for members"""
    reason: str


def gated_gang(*, devices: int) -> Gated:
    """A gang of that many devices per member comes one by one; half of the nodes are free, so members of eight do not all fit."""
    broker = Broker()
    broker.observe(cluster(GANG_NODES), 0.0)
    while (due := broker.next_deadline()) is not None and due <= 0.0:
        broker.step(0.0, 1000)
    gc.collect()
    gc.freeze()
    words = {"gang.scheduling.koordinator.sh/name": "g", "gang.scheduling.koordinator.sh/min-available": str(GANG)}
    pods = [replace(pod, annotations=words, gates=(GATE,), created=1.0) for pod in members((devices,) * GANG)]
    for pod in pods[:-1]:
        broker.observe([pod], 1.0)
    begin = before = time.process_time()
    effects, longest = list(broker.observe(pods[-1:], 1.0)), 0.0
    while True:
        now = time.process_time()
        longest, before = max(longest, now - before), now
        if broker.plans() or broker.shortage("default/g"):
            break
        effects += broker.step(1.0, STEPS_PER_TURN)
    end = time.process_time()
    gc.unfreeze()
    written = sum(isinstance(effect, Steer) for effect in effects)
    reason = broker.shortage("default/g")
    return Gated(end - begin, longest, written, refusal(reason) if reason else "")


BOUND = ((GANG, 0.6), (1_000, 1.5))
"""members of gangs that are bound, and seconds that this may take"""
IN_FLIGHT = 16


def bound_gang(members: int) -> float:
    """Seconds from the first filter call of a complete gang to its last bound member, with binds in flight."""
    nodes = [f"n{number:03}" for number in range(-(-members // 8))]
    broker = broker_of(*(FakeNode(name, count=8) for name in nodes))
    pods = in_gang(*(device_pod(f"m{number}") for number in range(members)), least=members)
    broker.observe(pods, 1.0)
    gc.collect()
    gc.freeze()
    begin = time.process_time()
    written: list[PodView] = []
    for pod in pods:
        while not (names := broker.filter(pod, nodes, 1.0).nodes):
            broker.step(1.0, 1000)  # the plan of a large gang takes longer than its first call
        (effect,) = binds(broker.bind(pod.uid, names[0], 1.0).effects)
        broker.outcome(effect, "written", 1.0)
        written.append(seen_bound(pod, effect))
        if len(written) == IN_FLIGHT:
            broker.observe([written.pop(0)], 1.0)
    for each in written:
        broker.observe([each], 1.0)
    end = time.process_time()
    gc.unfreeze()
    return end - begin


def print_bound() -> bool:
    """Measure gangs that are bound; whether a bar is missed."""
    table = Table("gang", "binds in flight", "seconds", "bar", "", title="Bound gangs")
    missed = False
    for members, bar in BOUND:
        seconds = bound_gang(members)
        missed |= seconds > bar
        row = (f"{members} pods of 1", str(IN_FLIGHT), f"{seconds:.3f}", f"{bar:g}")
        table.add_row(*row, "passed" if seconds <= bar else "MISSED")
    Console(highlight=False, width=120).print(table)
    return missed


def print_gated() -> bool:
    """Measure gated gangs; whether a bar is missed."""
    table = Table(
        "gang", "nodes", "seconds", "bar", "longest verb", "plans to write", "verdict", "", title="Gated gangs"
    )
    missed = False
    for devices, fits in ((8, False), (2, True)):
        found = gated_gang(devices=devices)
        passed = found.seconds <= GANG_BAR and (found.written == GANG if fits else bool(found.reason))
        missed |= not passed
        table.add_row(
            f"{GANG} pods of {devices}",
            str(GANG_NODES),
            f"{found.seconds:.3f}",
            f"{GANG_BAR:g}",
            f"{found.longest * 1000:.1f} ms",
            str(found.written),
            found.reason or "fits",
            "passed" if passed else "MISSED",
        )
    Console(highlight=False, width=120).print(table)
    return missed


def main() -> None:
    """Measure, print, and exit with 1 if a bar is missed."""
    table = Table(
        "group", "nodes", "seconds", "bar", "longest step", "bar", "used nodes", "proven", "", title="Plans of groups"
    )
    missed = False
    for case in (*CASES, *PARTS):
        seconds, longest, plan = planned(case)
        passed = seconds <= case.bar and longest <= STEP and plan is not None
        missed |= not passed
        proven = sum(level.proven for level in plan.levels) if plan else 0
        table.add_row(
            case.title,
            str(case.nodes),
            f"{seconds:.3f}",
            f"{case.bar:g}",
            f"{longest * 1000:.1f} ms",
            f"{STEP * 1000:.0f} ms",
            str(len(plan.nodes)) if plan else "-",
            f"{proven} of {len(plan.levels) if plan else 0}",
            "passed" if passed else "MISSED",
        )
    Console(highlight=False, width=120).print(table)
    missed |= print_gated()
    missed |= print_bound()
    sys.exit(missed)


def _bound(node: str, number: int, devices: list[str]) -> PodView:
    uid = f"10000000-0000-4000-8000-{number:012d}"
    grant = Grant(uid, "bandwidth", Offer(node, (Part("main", tuple(devices)),)))
    return PodView(
        "default",
        f"old-{number}",
        uid,
        (ContainerView("main", limits={"nvidia.com/gpu": str(len(devices)), "cpu": "8"}),),
        annotations={GRANT: grant_text(grant)},
        node=node,
        phase="Running",
        version=1,
    )


if __name__ == "__main__":
    main()
