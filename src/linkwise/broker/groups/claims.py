"""Claims of pending pods: those of a whole group are written before the first of its gates is removed.

What a claim is to be follows from the plan of the group, and what it is from the claim that the watch shows; where they
differ, it is written again under the same name. There are no other states: a restart compares as well. A claim that is
allocated stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.effects import WriteClaim
from linkwise.broker.groups.reservations import extend
from linkwise.broker.records.members import Planning, Reserved
from linkwise.dialects.kubernetes.claims.planned import claim_for, plan_text, planned_devices
from linkwise.dialects.kubernetes.claims.requests import CLAIM, claim_request
from linkwise.engine.ledger import Entry
from linkwise.model.verdict import Grant, Offer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.broker.records.groups import GroupRecord
    from linkwise.broker.state import State
    from linkwise.dialects.kubernetes.claims.objects import Claim
    from linkwise.engine.planning.plan import Placement
    from linkwise.model.inventory import Pin
    from linkwise.model.verdict import Part
    from linkwise.model.views import PodView

__all__ = ["claims_are_written", "note_claims"]

ANY: Final = plan_text("", ())
"""the plan of a claim that names no devices"""


def claims_are_written(state: State, key: str, members: Iterable[tuple[PodView, bool]]) -> bool:
    """Bring the claims of pending members in line with the plan; return whether none is being written.

    A member that is not planned, the second of each pair, gets a claim that names no devices.
    """
    record, written = state.groups[key], True
    for pod, planned in members:
        request = claim_request(pod)[0]
        if request is None:
            continue
        placement = _placement(record, pod) if planned else None
        plan, known = _plan_of(record, placement, planned=planned), state.cluster.claims.planned_for(pod.uid)
        there, queued = known.plan if known else "", record.claims.get(pod.uid)
        if plan is None or (known and known.devices):
            continue
        if plan != there:
            written = False
            record.claims[pod.uid] = plan
        else:
            record.claims.pop(pod.uid, None)
        if plan != (there if queued is None else queued):  # also in place of a write that may not have been sent
            text = claim_for(pod, request, plan, *_devices(state, placement), group=_label(state, key)) if plan else ""
            state.outbox.add([WriteClaim(pod.namespace, pod.name, pod.uid, request.claim, text)])
    return written


def note_claims(state: State, now: float) -> None:
    """Review the groups of pods whose claims changed, once none of the group's claims is being written any more."""
    changed, state.cluster.changes.claims = state.cluster.changes.claims, {}
    for uid in changed:
        key = state.groups.key_of(uid)
        record, known = state.groups.get(key), state.cluster.claims.planned_for(uid)
        if _follow_allocation(state, uid, known):
            _extend(state, key, now)
        if record is None:
            continue
        if uid in record.claims and record.claims[uid] == (known.plan if known else ""):
            del record.claims[uid]
            if record.claims:
                continue
        elif _has_its_devices(state, uid, known):
            continue  # nothing follows for the others: large gangs are bound one after the other
        state.cluster.changes.groups[key] = None


def _has_its_devices(state: State, uid: str, known: Claim | None) -> bool:
    """Return whether a pod is bound, or being bound, with what is allocated to its claim."""
    entry = state.cluster.ledger.get(uid)
    return known is not None and bool(known.devices) and entry is not None and entry.state in {"ASSUMED", "ASSIGNED"}


def _extend(state: State, key: str, now: float) -> None:
    """Extend the plan of a member that is being bound, and those of its bundle."""
    plan = state.groups.plan_of(key)
    for each in (key, *(plan.bundle if plan else ())):
        extend(state, each, now)


def _follow_allocation(state: State, uid: str, known: Claim | None) -> bool:
    """Enter the devices that kube-scheduler has allocated to a pending pod: its bind follows, or the allocation is cleared.

    Returns:
        Whether devices were entered.
    """
    pod, ledger = state.cluster.pods.get(uid), state.cluster.ledger
    if pod is None or pod.node:
        return False
    entry = ledger.get(uid)
    if known is None or not known.devices:
        if entry and entry.state == "ASSUMED" and entry.open:
            ledger.outcome(uid, entry.open[-1], "refused")
        return False
    node, parts = planned_devices(known.plan)
    inventory, query = state.cluster.inventories.get(node), state.query(pod)
    allocated = inventory.allocations.get(uid, ()) if inventory else ()
    if inventory is None or query is None or {device for part in parts for device in part.devices} != set(allocated):
        return False  # what is allocated counts by its claim, whatever the plan was
    plan = entry.grant if entry else Grant(uid, query.policy.name, Offer(node, parts), mode=query.ask.mode)
    wanted = Entry(replace(plan, offer=Offer(node, parts)), "ASSUMED", pod.namespace, pod.created)
    if (entry is None or entry.state == "PLANNED") and not ledger.has_conflict(wanted, inventory.allocations):
        ledger.assume(wanted, inventory.allocations)
        return True
    return False


def _plan_of(record: GroupRecord, placement: Placement | None, *, planned: bool) -> str | None:
    """Return what is to be the plan of a pod's claim, empty if there is to be no claim; None to leave it as it is."""
    if placement:
        return plan_text(placement.node, placement.offer.parts if placement.offer else ())
    if not planned:
        return ANY
    return None if isinstance(record.stage, Planning) else ""


def _placement(record: GroupRecord, pod: PodView) -> Placement | None:
    return record.stage.plan.placements.get(pod.uid) if isinstance(record.stage, Reserved) else None


def _devices(state: State, placement: Placement | None) -> tuple[tuple[Part, ...], Mapping[str, Pin]]:
    """Return the planned devices by container, and what each is selected by."""
    inventory = state.cluster.inventories.get(placement.node) if placement else None
    if inventory is None or placement is None or placement.offer is None:
        return (), {}
    return placement.offer.parts, inventory.pins


def _label(state: State, key: str) -> str:
    """Return the name of a group for a label; empty for a pod that is in none."""
    view = state.groups.view(key)
    return key.split("/")[1] if view and view.group.source != CLAIM else ""
