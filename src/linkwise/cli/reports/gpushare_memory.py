"""Device memory in the format of `kubectl inspect gpushare`, so that scripts that parse it keep working.

Cells are padded to the widest of their column plus two spaces; a column block ends at the first line without it.

Source: seed 004, its sample output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.render.documents import list_document, object_document, print_data
from linkwise.dialects.aliyun import MEMORY
from linkwise.explain.inspect import inspect_nodes
from linkwise.views.blocks import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.explain.inspect import InspectedDevice, NodeInspection
    from linkwise.views.cluster import ClusterView

__all__ = ["MemoryNode", "memory_nodes", "padded", "show_details", "show_documents", "show_summary"]

COLUMN_GAP: Final = 2
TAB: Final = "\t"
RULE_SUMMARY, RULE_DETAILS = 20, 10
"""extra length of the rule beyond the longest unpadded row"""
_NOTHING: Final = frozenset({"", "0"})


@dataclass(frozen=True, slots=True)
class MemoryNode:
    """A node that shares the memory of its devices."""

    node: NodeInspection
    address: str

    @property
    def pending(self) -> int:
        """The memory of pods whose device is not recorded."""
        return sum(pod.share for pod in self.node.unattributed)

    @property
    def cards(self) -> int:
        """The number of device columns."""
        return max((device.index + 1 for device in self.node.devices), default=0)

    def by_index(self) -> dict[int, InspectedDevice]:
        """Return the devices by index."""
        return {device.index: device for device in self.node.devices}


def memory_nodes(cluster: ClusterView, name: str | None) -> list[MemoryNode]:
    """Return the nodes that share memory, by name; print a note if their units differ."""
    views = cluster.broker.nodes
    nodes = [
        MemoryNode(node, views[node.name].address or "unknown")
        for node in inspect_nodes(cluster.broker, name, cluster.now)
        if views[node.name].allocatable.get(MEMORY, "") not in _NOTHING
    ]
    units = sorted({node.node.unit for node in nodes})
    if len(units) > 1:
        click.echo(
            f"note: nodes use different units ({' and '.join(units)}): totals of the cluster are not meaningful",
            err=True,
        )
    return nodes


def show_summary(nodes: Sequence[MemoryNode]) -> str:
    """Return one row per node."""
    cards = max((node.cards for node in nodes), default=0)
    pending = any(node.pending for node in nodes)
    unit = nodes[0].node.unit if nodes else "GiB"
    heading = [f"GPU{card}(Allocated/Total)" for card in range(cards)] + ["PENDING(Allocated)"] * pending
    rows = [TAB.join(["NAME", "IPADDRESS", *heading, f"GPU Memory({unit})"])]
    rows += [_summary(node, cards, pending=pending) for node in nodes]
    longest = max((len(row) + 1 for row in rows[1:]), default=0)
    lines = [*rows, "-" * (longest + RULE_SUMMARY), "Allocated/Total GPU Memory In Cluster:", _sum(nodes)]
    return padded(lines)


def show_details(nodes: Sequence[MemoryNode]) -> str:
    """Return one table per node, with one row per pod."""
    # rule 004.inspect: the same output, character by character; only the length of the rule follows the longest row.
    tables = [_pods(node) for node in nodes]
    longest = max((len(row) + 1 for rows in tables for row in rows), default=0)
    rule = "-" * (longest + RULE_DETAILS)
    lines: list[str] = []
    for node, rows in zip(nodes, tables, strict=True):
        columns = [f"GPU{card}(Allocated)" for card in range(node.cards)] + ["Pending(Allocated)"] * bool(node.pending)
        heading = _row("NAME", "NAMESPACE", *columns)
        taken, memory = node.node.taken, node.node.memory
        lines += ["", f"NAME:{TAB}{node.node.name}", f"IPADDRESS:{TAB}{node.address}", "", heading, *rows]
        lines += [_row("Allocated :", f"{taken} ({_percent(taken, memory)}%)"), _row("Total :", f"{memory} "), rule]
    return padded([*lines, "", "", f"Allocated/Total GPU Memory In Cluster:{TAB}{_sum(nodes)}"])


def show_documents(nodes: Sequence[MemoryNode], form: str, *, alone: bool) -> None:
    """Print the nodes as JSON, YAML or names; the one that was named alone."""
    if form == "name":
        click.echo("".join(f"node/{node.node.name}\n" for node in nodes), nl=False)
        return
    documents = [{**plain(node.node), "address": node.address, "pending": node.pending} for node in nodes]
    one = object_document("Node", documents[0]) if alone and documents else list_document("Node", documents)
    print_data(one, form)


def padded(lines: Iterable[str]) -> str:
    """Align the cells, each terminated by a tab, in columns."""
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
                widths[member][column] = width + COLUMN_GAP
            block = []
    return "".join(
        "".join(cell.ljust(widths[number].get(column, 0)) for column, cell in enumerate(row)) + "\n"
        for number, row in enumerate(rows)
    )


def _summary(node: MemoryNode, cards: int, *, pending: bool) -> str:
    devices = node.by_index()
    filled = [f"{_taken(devices[card])}/{devices[card].memory}" if card in devices else "0/0" for card in range(cards)]
    pending_cells = [str(node.pending or "")] * pending
    return TAB.join([node.node.name, node.address, *filled, *pending_cells, f"{node.node.taken}/{node.node.memory}"])


def _pods(node: MemoryNode) -> list[str]:
    """Return one row per pod in device order; memory without a recorded device comes last."""
    width = node.cards + bool(node.pending)
    amounts: dict[tuple[str, str], list[int]] = {}
    for device in node.node.devices:
        for pod in device.pods:
            row = amounts.setdefault((pod.name, pod.namespace), [0] * width)
            row[device.index] += device.memory if pod.whole else pod.share
    for pod in node.node.unattributed:
        if pod.share:
            amounts.setdefault((pod.name, pod.namespace), [0] * width)[-1] += pod.share
    return [_row(*name, *map(str, row)) for name, row in amounts.items()]


def _row(*cells: str) -> str:
    return "".join(f"{cell}{TAB}" for cell in cells)


def _taken(device: InspectedDevice) -> int:
    return device.memory if device.whole else device.share


def _sum(nodes: Sequence[MemoryNode]) -> str:
    taken, memory = (sum(values) for values in ([n.node.taken for n in nodes], [n.node.memory for n in nodes]))
    return f"{taken}/{memory} ({_percent(taken, memory)}%){TAB}"


def _percent(part: int, whole: int) -> int:
    return part * 100 // whole if whole else 0
