"""Nodes that are heard of and nodes that are not, as the node controller of Kubernetes writes it.

What a user of the cluster does to its machines, by annotations of a Node: devices die, and nodes fall silent.

`sim.linkwise.dev/dead: "3,5"` are positions of devices that do not work; `sim.linkwise.dev/silent: "true"` is a node of
which nothing is heard. Whoever takes the annotation away mends what it broke. What is not understood changes nothing,
and an event of the node says so.
"""
# Joined from simulated_health, simulated_wishes: one docstring for all.

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.embedded.event_recorder import EventRecorder
from linkwise.embedded.runtime import follow
from linkwise.errors import InputError

if TYPE_CHECKING:
    from linkwise.embedded.nodes.kubelet import SimulatedNodes
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.storage.watches import WatchEvent
    from linkwise.embedded.store import Store

__all__ = ["DEAD", "SILENT", "UNREACHABLE", "FaultAnnotations", "Health"]

UNREACHABLE: Final = "node.kubernetes.io/unreachable"


class Health:
    """Which nodes of a store are silent."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._silent: set[str] = set()

    def is_silent(self, node: str) -> bool:
        """Whether nobody has heard of it lately."""
        return node in self._silent

    def silence(self, node: str) -> None:
        """Nothing is heard of a node any more."""
        now = self._store.database.now
        taints = [{"key": UNREACHABLE, "effect": effect, "timeAdded": now} for effect in ("NoSchedule", "NoExecute")]
        told = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
        self._write(node, [*self._others(node), *taints], told)
        self._silent.add(node)

    def wake(self, node: str) -> None:
        """It is heard of again."""
        self._silent.discard(node)
        self._write(node, self._others(node), ("True", "KubeletReady", "kubelet is posting ready status"))

    def _others(self, node: str) -> list[Raw]:
        taints = self._store.get("nodes", node).read()["spec"].get("taints") or ()
        return [taint for taint in taints if taint["key"] != UNREACHABLE]

    def _write(self, node: str, taints: list[Raw], told: tuple[str, str, str]) -> None:
        status, reason, message = told
        now = self._store.database.now
        ready = {"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": now}
        self._store.patch("nodes", node, {"spec": {"taints": taints or None}})
        self._store.patch("nodes", node, {"status": {"conditions": [ready]}}, subresource="status")


DEAD: Final = "sim.linkwise.dev/dead"
SILENT: Final = "sim.linkwise.dev/silent"
_PREFIX: Final = "sim.linkwise.dev/"
_MARK: Final = f'"{_PREFIX}'.encode()
_SILENCE: Final = {"true": True, "false": False}
_POSITION: Final = re.compile(r"[0-9]{1,4}")
_SHOWN: Final = 40  # characters of what is not understood


class FaultAnnotations:
    """Follows the nodes of a store and does to them what they say; `run` it beside everything else."""

    def __init__(self, store: Store, nodes: SimulatedNodes) -> None:
        self._store, self._nodes = store, nodes
        self._dead: dict[str, frozenset[int]] = {}
        self._silent: set[str] = set()
        self._recorder = EventRecorder(store, "simulation")

    async def run(self) -> None:
        """Until cancelled."""
        await follow(self._store, "nodes", self._hear)

    def _hear(self, event: WatchEvent) -> None:
        name = event.stored.name
        if event.type == "DELETED":
            self._dead.pop(name, None)
            self._silent.discard(name)
        elif _MARK in event.stored.data or name in self._dead or name in self._silent:
            meta = event.object["metadata"]
            problems = self._grant(name, meta.get("annotations") or {}, meta.get("labels") or {})
            for sentence in problems:
                self._recorder.record(event.object, "Warning", "NotUnderstood", sentence)

    def _grant(self, name: str, notes: dict[str, str], labels: dict[str, str]) -> list[str]:
        """Do as the annotations say; what is not understood of them, in sentences."""
        problems = [
            f"{key}: it is a label; only annotations count" for key in sorted(labels) if key.startswith(_PREFIX)
        ]
        strange = sorted(key for key in notes if key.startswith(_PREFIX) and key not in {DEAD, SILENT})
        problems += [f"{key}: no such annotation; there are {DEAD} and {SILENT}" for key in strange]
        try:
            self._break(name, _positions(notes.get(DEAD, "")))
        except InputError as error:
            problems.append(f"{DEAD}: {error}")
        silent = notes.get(SILENT, "false")
        if silent in _SILENCE:
            self._silence(name, silent=_SILENCE[silent])
        else:
            problems.append(f"{SILENT}: expected 'true' or 'false', got {silent[:_SHOWN]!r}")
        return problems

    def _break(self, node: str, dead: frozenset[int]) -> None:
        before = self._dead.get(node, frozenset())
        known = self._nodes.devices.positions(node)
        if odd := sorted(dead - before - set(known)):  # before any dies: it is all that is said, or nothing
            raise InputError(f"node {node} has no device {odd[0]}: {', '.join(map(str, known))}")
        for index in sorted(before - dead):
            self._nodes.mend_device(node, index)
            self._keep(node, self._dead[node] - {index})
        for index in sorted(dead - before):
            self._nodes.kill_device(node, index)
            self._keep(node, self._dead.get(node, frozenset()) | {index})

    def _keep(self, node: str, dead: frozenset[int]) -> None:
        self._dead[node] = dead
        if not dead:
            del self._dead[node]

    def _silence(self, node: str, *, silent: bool) -> None:
        if silent and node not in self._silent:
            self._silent.add(node)
            self._nodes.silence(node)
        elif not silent and node in self._silent:
            self._silent.discard(node)
            self._nodes.wake(node)


def _positions(text: str) -> frozenset[int]:
    parts = [subresource.strip() for subresource in text.split(",") if subresource.strip()]
    if odd := [subresource for subresource in parts if not _POSITION.fullmatch(subresource)]:
        raise InputError(f"{odd[0][:_SHOWN]!r} is no position of a device; expected such as 3 or 3,5")
    return frozenset(map(int, parts))
