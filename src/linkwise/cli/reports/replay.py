"""Decisions about the waiting pods of a file, shown to a person or as JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.progress import track
from rich.text import Text

from linkwise.assembly.snapshot_reader import load_broker
from linkwise.cli.options.files import file_name
from linkwise.cli.render.tables import headed_table, print_table
from linkwise.engine.reasons.catalog import devices_text
from linkwise.sim.replay import Runner, differs, explained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.explain.reports.pod import Given
    from linkwise.sim.replay import Decision

__all__ = ["decide", "show", "show_differences"]

File = tuple[str, "Sequence[Decision]"]
"""a file's name, and what follows from it"""


def decide(file: str, *, explain: bool) -> list[Decision]:
    """A decision for every waiting pod of the file, `-` for standard input; progress is shown where a person waits."""
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
    """All decisions in the order in which they were made."""
    if as_json:
        print_json([asdict(decision) for decision in decisions])
        return
    console = _console()
    if not decisions:
        console.print("no pod waits")
        return
    table = headed_table("pod", "node", "devices", "policy, or why it waits", names=("pod", "node"))
    for decision in decisions:
        table.add_row(decision.pod, *_cells(decision))
    print_table(console, table)
    waiting = sum(not decision.node for decision in decisions)
    console.print(f"{len(decisions) - waiting} placed, {waiting} waiting", style="bold")
    for decision in decisions:
        _explain(console, decision.pod, decision)


def show_differences(one: File, other: File, *, as_json: bool) -> bool:
    """Pods that go elsewhere, or get other devices; whether there are any."""
    before, after = ({decision.pod: decision for decision in decisions} for _, decisions in (one, other))
    pods = [pod for pod in {**before, **after} if differs(before.get(pod), after.get(pod))]
    if as_json:
        print_json([{"pod": pod, "file": _plain(before.get(pod)), "other": _plain(after.get(pod))} for pod in pods])
        return bool(pods)
    console = _console()
    if not pods:
        console.print(f"all {len(before)} waiting pods are decided alike")
        return False
    table = headed_table("pod", one[0], other[0], names=("pod",))
    for pod in pods:
        table.add_row(pod, _words(before.get(pod)), _words(after.get(pod)))
    print_table(console, table)
    console.print(f"{len(pods)} of {len({**before, **after})} pods are decided otherwise", style="bold")
    for pod in pods:
        for file, found in ((one[0], before.get(pod)), (other[0], after.get(pod))):
            _explain(console, f"{pod} in {file}", found)
    return True


def print_json(document: object) -> None:
    """The document, indented."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def _console() -> Console:
    return Console(highlight=False, markup=False)


def _cells(decision: Decision) -> tuple[Text, Text, Text]:
    """Node, devices, and the policy or the reasons."""
    if not decision.node:
        return Text("waits", "yellow"), Text("-"), Text(_reasons(decision))
    note = " (not all nodes were judged)" if decision.partial else ""
    return Text(decision.node, "green"), Text(_devices(decision) or "-"), Text((decision.policy or "-") + note)


def _words(decision: Decision | None) -> Text:
    if decision is None:
        return Text("no such pod waits", "dim")
    if not decision.node:
        return Text(f"waits: {_reasons(decision)}", "yellow")
    return Text(f"{decision.node} {_devices(decision)}".rstrip(), "green")


def _reasons(decision: Decision) -> str:
    return "; ".join(f"{text} ({count})" for text, count in decision.reasons.items()) or "there is no node"


def _devices(decision: Decision) -> str:
    several = len(decision.devices) > 1
    return ", ".join(f"{held.container} {_held(held)}" if several else _held(held) for held in decision.devices)


def _held(held: Given) -> str:
    devices = devices_text(held.indices)
    return f"{held.share} of {devices}" if held.share else devices


def _explain(console: Console, heading: str, decision: Decision | None) -> None:
    if decision is None or not decision.why:
        return
    console.print(f"\n{heading}", style="bold")
    for line in decision.why:
        console.print(Padding.indent(Text(line), 2))


def _plain(decision: Decision | None) -> dict[str, Any] | None:
    return asdict(decision) if decision else None
