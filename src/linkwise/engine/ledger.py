"""Ledger: the devices of every pod, from the reservation until its containers have stopped.

OFFERED    filter named the node a moment ago, and the bind is expected; with a deadline
RESERVED   kept free for a pod that waits for more devices of the node; beside the pod's own entry, with a deadline
PLANNED    reserved for a member of a group's plan; with a deadline
CLAIMED    booked like BOOKED, but some of the devices are still in use by pods that are leaving; with a deadline
BOOKED     allocated by another scheduler (Volcano), which binds the pod by itself; with a deadline
ASSUMED    reserved by a bind that the watch has not confirmed yet, as kube-scheduler's assumed pods
ASSIGNED   observed as bound
RELEASING  being deleted; the devices stay in use until the containers have stopped

A pod has one entry of its own, by UID. Devices that are only kept free for it are entries beside that, by ReservedKey: RESERVED
or PLANNED, and no API server ever reports them.

One table has every allowed transition. A transition that is not in it is a bug of the caller: LedgerError, and nothing
is changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from linkwise.errors import LedgerError
from linkwise.model.verdict import Entry, Key, Outcome, Purpose, ReservedKey, State
from linkwise.speed.fast_dataclass import fast_constructor

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from linkwise.model.verdict import Part

__all__ = ["TABLE", "Entry", "Key", "Ledger", "Outcome", "Purpose", "ReservedKey", "State", "Transition", "is_whole"]

Transition = Literal[
    "offer",
    "reserve",
    "plan",
    "drop",
    "claim",
    "book",
    "unbook",
    "assume",
    "written",
    "refused",
    "unknown",
    "observed",
    "deleting",
    "gone",
]

TABLE: Final[Mapping[tuple[State | None, Transition], State | None]] = {
    (None, "offer"): "OFFERED",
    ("OFFERED", "offer"): "OFFERED",  # filtered again
    ("OFFERED", "drop"): None,  # the offer expired, or is withdrawn
    (None, "reserve"): "RESERVED",
    ("RESERVED", "reserve"): "RESERVED",  # more devices have come free
    ("RESERVED", "drop"): None,
    (None, "plan"): "PLANNED",
    ("OFFERED", "plan"): "PLANNED",  # a pod that was scheduled alone has become a member of a group
    ("PLANNED", "plan"): "PLANNED",  # planned again
    ("PLANNED", "drop"): None,  # the plan expired or can't be carried out
    (None, "claim"): "CLAIMED",
    ("CLAIMED", "claim"): "CLAIMED",  # allocated again, while the devices are still in use
    (None, "book"): "BOOKED",
    ("PLANNED", "book"): "BOOKED",
    ("CLAIMED", "book"): "BOOKED",  # the pods that used the devices are gone
    ("BOOKED", "book"): "BOOKED",  # allocated again
    ("BOOKED", "plan"): "PLANNED",  # given back, and the plan of its group reserves it further
    # Not "drop": what drops offers, reservations or plans must not touch what another scheduler counts on.
    ("CLAIMED", "unbook"): None,
    ("BOOKED", "unbook"): None,  # given back, or neither repeated nor bound in time
    (None, "assume"): "ASSUMED",
    ("OFFERED", "assume"): "ASSUMED",
    ("PLANNED", "assume"): "ASSUMED",
    ("CLAIMED", "assume"): "ASSUMED",
    ("BOOKED", "assume"): "ASSUMED",  # kube-scheduler binds it after all
    ("ASSUMED", "assume"): "ASSUMED",  # the bind is retried
    ("ASSUMED", "written"): "ASSUMED",
    ("ASSUMED", "unknown"): "ASSUMED",  # it may have been written: only a watch event or a read resolves that
    ("ASSUMED", "refused"): None,
    # The result of a bind changes nothing once the watch has delivered the bound pod.
    ("ASSIGNED", "written"): "ASSIGNED",
    ("ASSIGNED", "unknown"): "ASSIGNED",
    ("ASSIGNED", "refused"): "ASSIGNED",
    ("RELEASING", "written"): "RELEASING",
    ("RELEASING", "unknown"): "RELEASING",
    ("RELEASING", "refused"): "RELEASING",
    (None, "observed"): "ASSIGNED",
    ("OFFERED", "observed"): "ASSIGNED",
    ("PLANNED", "observed"): "ASSIGNED",
    ("CLAIMED", "observed"): "ASSIGNED",
    ("BOOKED", "observed"): "ASSIGNED",
    ("ASSUMED", "observed"): "ASSIGNED",
    ("ASSIGNED", "observed"): "ASSIGNED",
    ("RELEASING", "observed"): "RELEASING",  # a deletion can't be undone: the event is older than the deletion
    (None, "deleting"): "RELEASING",
    ("OFFERED", "deleting"): "RELEASING",
    ("PLANNED", "deleting"): "RELEASING",
    ("CLAIMED", "deleting"): "RELEASING",
    ("BOOKED", "deleting"): "RELEASING",
    ("ASSUMED", "deleting"): "RELEASING",
    ("ASSIGNED", "deleting"): "RELEASING",
    ("RELEASING", "deleting"): "RELEASING",
    (None, "gone"): None,
    ("OFFERED", "gone"): None,
    ("PLANNED", "gone"): None,
    ("CLAIMED", "gone"): None,
    ("BOOKED", "gone"): None,
    ("ASSUMED", "gone"): None,
    ("ASSIGNED", "gone"): None,
    ("RELEASING", "gone"): None,
}

_HELD: Final[frozenset[Transition]] = frozenset({"reserve", "plan", "drop"})
"""the transitions of entries that only keep devices free; RESERVED is a state of these alone"""

_entry: Final = fast_constructor(Entry)


class _Deadlines(dict[str, float]):
    """Deadlines by pod, in the order in which they were set: the earliest first, as long as the clock is not set back."""

    def expired(self, now: float, longest: float) -> list[str]:
        """Pods whose time is over, or would last for more than `longest` seconds because the clock was set back."""
        if not self:
            return []
        earliest, latest = next(iter(self.values())), next(reversed(self.values()))
        if now < earliest and latest <= now + longest:
            return []
        return [pod for pod, expires in self.items() if not now < expires <= now + longest]


class Ledger:
    """At most one entry per key: a pod's UID, or what is kept free for the pod.

    Args:
        touched: gets the nodes whose entries change; the caller empties it.
    """

    def __init__(self, touched: set[str] | None = None) -> None:
        self._entries: dict[Key, Entry] = {}
        self._by_node: dict[str, dict[Key, Entry]] = {}
        self._offers = _Deadlines()
        """of the OFFERED entries"""
        self._bookings = _Deadlines()
        """of the BOOKED and CLAIMED entries"""
        self._claims: dict[str, None] = {}
        """the pods with a CLAIMED entry"""
        self._serial = 0
        self.changes = 0
        """the number of changes so far"""
        self.touched: Final[set[str]] = set() if touched is None else touched
        self.sharing_of: Callable[[Entry], str] | None = None
        """the sharing domain of an entry, empty for the namespace; None while that is the domain of all"""
        self.changed_keys: set[Key] | None = None
        """gets the keys whose entries change, while they are counted; the caller empties it"""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Entry | None:
        """The pod's entry, or what is kept free for it."""
        return self._entries.get(key)

    def homes(self, pods: Iterable[str]) -> dict[str, str]:
        """The nodes of those of these pods that are being bound or are bound; one call for a whole group."""
        entries = self._entries
        return {
            pod: entry.node
            for pod in pods
            if (entry := entries.get(pod)) is not None and entry.state not in {"PLANNED", "OFFERED"}
        }

    def entries(self) -> Iterable[Entry]:
        """All entries, the last changed at the end."""
        return self._entries.values()

    def on(self, node: str) -> list[Entry]:
        """The entries of a node, the oldest pod first, so that the order does not depend on the order of events."""
        entries = list(self._by_node.get(node, {}).values())
        return sorted(entries, key=_age) if len(entries) > 1 else entries

    def offer(self, entry: Entry, agent_reported: Collection[str] = ()) -> None:
        """Reserve devices for a pod that filter named their node to; `agent_reported` as in `assume`."""
        self._check(entry, "offer")
        if entry.expires is None:
            raise LedgerError(f"the offer to pod {entry.pod} has no deadline")
        self._check_together([entry], agent_reported)
        self._set(entry if entry.state == "OFFERED" else replace(entry, state="OFFERED"))

    def offered(self, pod: str) -> Entry | None:
        """The pod's entry if it is OFFERED."""
        return self._entries[pod] if pod in self._offers else None

    @property
    def offers(self) -> Collection[str]:
        """The pods with an OFFERED entry."""
        return self._offers.keys()

    def expired_offers(self, now: float, longest: float) -> list[str]:
        """Pods whose offer is expired, or would last for more than `longest` seconds because the clock was set back."""
        return self._offers.expired(now, longest)

    def next_expiry(self) -> float | None:
        """The earliest deadline of an offer or a booking."""
        firsts = [next(iter(each.values())) for each in (self._offers, self._bookings) if each]
        return min(firsts, default=None)

    @property
    def bookings(self) -> Collection[str]:
        """The pods with a BOOKED or CLAIMED entry."""
        return self._bookings.keys()

    @property
    def claims(self) -> Collection[str]:
        """The pods with a CLAIMED entry."""
        return self._claims.keys()

    def expired_bookings(self, now: float, longest: float) -> list[str]:
        """Pods whose booking is expired, or would last for more than `longest` seconds because the clock was set back."""
        return self._bookings.expired(now, longest)

    def book(self, entry: Entry, agent_reported: Collection[str] = ()) -> None:
        """Reserve devices for a pod that another scheduler binds; `agent_reported` as in `assume`."""
        self._check(entry, "book")
        self._check_deadline(entry)
        self._check_together([entry], agent_reported)
        self._set(entry if entry.state == "BOOKED" else replace(entry, state="BOOKED"))

    def claim(self, entry: Entry, leaving: Collection[Key], agent_reported: Collection[str] = ()) -> None:
        """Reserve devices for such a pod that are in use by leaving pods; they are its own when those are gone."""
        self._check(entry, "claim")
        self._check_deadline(entry)
        self._check_together([entry], {*leaving, *agent_reported})
        self._set(entry if entry.state == "CLAIMED" else replace(entry, state="CLAIMED"))

    def unbook(self, pod: str) -> None:
        """Free devices that are booked or claimed."""
        self._next(pod, "unbook")
        self._remove(pod)

    def reserve(self, entry: Entry, agent_reported: Collection[str] = ()) -> None:
        """Keep free devices for a pod that waits for more of them; `agent_reported` as in `assume`."""
        self._check(entry, "reserve")
        if entry.expires is None:
            raise LedgerError(f"the reservation for pod {entry.pod} has no deadline")
        self._check_together([entry], agent_reported)
        self._set(entry)

    def drop_reserved(self, pods: Iterable[str], purpose: Purpose) -> list[str]:
        """Free what is kept for a purpose of these pods; the nodes of it."""
        entries = [entry for pod in pods if (entry := self._entries.get(ReservedKey(pod, purpose)))]
        self.drop([entry.key for entry in entries])
        return [entry.node for entry in entries]

    def plan(self, entries: Sequence[Entry], agent_reported: Collection[str] = ()) -> None:
        """Reserve devices for the members of a plan, for all of them or for none; `agent_reported` as in `assume`."""
        for entry in entries:
            self._check(entry, "plan")
            if entry.expires is None:
                raise LedgerError(f"the plan for pod {entry.pod} has no deadline")
        self._check_together(entries, agent_reported)
        for entry in entries:
            self._set(replace(entry, state="PLANNED"))

    def assume(self, entry: Entry, agent_reported: Collection[str] = ()) -> Entry:
        """Reserve devices for a pod that is about to be bound; the entry returned has the serial number of the bind.

        `agent_reported`: pods whose usage the node's agent reports; their own records are ignored.
        """
        self._check(entry, "assume")
        self._check_together([entry], agent_reported)
        known = self._entries.get(entry.key)
        self._serial += 1
        open_binds = (*(known.open if known else ()), self._serial)
        outcome = known.outcome if known else None
        pod = (entry.namespace, entry.created, entry.unrecorded_ask)
        return self._set(_entry(entry.grant, "ASSUMED", *pod, self._serial, open_binds, outcome, None, entry.decision))

    def has_conflict(self, entry: Entry, agent_reported: Collection[str] = ()) -> bool:
        """Whether another pod claims devices of an entry, which another scheduler may have bound."""
        return bool(self._conflict([entry], agent_reported))

    def outcome(self, pod: str, serial: int, outcome: Outcome) -> bool:
        """Record the result of a bind; false if it changes nothing: a later result is known, or another bind is open."""
        entry = self._entries.get(pod)
        if entry is None or serial not in entry.open or entry.outcome == "written":
            return False
        state = self._next(pod, outcome)
        open_binds = tuple(number for number in entry.open if number != serial or outcome == "unknown")
        if outcome == "refused" and open_binds:
            self._set(replace(entry, open=open_binds))
            return False
        if state is None:
            self._remove(pod)
        else:
            bound = (entry.namespace, entry.created, entry.unrecorded_ask, entry.serial)
            self._set(_entry(entry.grant, state, *bound, open_binds, outcome, entry.expires, entry.decision))
        return True

    def observe(self, entry: Entry, *, deleting: bool) -> Entry:
        """Take over what the watch reports of a bound pod, whichever scheduler bound it."""
        state = self._next(entry.key, "deleting" if deleting else "observed")
        known = self._entries.get(entry.key)
        serial = known.serial if known else 0
        pod = (entry.namespace, entry.created, entry.unrecorded_ask)
        state = state or "ASSIGNED"
        return self._set(_entry(entry.grant, state, *pod, serial, entry.open, "written", None, entry.decision))

    def note_indices(self, node: str, indices: Mapping[str, int]) -> None:
        """Note the indices of devices, by id, on the entries of a node that is about to know its devices by index only."""
        for entry in tuple(self._by_node.get(node, {}).values()):
            parts = tuple(_with_indices(part, indices) for part in entry.grant.offer.parts)
            if any(part is not known for part, known in zip(parts, entry.grant.offer.parts, strict=True)):
                offer = replace(entry.grant.offer, parts=parts)
                self._set(replace(entry, grant=replace(entry.grant, offer=offer)))

    def release(self, pod: str) -> bool:
        """Free the devices of a pod that is gone; false if it had none."""
        self._next(pod, "gone")
        return self._remove(pod)

    def drop(self, keys: Iterable[Key]) -> None:
        """Free devices that are only offered, reserved or planned."""
        dropped = list(keys)
        for key in dropped:
            self._next(key, "drop")
        for key in dropped:
            self._remove(key)

    def restore(self, entries: Iterable[Entry], serial: int) -> None:
        """Replace the content with that of a snapshot."""
        for key in list(self._entries):
            self._remove(key)
        for entry in sorted(entries, key=_order):
            self._set(entry)
        self._serial = serial

    @property
    def serial(self) -> int:
        """The number of the last bind."""
        return self._serial

    def _next(self, key: Key, transition: Transition) -> State | None:
        known = self._entries.get(key)
        state = known.state if known else None
        allowed = transition != "reserve" if isinstance(key, str) else transition in _HELD
        if not allowed or (state, transition) not in TABLE:
            raise LedgerError(f"pod {key} is {state or 'not in the ledger'}: {transition!r} is not allowed")
        return TABLE[state, transition]

    def _check(self, entry: Entry, transition: Transition) -> None:
        """Raise LedgerError if the transition is not allowed, or if a bind of the pod with other devices is open."""
        self._next(entry.key, transition)
        known = self._entries.get(entry.key)
        if known and known.state == "ASSUMED" and _claim(known) != _claim(entry):
            raise LedgerError(f"pod {entry.pod} is assumed on other devices, and that bind has not finished")

    def _check_deadline(self, entry: Entry) -> None:
        if entry.expires is None:
            raise LedgerError(f"the booking for pod {entry.pod} has no deadline")

    def _check_together(self, entries: Sequence[Entry], ignored: Collection[Key]) -> None:
        """Raise LedgerError if a device would be double-booked among the entries, or with another pod."""
        if len({entry.key for entry in entries}) < len(entries):
            raise LedgerError("one pod would get devices twice")
        if conflict := self._conflict(entries, ignored):
            raise LedgerError(conflict)

    def _conflict(self, entries: Sequence[Entry], ignored: Collection[Key]) -> str:
        if len(entries) == 1 and not self._overlaps(entries[0]):
            return ""
        own = {entry.key for entry in entries}
        claims: dict[tuple[str, str], list[tuple[Key, Part]]] = {}
        nodes = {entry.node for entry in entries}
        ignored = {*own, *ignored}
        others = [known for node in nodes for key, known in self._by_node.get(node, {}).items() if key not in ignored]
        for entry in (*others, *entries):
            for part in entry.grant.offer.parts:
                for device in part.devices:
                    claims.setdefault((entry.node, device), []).append((entry.key, part))
        for (node, device), claimed in claims.items():
            keys = dict.fromkeys(key for key, _ in claimed)
            whole = any(is_whole(part) for _, part in claimed)
            if whole and len(keys) > 1 and own & keys.keys():
                return f"device {device} of {node} would be allocated to {' and '.join(map(str, keys))}"
        return ""

    def _overlaps(self, entry: Entry) -> bool:
        """Whether a pod of the node has a device of this entry, complete or a part of it."""
        devices = {device for part in entry.grant.offer.parts for device in part.devices}
        others = self._by_node.get(entry.node, {}).values()
        return any(not devices.isdisjoint(part.devices) for other in others for part in other.grant.offer.parts)

    def derive_sharing(self) -> None:
        """Derive the sharing domains of all entries again, because who may share with whom has changed."""
        for entry in tuple(self._entries.values()):
            self._set(entry if self.sharing_of else replace(entry, sharing=""))

    def _set(self, entry: Entry) -> Entry:
        if self.sharing_of is not None and (sharing := self.sharing_of(entry)) != entry.sharing:
            entry = replace(entry, sharing=sharing)
        key = entry.key
        known = self._entries.get(key)
        self.changes += 1
        if self.changed_keys is not None:
            self.changed_keys.add(key)
        if known and _usage_key(known) == _usage_key(entry):  # only the state differs: the node's usage does not change
            del self._entries[key]
        else:
            self._remove(key)
            self.touched.add(entry.node)
        self._entries[key] = entry
        self._by_node.setdefault(entry.node, {})[key] = entry
        if isinstance(key, str):
            self._forget_deadline(key)
        if entry.expires is not None and entry.state == "OFFERED":
            self._offers[entry.pod] = entry.expires
        elif entry.expires is not None and entry.booked:
            self._bookings[entry.pod] = entry.expires
            if entry.state == "CLAIMED":
                self._claims[entry.pod] = None
        return entry

    def _forget_deadline(self, pod: str) -> None:
        self._offers.pop(pod, None)
        if self._bookings:
            self._bookings.pop(pod, None)
            self._claims.pop(pod, None)

    def _remove(self, key: Key) -> bool:
        entry = self._entries.pop(key, None)
        if entry is None:
            return False
        self.changes += 1
        if self.changed_keys is not None:
            self.changed_keys.add(key)
        if isinstance(key, str):
            self._forget_deadline(key)
        on_node = self._by_node[entry.node]
        del on_node[key]
        if not on_node:
            del self._by_node[entry.node]
        self.touched.add(entry.node)
        return True


def _with_indices(part: Part, indices: Mapping[str, int]) -> Part:
    if part.indices or not indices.keys() >= set(part.devices):
        return part
    return replace(part, indices=tuple(indices[device] for device in part.devices))


def _usage_key(entry: Entry) -> tuple[object, ...]:
    """Everything of an entry that a node's usage depends on."""
    return entry.grant, entry.domain, entry.created, entry.unrecorded_ask, entry.state == "CLAIMED"


def _age(entry: Entry) -> tuple[float, str, str]:
    """The order of entries: the oldest pod first, and its own entry before what is kept free for it."""
    return entry.created, entry.pod, entry.purpose or ""


def _order(entry: Entry) -> float:
    """The order in which deadlines that expire one after the other are entered."""
    return (entry.expires or 0.0) if entry.state == "OFFERED" or entry.booked else 0.0


def _claim(entry: Entry) -> tuple[str, tuple[Part, ...]]:
    return entry.node, entry.grant.offer.parts


def is_whole(part: Part) -> bool:
    """Whether a part is whole devices, not a share of one."""
    return not (part.share or part.core)
