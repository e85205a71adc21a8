"""What `linkwise up` says once everything runs: what there is, where, and what to type next.

How a reader calls this program in another terminal.
"""
# Joined from up_words, reaching: one docstring for all.

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote
from shutil import which
from typing import TYPE_CHECKING, Final

import yaml
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from linkwise.broker.sample_nodes import PERCENT
from linkwise.cli.examples import example
from linkwise.dialects.nvidia.dialect import RESOURCE as NVIDIA
from linkwise.embedded.nodes.machines import machine_objects, node_names
from linkwise.vendors.machines import profile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType

__all__ = ["next_steps", "reaching", "welcome"]

FIRST: Final = {
    "link-pair": "pod/link-pair",
    "ascend-pair": "pod/ascend-pair",
    "gpu-mem": "pod/gpu-mem",
    "amd-four": "pod/amd-four",
    "group": "group/group",
}
"""examples that a newcomer may begin with, and what to ask about then"""
_INDENT: Final = (0, 0, 0, 2)
_GAP: Final = 2  # columns between two columns
_HOST: Final = frozenset({"cpu", "memory", "pods", "aliyun.com/gpu-count"})


def welcome(
    fleet: Mapping[str, int], places: Mapping[str, str], kubeconfig: Path, seconds: float, width: int
) -> RenderableType:
    """All of it, for so many columns; places are what runs, with its address."""
    nodes = sum(fleet.values())
    return Group(
        Text.assemble(
            (f"A cluster of {nodes:,} {'node' if nodes == 1 else 'nodes'} is up", "bold green"),
            f", in {seconds:.1f} s.",
        ),
        "Machines and containers are simulated; the API and the decisions are real.\n",
        Padding(_machines(fleet, width - _INDENT[3]), _INDENT, expand=False),
        "",
        Padding(_rows(places), _INDENT, expand=False),
        "\nIn another terminal:\n",
        *(
            Text(f"  {line}", "bold cyan", no_wrap=True, overflow="ignore")  # to be copied: a break would be copied too
            for line in (
                *reaching(sys.argv[0], which("linkwise")),
                f"export KUBECONFIG={quote(str(kubeconfig))}",
                *next_steps(fleet),
            )
        ),
        "\nkubectl works too, and `linkwise example` lists more to try. Ctrl-C ends it all.",
    )


def next_steps(fleet: Mapping[str, int]) -> list[str]:
    """Three commands that work on a cluster with this fleet: see, do, ask why."""
    for name, what in FIRST.items():
        if _fits(name, fleet):
            return [
                "linkwise get nodes",
                f"linkwise example {name} | linkwise apply -f -",
                f"linkwise explain {what}",
            ]
    machine, count = next(iter(fleet.items()))
    node = node_names(machine, count)[0]
    return ["linkwise get nodes", f"linkwise topo node/{node}", f"linkwise explain node/{node}"]


def _fits(name: str, fleet: Mapping[str, int]) -> bool:
    """Whether a machine of the fleet has what the pods of an example ask for."""
    containers = [one for pod in yaml.safe_load_all(example(name)) for one in pod["spec"]["containers"]]
    asked = {resource: amount for one in containers for resource, amount in one["resources"]["limits"].items()}
    return any(
        all(amount <= has.get(resource, 0) for resource, amount in asked.items()) for has in map(_resources, fleet)
    )


def _resources(machine: str) -> dict[str, int]:
    """What a node of a machine hands out, without what every host has."""
    capacity = machine_objects(machine, "node")[0]["status"]["capacity"]
    beside = {NVIDIA} if PERCENT in capacity else set()  # counted there as well, but not handed out
    return {name: int(amount) for name, amount in capacity.items() if name not in _HOST | beside}


def _machines(fleet: Mapping[str, int], width: int) -> Table:
    """A row a machine; where that is too wide, what it has stands below its name."""
    rows = [
        (f"{count:,}", machine, _models(machine), ", ".join(_resources(machine))) for machine, count in fleet.items()
    ]
    wide = sum(max(map(len, column)) + _GAP for column in zip(*rows, strict=True)) - _GAP <= width
    table = Table.grid(padding=(0, _GAP))
    table.add_column(justify="right")
    for _ in range(3 if wide else 1):
        table.add_column(overflow="fold")
    for count, *cells in rows:
        table.add_row(count, *(cells if wide else ["\n".join(cells)]))
    return table


def _models(machine: str) -> str:
    kind = profile(machine.partition("/")[0])
    return f"{kind.devices} x {kind.model.removeprefix('NVIDIA ').removeprefix('AMD ')}"


def _rows(places: Mapping[str, str]) -> Table:
    table = Table.grid(padding=(0, _GAP))
    for _ in range(2):
        table.add_column(overflow="fold")
    for what, where in places.items():
        table.add_row(what, where)
    return table


def reaching(own: str, found: str | None) -> list[str]:
    """What to type first: nothing, unless `linkwise` is in a folder that nobody looks into by himself.

    Args:
        own: how this one was called.
        found: where a shell finds `linkwise`, if it does.
    """
    hidden = Path(own).name == "linkwise" and not found
    return [f'export PATH={quote(str(Path(own).absolute().parent))}:"$PATH"'] if hidden else []
