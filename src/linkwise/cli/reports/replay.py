"""Prints the decisions for the pending pods of a recorded cluster, as tables or JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.progress import track
from rich.text import Text

from linkwise.cli.inputs.snapshot import load_broker
from linkwise.cli.options.files import file_name
from linkwise.cli.render.tables import headed_table, print_table
from linkwise.engine.reasons.catalog import counted_nodes, devices_text
from linkwise.sim.replay import Runner, differs, explained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.explain.reports.pod import ContainerDevices
    from linkwise.sim.replay import Decision

__all__ = ["decide", "show", "show_differences"]

File = tuple[str, "Sequence[Decision]"]
"""the name of a file and its decisions"""


def decide(file: str, *, explain: bool) -> list[Decision]:
    """Decide every pending pod of the file (`-` for standard input); a terminal shows progress."""
    runner = Runner(*load_broker(file))
    console = Console(stderr=True)
    pods = track(
        runner.waiting(),
        f"placing the pods of {file_name(file)}",
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    return [explained(runner, runner.place(pod)) if explain else runner.place(pod) for pod in pods]


def show(decisions: Sequence[Decision], *, as_json: bool) -> None:
    """Print all decisions in order."""
    if as_json:
        print_json([asdict(decision) for decision in decisions])
        return
    console = _console()
    if not decisions:
        console.print("no pending pods")
        return
    table = headed_table("pod", "node", "devices", "policy or reason", names=("pod", "node"))
    for decision in decisions:
        table.add_row(decision.pod, *_cells(decision))
    print_table(console, table)
    pending = sum(not decision.node for decision in decisions)
    console.print(f"{len(decisions) - pending} placed, {pending} pending", style="bold")
    for decision in decisions:
        _explain(console, decision.pod, decision)


def show_differences(one: File, other: File, *, as_json: bool) -> bool:
    """Print pods with another node or other devices; return whether there are any."""
    before, after = ({decision.pod: decision for decision in decisions} for _, decisions in (one, other))
    pods = [pod for pod in {**before, **after} if differs(before.get(pod), after.get(pod))]
    if as_json:
        print_json([{"pod": pod, "file": _plain(before.get(pod)), "other": _plain(after.get(pod))} for pod in pods])
        return bool(pods)
    console = _console()
    if not pods:
        console.print(f"no differences in {len(before)} pending pods")
        return False
    table = headed_table("pod", one[0], other[0], names=("pod",))
    for pod in pods:
        table.add_row(pod, _summary(before.get(pod)), _summary(after.get(pod)))
    print_table(console, table)
    console.print(f"{len(pods)} of {len({**before, **after})} pods differ", style="bold")
    for pod in pods:
        for file, decision in ((one[0], before.get(pod)), (other[0], after.get(pod))):
            _explain(console, f"{pod} in {file}", decision)
    return True


def print_json(document: object) -> None:
    """Print a document as indented JSON."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def _console() -> Console:
    return Console(highlight=False, markup=False)


def _cells(decision: Decision) -> tuple[Text, Text, Text]:
    """Return the node, the devices, and the policy or the reasons."""
    if not decision.node:
        return Text("Pending", "yellow"), Text("-"), Text(_reasons(decision))
    note = " (not all nodes were evaluated)" if decision.partial else ""
    return Text(decision.node, "green"), Text(_devices(decision) or "-"), Text((decision.policy or "-") + note)


def _summary(decision: Decision | None) -> Text:
    if decision is None:
        return Text("not pending", "dim")
    if not decision.node:
        return Text(f"Pending: {_reasons(decision)}", "yellow")
    return Text(f"{decision.node} {_devices(decision)}".rstrip(), "green")


def _reasons(decision: Decision) -> str:
    return "; ".join(counted_nodes(count, text) for text, count in decision.reasons.items()) or "no nodes"


def _devices(decision: Decision) -> str:
    several = len(decision.devices) > 1
    return ", ".join(
        f"{part.container} {_part_text(part)}" if several else _part_text(part) for part in decision.devices
    )


def _part_text(part: ContainerDevices) -> str:
    devices = devices_text(part.indices)
    return f"{part.share} of {devices}" if part.share else devices


def _explain(console: Console, heading: str, decision: Decision | None) -> None:
    if decision is None or not decision.why:
        return
    console.print(f"\n{heading}", style="bold")
    for line in decision.why:
        console.print(Padding.indent(Text(line), 2))


def _plain(decision: Decision | None) -> dict[str, Any] | None:
    return asdict(decision) if decision else None
