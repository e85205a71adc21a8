"""What a user of the cluster does to its machines, by annotations of a Node: devices die, and nodes fall silent.

`sim.linkwise.dev/dead: "3,5"` are positions of devices that do not work; `sim.linkwise.dev/silent: "true"` is a node of
which nothing is heard. Whoever takes the annotation away mends what it broke.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.embedded.cluster_news import follow
from linkwise.embedded.scheduling_events import Recorder
from linkwise.errors import InputError

if TYPE_CHECKING:
    from linkwise.embedded.simulated import SimulatedNodes
    from linkwise.embedded.store import Store
    from linkwise.embedded.watching import News

__all__ = ["DEAD", "SILENT", "Wishes"]

DEAD: Final = "sim.linkwise.dev/dead"
SILENT: Final = "sim.linkwise.dev/silent"
_MARK: Final = b'"sim.linkwise.dev/'


class Wishes:
    """Follows the nodes of a store and does to them what they say; `run` it beside everything else."""

    def __init__(self, store: Store, nodes: SimulatedNodes) -> None:
        self._store, self._nodes = store, nodes
        self._dead: dict[str, frozenset[int]] = {}
        self._silent: set[str] = set()
        self._recorder = Recorder(store, "simulation")

    async def run(self) -> None:
        """Until cancelled."""
        await follow(self._store, "nodes", self._hear)

    def _hear(self, news: News) -> None:
        name = news.stored.name
        if news.type == "DELETED":
            self._dead.pop(name, None)
            self._silent.discard(name)
        elif _MARK in news.stored.data or name in self._dead or name in self._silent:
            notes = news.object["metadata"].get("annotations") or {}
            try:
                self._break(name, _positions(notes.get(DEAD, "")))
            except InputError as error:
                self._recorder.tell(news.object, "Warning", "NotUnderstood", f"{DEAD}: {error}")
            self._silence(name, silent=notes.get(SILENT, "") == "true")

    def _break(self, node: str, dead: frozenset[int]) -> None:
        before = self._dead.get(node, frozenset())
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
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if odd := [part for part in parts if not part.isdecimal()]:
        raise InputError(f"{odd[0]!r} is no position of a device, such as 3 or 3,5")
    return frozenset(map(int, parts))
