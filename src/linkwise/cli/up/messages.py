"""The welcome message of `linkwise up`: the nodes, the addresses, and commands to type next."""

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

__all__ = ["next_steps", "path_hint", "welcome"]

FIRST: Final = {
    "link-pair": "pod/link-pair",
    "ascend-pair": "pod/ascend-pair",
    "gpu-mem": "pod/gpu-mem",
    "amd-four": "pod/amd-four",
    "group": "group/group",
}
"""examples to start with, and what to explain afterwards"""
_INDENT: Final = (0, 0, 0, 2)
_GAP: Final = 2  # columns between two columns
_HOST_RESOURCES: Final = frozenset({"cpu", "memory", "pods", "aliyun.com/gpu-count"})


def welcome(
    fleet: Mapping[str, int], addresses: Mapping[str, str], kubeconfig: Path, seconds: float, width: int
) -> RenderableType:
    """The complete message for a terminal of `width` columns; `addresses` maps components to their URLs."""
    nodes = sum(fleet.values())
    return Group(
        Text.assemble(
            (f"A cluster of {nodes:,} {'node' if nodes == 1 else 'nodes'} is up", "bold green"),
            f" after {seconds:.1f} s.",
        ),
        "Machines and containers are simulated; the API and the scheduling are real.\n",
        Padding(_machines(fleet, width - _INDENT[3]), _INDENT, expand=False),
        "",
        Padding(_address_table(addresses), _INDENT, expand=False),
        "\nIn another terminal:\n",
        *(
            Text(f"  {line}", "bold cyan", no_wrap=True, overflow="ignore")  # meant to be copied, so never wrapped
            for line in (
                *path_hint(sys.argv[0], which("linkwise")),
                f"export KUBECONFIG={quote(str(kubeconfig))}",
                *next_steps(fleet),
            )
        ),
        "\nkubectl works too; `linkwise example` lists more manifests. Ctrl-C to stop.",
    )


def next_steps(fleet: Mapping[str, int]) -> list[str]:
    """Three commands that work on this fleet: look, apply, explain."""
    for name, target in FIRST.items():
        if _fits(name, fleet):
            return [
                "linkwise get nodes",
                f"linkwise example {name} | linkwise apply -f -",
                f"linkwise explain {target}",
            ]
    machine, count = next(iter(fleet.items()))
    node = node_names(machine, count)[0]
    return ["linkwise get nodes", f"linkwise topo node/{node}", f"linkwise explain node/{node}"]


def _fits(name: str, fleet: Mapping[str, int]) -> bool:
    """Whether a machine of the fleet has the resources that an example requests."""
    containers = [container for pod in yaml.safe_load_all(example(name)) for container in pod["spec"]["containers"]]
    requests = {
        resource: amount for container in containers for resource, amount in container["resources"]["limits"].items()
    }
    return any(
        all(amount <= allocatable.get(resource, 0) for resource, amount in requests.items())
        for allocatable in map(_resources, fleet)
    )


def _resources(machine: str) -> dict[str, int]:
    """The device resources of a machine."""
    capacity = machine_objects(machine, "node")[0]["status"]["capacity"]
    hidden = {NVIDIA} if PERCENT in capacity else set()  # reported as well, but not allocated to pods
    return {name: int(amount) for name, amount in capacity.items() if name not in _HOST_RESOURCES | hidden}


def _machines(fleet: Mapping[str, int], width: int) -> Table:
    """One row per machine; on a narrow terminal its details are printed below its name."""
    rows = [
        (f"{count:,}", machine, _models(machine), ", ".join(_resources(machine))) for machine, count in fleet.items()
    ]
    one_line = sum(max(map(len, column)) + _GAP for column in zip(*rows, strict=True)) - _GAP <= width
    table = Table.grid(padding=(0, _GAP))
    table.add_column(justify="right")
    for _ in range(3 if one_line else 1):
        table.add_column(overflow="fold")
    for count, *cells in rows:
        table.add_row(count, *(cells if one_line else ["\n".join(cells)]))
    return table


def _models(machine: str) -> str:
    kind = profile(machine.partition("/")[0])
    return f"{kind.devices} x {kind.model.removeprefix('NVIDIA ').removeprefix('AMD ')}"


def _address_table(addresses: Mapping[str, str]) -> Table:
    table = Table.grid(padding=(0, _GAP))
    for _ in range(2):
        table.add_column(overflow="fold")
    for component, address in addresses.items():
        table.add_row(component, address)
    return table


def path_hint(program: str, on_path: str | None) -> list[str]:
    """The `export PATH` line, if the shell would not find `linkwise`.

    Args:
        program: how this process was called.
        on_path: the `linkwise` that a shell finds, if any.
    """
    hidden = Path(program).name == "linkwise" and not on_path
    return [f'export PATH={quote(str(Path(program).absolute().parent))}:"$PATH"'] if hidden else []
