"""Prints the decisions for the pending pods of a cluster, as tables, JSON or YAML."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.progress import track
from rich.text import Text

from linkwise.cli.inputs.snapshot import current_cluster, load_broker
from linkwise.cli.options.io import file_name
from linkwise.cli.render.documents import list_document, print_data
from linkwise.cli.render.tables import Table, print_sentences, print_table, terminal
from linkwise.engine.reasons.catalog import counted_nodes, devices_text
from linkwise.sim.replay import Runner, differs, explained

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from linkwise.explain.reports import ContainerDevices
    from linkwise.sim.replay import Decision

__all__ = ["decide", "show", "show_differences"]

_INSTEAD: Final = "name a FILE to replay a recorded cluster"
File = tuple[str, "Sequence[Decision]"]
"""the name of a file and its decisions"""


def decide(
    file: str | None, kubeconfig: Path | None = None, context: str | None = None, *, explain: bool
) -> list[Decision]:
    """Decide every pending pod of a file (`-` for standard input), or of the current cluster; a terminal shows progress."""
    runner = Runner(*(load_broker(file) if file is not None else current_cluster(kubeconfig, context, _INSTEAD)))
    console = Console(stderr=True)
    pods = track(
        runner.waiting(),
        f"placing the pods of {file_name(file or 'the cluster')}",
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    return [explained(runner, runner.place(pod)) if explain else runner.place(pod) for pod in pods]


def show(decisions: Sequence[Decision], form: str | None) -> None:
    """Print all decisions in order."""
    if form == "name":
        _write(f"pod/{decision.pod.partition('/')[2]}" for decision in decisions)
        return
    if form in {"json", "yaml"}:
        print_data(list_document("Decision", (asdict(decision) for decision in decisions)), form)
        return
    console = terminal()
    if not decisions:
        console.print("no pending pods")
        return
    table = Table(("pod", "node", "devices", "policy", "reason"))
    for decision in decisions:
        table.add(decision.pod, *_cells(decision))
    print_table(console, table, cut=form != "wide")
    pending = sum(not decision.node for decision in decisions)
    console.print(f"{len(decisions) - pending} placed, {pending} pending", style="bold")
    for decision in decisions:
        _explain(console, decision.pod, decision)


def show_differences(one: File, other: File, form: str | None) -> bool:
    """Print pods with another node or other devices; return whether there are any."""
    before, after = ({decision.pod: decision for decision in decisions} for _, decisions in (one, other))
    pods = [pod for pod in {**before, **after} if differs(before.get(pod), after.get(pod))]
    if form == "name":
        _write(f"pod/{pod.partition('/')[2]}" for pod in pods)
        return bool(pods)
    if form in {"json", "yaml"}:
        changes = ({"pod": pod, "file": _plain(before.get(pod)), "other": _plain(after.get(pod))} for pod in pods)
        print_data(list_document("Difference", changes), form)
        return bool(pods)
    console = terminal()
    if not pods:
        console.print(f"no differences in {len(before)} pending pods")
        return False
    table = Table(("pod", one[0], other[0]))
    for pod in pods:
        table.add(pod, _summary(before.get(pod)), _summary(after.get(pod)))
    print_table(console, table)
    console.print(f"{len(pods)} of {len({**before, **after})} pods differ", style="bold")
    for pod in pods:
        for file, decision in ((one[0], before.get(pod)), (other[0], after.get(pod))):
            _explain(console, f"{pod} in {file}", decision)
    return True


def _write(lines: Iterable[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _cells(decision: Decision) -> tuple[str | Text, ...]:
    """Return the node, the devices, the policy and the reasons."""
    policy = decision.policy or "-"
    if not decision.node:
        return Text("Pending", "yellow"), "-", policy, _reasons(decision)
    note = "not all nodes were evaluated" if decision.partial else "-"
    return Text(decision.node, "green"), _devices(decision) or "-", policy, note


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
    print_sentences(console, decision.why)


def _plain(decision: Decision | None) -> dict[str, Any] | None:
    return asdict(decision) if decision else None
