"""Memory of devices in the layout of `kubectl inspect gpushare`, so that what reads that can read this.

Cells are padded to the widest of their column and by two spaces; a column lasts as long as lines follow each other that
have it.

Source: seed 004, its sample output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from linkwise.dialects.aliyun import MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.assembly.cluster_reader import ClusterReader
    from linkwise.explain.inspect import InspectedDevice, NodeInspection

__all__ = ["MemoryNode", "memory_nodes", "padded", "show_details", "show_summary"]

GAP: Final = 2
TAB: Final = "\t"
RULE_SUMMARY, RULE_DETAILS = 20, 10
"""by how much a rule is longer than the longest row before it is padded"""
_NOTHING: Final = frozenset({"", "0"})


@dataclass(frozen=True, slots=True)
class MemoryNode:
    """A node that hands out the memory of its devices."""

    found: NodeInspection
    address: str

    @property
    def pending(self) -> int:
        """Memory of pods of which it is not known on which device they are."""
        return sum(pod.share for pod in self.found.unattributed)

    @property
    def cards(self) -> int:
        """Columns that its devices need."""
        return max((device.index + 1 for device in self.found.devices), default=0)

    def by_index(self) -> dict[int, InspectedDevice]:
        """Its devices."""
        return {device.index: device for device in self.found.devices}


def memory_nodes(seen: ClusterReader, name: str | None) -> list[MemoryNode]:
    """Nodes with memory to hand out, by name; a note if they count in different units."""
    views = seen.broker.state.cluster.nodes
    found = [
        MemoryNode(node, seen.addresses.get(node.name, "unknown"))
        for node in seen.broker.inspect(name, seen.now)
        if views[node.name].allocatable.get(MEMORY, "") not in _NOTHING
    ]
    units = sorted({node.found.unit for node in found})
    if len(units) > 1:
        click.echo(f"note: nodes count in {' and in '.join(units)}: sums of the cluster mean nothing", err=True)
    return found


def show_summary(nodes: Sequence[MemoryNode]) -> str:
    """A row a node."""
    cards = max((node.cards for node in nodes), default=0)
    pending = any(node.pending for node in nodes)
    unit = nodes[0].found.unit if nodes else "GiB"
    heading = [f"GPU{card}(Allocated/Total)" for card in range(cards)] + ["PENDING(Allocated)"] * pending
    rows = [TAB.join(["NAME", "IPADDRESS", *heading, f"GPU Memory({unit})"])]
    rows += [_summary(node, cards, pending=pending) for node in nodes]
    longest = max((len(row) + 1 for row in rows[1:]), default=0)
    lines = [*rows, "-" * (longest + RULE_SUMMARY), "Allocated/Total GPU Memory In Cluster:", _sum(nodes)]
    return padded(lines)


def show_details(nodes: Sequence[MemoryNode]) -> str:
    """A table a node, with a row a pod."""
    # rule 004.inspect: what the seed prints, sign by sign; only the rule is as long as its longest row needs.
    tables = [_pods(node) for node in nodes]
    longest = max((len(row) + 1 for rows in tables for row in rows), default=0)
    rule = "-" * (longest + RULE_DETAILS)
    lines: list[str] = []
    for node, rows in zip(nodes, tables, strict=True):
        columns = [f"GPU{card}(Allocated)" for card in range(node.cards)] + ["Pending(Allocated)"] * bool(node.pending)
        heading = _row("NAME", "NAMESPACE", *columns)
        taken, memory = node.found.taken, node.found.memory
        lines += ["", f"NAME:{TAB}{node.found.name}", f"IPADDRESS:{TAB}{node.address}", "", heading, *rows]
        lines += [_row("Allocated :", f"{taken} ({_percent(taken, memory)}%)"), _row("Total :", f"{memory} "), rule]
    return padded([*lines, "", "", f"Allocated/Total GPU Memory In Cluster:{TAB}{_sum(nodes)}"])


def padded(lines: Iterable[str]) -> str:
    """Text whose cells, each ended by a tab, stand below each other."""
    rows = [line.split(TAB) for line in lines]
    widths: list[dict[int, int]] = [{} for _ in rows]
    for column in range(max((len(row) for row in rows), default=0)):
        block: list[int] = []
        for number, row in enumerate([*rows, []]):
            if len(row) > column + 1:
                block.append(number)
                continue
            width = max((len(rows[member][column]) for member in block), default=0)
            for member in block:
                widths[member][column] = width + GAP
            block = []
    return "".join(
        "".join(cell.ljust(widths[number].get(column, 0)) for column, cell in enumerate(row)) + "\n"
        for number, row in enumerate(rows)
    )


def _summary(node: MemoryNode, cards: int, *, pending: bool) -> str:
    devices = node.by_index()
    filled = [f"{_taken(devices[card])}/{devices[card].memory}" if card in devices else "0/0" for card in range(cards)]
    waiting = [str(node.pending or "")] * pending
    return TAB.join([node.found.name, node.address, *filled, *waiting, f"{node.found.taken}/{node.found.memory}"])


def _pods(node: MemoryNode) -> list[str]:
    """A row for each pod, in the order of the devices; what is on no known device comes last."""
    width = node.cards + bool(node.pending)
    amounts: dict[tuple[str, str], list[int]] = {}
    for device in node.found.devices:
        for pod in device.pods:
            row = amounts.setdefault((pod.name, pod.namespace), [0] * width)
            row[device.index] += device.memory if pod.whole else pod.share
    for pod in node.found.unattributed:
        if pod.share:
            amounts.setdefault((pod.name, pod.namespace), [0] * width)[-1] += pod.share
    return [_row(*name, *map(str, row)) for name, row in amounts.items()]


def _row(*cells: str) -> str:
    return "".join(f"{cell}{TAB}" for cell in cells)


def _taken(device: InspectedDevice) -> int:
    return device.memory if device.whole else device.share


def _sum(nodes: Sequence[MemoryNode]) -> str:
    taken, memory = (sum(values) for values in ([n.found.taken for n in nodes], [n.found.memory for n in nodes]))
    return f"{taken}/{memory} ({_percent(taken, memory)}%){TAB}"


def _percent(part: int, whole: int) -> int:
    return part * 100 // whole if whole else 0
