"""Who was promised which devices, from the promise until the containers have stopped.

PLANNED    promised to a member of a plan; the only state that ends by the clock
ASSUMED    promised by a bind that is not seen yet
ASSIGNED   seen bound
RELEASING  being deleted; the devices stay taken until the containers have stopped

One table says what may happen in which state. What it does not list is a mistake of the caller, and changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from linkwise.errors import LedgerError
from linkwise.model.ledger_entry import Entry, Outcome, State
from linkwise.speed.fast_dataclass import fast_constructor

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from linkwise.model.verdict import Part

__all__ = ["TABLE", "Entry", "Happening", "Ledger", "Outcome", "State", "is_whole"]

Happening = Literal["plan", "drop", "promise", "written", "refused", "unknown", "seen", "leaving", "gone"]

TABLE: Final[Mapping[tuple[State | None, Happening], State | None]] = {
    (None, "plan"): "PLANNED",
    ("PLANNED", "plan"): "PLANNED",  # planned anew
    ("PLANNED", "drop"): None,  # its time is over, or the plan can't be kept
    (None, "promise"): "ASSUMED",
    ("PLANNED", "promise"): "ASSUMED",
    ("ASSUMED", "promise"): "ASSUMED",  # asked again
    ("ASSUMED", "written"): "ASSUMED",
    ("ASSUMED", "unknown"): "ASSUMED",  # it may have been written: only the watch or a read can tell
    ("ASSUMED", "refused"): None,
    # News of a bind that come after the watch has seen the pod tell nothing new.
    ("ASSIGNED", "written"): "ASSIGNED",
    ("ASSIGNED", "unknown"): "ASSIGNED",
    ("ASSIGNED", "refused"): "ASSIGNED",
    ("RELEASING", "written"): "RELEASING",
    ("RELEASING", "unknown"): "RELEASING",
    ("RELEASING", "refused"): "RELEASING",
    (None, "seen"): "ASSIGNED",
    ("PLANNED", "seen"): "ASSIGNED",
    ("ASSUMED", "seen"): "ASSIGNED",
    ("ASSIGNED", "seen"): "ASSIGNED",
    ("RELEASING", "seen"): "RELEASING",  # a deletion is never taken back: this is old news
    (None, "leaving"): "RELEASING",
    ("PLANNED", "leaving"): "RELEASING",
    ("ASSUMED", "leaving"): "RELEASING",
    ("ASSIGNED", "leaving"): "RELEASING",
    ("RELEASING", "leaving"): "RELEASING",
    (None, "gone"): None,
    ("PLANNED", "gone"): None,
    ("ASSUMED", "gone"): None,
    ("ASSIGNED", "gone"): None,
    ("RELEASING", "gone"): None,
}

_entry: Final = fast_constructor(Entry)


class Ledger:
    """At most one entry a pod, by UID; `touched` names the nodes whose entries changed since it was last emptied."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._by_node: dict[str, dict[str, Entry]] = {}
        self._serial = 0
        self.touched: set[str] = set()

    def get(self, pod: str) -> Entry | None:
        """The pod's entry."""
        return self._entries.get(pod)

    def entries(self) -> Iterable[Entry]:
        """All of them, the one that changed last at the end."""
        return self._entries.values()

    def on(self, node: str) -> list[Entry]:
        """The entries of a node, the oldest pod first: an order that does not depend on when they were seen."""
        found = list(self._by_node.get(node, {}).values())
        return sorted(found, key=lambda entry: (entry.created, entry.pod)) if len(found) > 1 else found

    def plan(self, entries: Sequence[Entry], told: Collection[str] = ()) -> None:
        """Promise devices to the members of a plan, to all of them or to none; `told` as for a single promise."""
        for entry in entries:
            self._check(entry, "plan")
            if entry.expires is None:
                raise LedgerError(f"the plan for pod {entry.pod} has no end")
        self._check_together(entries, told)
        for entry in entries:
            self._set(replace(entry, state="PLANNED"))

    def promise(self, entry: Entry, told: Collection[str] = ()) -> Entry:
        """Promise devices to a pod that is about to be bound; the entry returned holds the number of the bind.

        `told` names pods of which the node's agent tells what they use: what their record says does not count.
        """
        self._check(entry, "promise")
        self._check_together([entry], told)
        known = self._entries.get(entry.pod)
        self._serial += 1
        numbers = (*(known.open if known else ()), self._serial)
        before = known.outcome if known else None
        what = (entry.namespace, entry.created, entry.untold)
        return self._set(_entry(entry.grant, "ASSUMED", *what, self._serial, numbers, before))

    def taken(self, entry: Entry, told: Collection[str] = ()) -> bool:
        """Whether another pod has devices of a promise as well: somebody else may have bound it; `told` as for a promise."""
        return bool(self._clash([entry], told))

    def outcome(self, pod: str, serial: int, outcome: Outcome) -> bool:
        """How a bind ended; false if nothing follows: it is over already, or another bind of the pod may be written."""
        entry = self._entries.get(pod)
        if entry is None or serial not in entry.open or entry.outcome == "written":
            return False
        state = self._next(pod, outcome)
        numbers = tuple(number for number in entry.open if number != serial or outcome == "unknown")
        if outcome == "refused" and numbers:
            self._set(replace(entry, open=numbers))
            return False
        if state is None:
            self._remove(pod)
        else:
            what = (entry.namespace, entry.created, entry.untold, entry.serial)
            self._set(_entry(entry.grant, state, *what, numbers, outcome, entry.expires))
        return True

    def seen(self, entry: Entry, *, leaving: bool) -> Entry:
        """Believe what the watch shows of a bound pod, whoever bound it."""
        state = self._next(entry.pod, "leaving" if leaving else "seen")
        known = self._entries.get(entry.pod)
        serial = known.serial if known else 0
        where = (entry.namespace, entry.created, entry.untold)
        return self._set(_entry(entry.grant, state or "ASSIGNED", *where, serial, entry.open, "written"))

    def gone(self, pod: str) -> bool:
        """Let go of what a pod had; false if it had nothing."""
        self._next(pod, "gone")
        return self._remove(pod)

    def drop(self, pods: Iterable[str]) -> None:
        """Take planned promises back."""
        dropped = list(pods)
        for pod in dropped:
            self._next(pod, "drop")
        for pod in dropped:
            self._remove(pod)

    def restore(self, entries: Iterable[Entry], serial: int) -> None:
        """Become what a snapshot holds."""
        for pod in list(self._entries):
            self._remove(pod)
        for entry in entries:
            self._set(entry)
        self._serial = serial

    @property
    def serial(self) -> int:
        """The number of the last promise."""
        return self._serial

    def _next(self, pod: str, happening: Happening) -> State | None:
        known = self._entries.get(pod)
        state = known.state if known else None
        if (state, happening) not in TABLE:
            raise LedgerError(f"pod {pod} is {state or 'in no state'}: {happening!r} can't happen to it")
        return TABLE[state, happening]

    def _check(self, entry: Entry, happening: Happening) -> None:
        """Raise LedgerError if it can't happen, or if the pod has another promise that is not its plan."""
        self._next(entry.pod, happening)
        known = self._entries.get(entry.pod)
        if known and known.state == "ASSUMED" and _claim(known) != _claim(entry):
            raise LedgerError(f"pod {entry.pod} was promised other devices, and that bind has not ended")

    def _check_together(self, entries: Sequence[Entry], told: Collection[str]) -> None:
        """Raise LedgerError if a device would be promised twice: to two of these, or to one of these and another pod."""
        if len({entry.pod for entry in entries}) < len(entries):
            raise LedgerError("one pod would be promised devices twice")
        if clash := self._clash(entries, told):
            raise LedgerError(clash)

    def _clash(self, entries: Sequence[Entry], told: Collection[str]) -> str:
        if len(entries) == 1 and not self._overlaps(entries[0]):
            return ""
        own = {entry.pod for entry in entries}
        claims: dict[tuple[str, str], list[tuple[str, Part]]] = {}
        nodes = {entry.node for entry in entries}
        away = {*own, *told}
        others = [known for node in nodes for pod, known in self._by_node.get(node, {}).items() if pod not in away]
        for entry in (*others, *entries):
            for part in entry.grant.offer.parts:
                for device in part.devices:
                    claims.setdefault((entry.node, device), []).append((entry.pod, part))
        for (node, device), claimed in claims.items():
            pods = dict.fromkeys(pod for pod, _ in claimed)
            whole = any(is_whole(part) for _, part in claimed)
            if whole and len(pods) > 1 and own & pods.keys():
                return f"device {device} of {node} would be promised to {' and '.join(pods)}"
        return ""

    def _overlaps(self, entry: Entry) -> bool:
        """Whether some pod of the node has, in whatever way, a device of this entry."""
        devices = {device for part in entry.grant.offer.parts for device in part.devices}
        others = self._by_node.get(entry.node, {}).values()
        return any(not devices.isdisjoint(part.devices) for other in others for part in other.grant.offer.parts)

    def _set(self, entry: Entry) -> Entry:
        pod, known = entry.pod, self._entries.get(entry.pod)
        if known and _held(known) == _held(entry):  # in another state, which is nothing to the node
            del self._entries[pod]
        else:
            self._remove(pod)
            self.touched.add(entry.node)
        self._entries[pod] = entry
        self._by_node.setdefault(entry.node, {})[pod] = entry
        return entry

    def _remove(self, pod: str) -> bool:
        entry = self._entries.pop(pod, None)
        if entry is None:
            return False
        on_node = self._by_node[entry.node]
        del on_node[pod]
        if not on_node:
            del self._by_node[entry.node]
        self.touched.add(entry.node)
        return True


def _held(entry: Entry) -> tuple[object, ...]:
    """All that a node's usage follows from."""
    return entry.grant, entry.namespace, entry.created, entry.untold


def _claim(entry: Entry) -> tuple[str, tuple[Part, ...]]:
    return entry.node, entry.grant.offer.parts


def is_whole(part: Part) -> bool:
    """Whether a part is whole devices, not amounts of one."""
    return not (part.share or part.core)
