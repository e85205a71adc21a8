"""Fault injection with node annotations.

`sim.linkwise.dev/dead: "3,5"` makes the devices at these positions unhealthy; `sim.linkwise.dev/silent: "true"` makes the
node unreachable. Removing the annotation repairs the fault. Invalid values are ignored and reported in an event on the node.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.embedded.runtime import EventRecorder, follow
from linkwise.errors import InputError

if TYPE_CHECKING:
    from linkwise.embedded.nodes.kubelet import SimulatedNodes
    from linkwise.embedded.storage.list_watch import WatchEvent
    from linkwise.embedded.store import Store

__all__ = ["DEAD", "SILENT", "FaultAnnotations"]


DEAD: Final = "sim.linkwise.dev/dead"
SILENT: Final = "sim.linkwise.dev/silent"
_PREFIX: Final = "sim.linkwise.dev/"
_MARK: Final = f'"{_PREFIX}'.encode()
_BOOLEANS: Final = {"true": True, "false": False}
_POSITION: Final = re.compile(r"[0-9]{1,4}")
_QUOTE_LENGTH: Final = 40  # characters quoted of an invalid value


class FaultAnnotations:
    """Applies the fault annotations of nodes; `run` it next to the other components."""

    def __init__(self, store: Store, nodes: SimulatedNodes) -> None:
        self._store, self._nodes = store, nodes
        self._dead: dict[str, frozenset[int]] = {}
        self._unreachable: set[str] = set()
        self._recorder = EventRecorder(store, "simulation")

    async def run(self) -> None:
        """Watch nodes until cancelled."""
        await follow(self._store, "nodes", self._on_node)

    def _on_node(self, event: WatchEvent) -> None:
        name = event.stored.name
        if event.type == "DELETED":
            self._dead.pop(name, None)
            self._unreachable.discard(name)
        elif _MARK in event.stored.data or name in self._dead or name in self._unreachable:
            meta = event.object["metadata"]
            problems = self._apply(name, meta.get("annotations") or {}, meta.get("labels") or {})
            for message in problems:
                self._recorder.record(event.object, "Warning", "NotUnderstood", message)

    def _apply(self, name: str, annotations: dict[str, str], labels: dict[str, str]) -> list[str]:
        """Apply the annotations; returns a message for each invalid one."""
        problems = [
            f"{key} is set as a label and ignored; set it as an annotation"
            for key in sorted(labels)
            if key.startswith(_PREFIX)
        ]
        unknown = sorted(key for key in annotations if key.startswith(_PREFIX) and key not in {DEAD, SILENT})
        problems += [f"unknown annotation {key}; supported: {DEAD}, {SILENT}" for key in unknown]
        try:
            self._set_dead_devices(name, _parse_positions(annotations.get(DEAD, "")))
        except InputError as error:
            problems.append(f"{DEAD}: {error}")
        silent = annotations.get(SILENT, "false")
        if silent in _BOOLEANS:
            self._set_silent(name, silent=_BOOLEANS[silent])
        else:
            problems.append(f"{SILENT}: expected 'true' or 'false', got {silent[:_QUOTE_LENGTH]!r}")
        return problems

    def _set_dead_devices(self, node: str, dead: frozenset[int]) -> None:
        before = self._dead.get(node, frozenset())
        known = self._nodes.reports.positions(node)
        if missing := sorted(dead - before - set(known)):  # checked first: all positions are applied, or none
            raise InputError(f"node {node} has no device {missing[0]}; its devices are {', '.join(map(str, known))}")
        for index in sorted(before - dead):
            self._nodes.repair_device(node, index)
            self._remember(node, self._dead[node] - {index})
        for index in sorted(dead - before):
            self._nodes.kill_device(node, index)
            self._remember(node, self._dead.get(node, frozenset()) | {index})

    def _remember(self, node: str, dead: frozenset[int]) -> None:
        self._dead[node] = dead
        if not dead:
            del self._dead[node]

    def _set_silent(self, node: str, *, silent: bool) -> None:
        if silent and node not in self._unreachable:
            self._unreachable.add(node)
            self._nodes.stop_heartbeat(node)
        elif not silent and node in self._unreachable:
            self._unreachable.discard(node)
            self._nodes.resume_heartbeat(node)


def _parse_positions(text: str) -> frozenset[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if invalid := [part for part in parts if not _POSITION.fullmatch(part)]:
        raise InputError(f"{invalid[0][:_QUOTE_LENGTH]!r} is not a device position; use, for example, 3 or 3,5")
    return frozenset(map(int, parts))
