"""Speed of planning groups, cold tables included: from members and nodes to a node and devices for each member."""

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
from linkwise.broker.groups.planning import planning
from linkwise.broker.records.members import GroupView
from linkwise.broker.records.stages import Run
from linkwise.broker.sample_nodes import fleet_node
from linkwise.dialects.linkwise.dialect import GRANT, grant_text
from linkwise.model.ask import Group
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.model.views import ContainerView, PodView
from linkwise.vendors.machine import machine_devices
from linkwise.vendors.machines import profile

if TYPE_CHECKING:
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.engine.planning.plan import Plan

LEVELS = tuple(f"network.topology.nvidia.com/{name}" for name in ("spine", "block", "accelerator"))
STEP = 0.020  # seconds at most, so that other requests are answered between two steps


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


def planned(case: Case) -> tuple[float, float, Plan | None]:
    """Seconds in all, seconds of the longest step, and the plan."""
    broker = Broker()
    broker.observe(cluster(case.nodes), 0.0)
    gc.collect()
    gc.freeze()
    pods = members(case.sizes)
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


def main() -> None:
    """Measure, print, and exit with 1 if a bar is missed."""
    table = Table(
        "group", "nodes", "seconds", "bar", "longest step", "bar", "used nodes", "proven", "", title="Plans of groups"
    )
    missed = False
    for case in CASES:
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
