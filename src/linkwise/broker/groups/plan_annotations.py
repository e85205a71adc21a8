"""Plans that are written on their members: how they get there, and how they hold again for whoever starts anew.

Source: contract koordinator, edge case 21.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from linkwise.broker.effects import Annotate
from linkwise.broker.groups.bundles import link_plans, mates_of
from linkwise.broker.groups.planning import crowded, gathered, hold, release
from linkwise.broker.wake_ups import flush
from linkwise.dialects.linkwise.dialect import PLAN, MemberPlan, plan_of, plan_words
from linkwise.engine.planning.plan import Placement, Plan
from linkwise.engine.planning.seating import takes
from linkwise.model.verdict import Offer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from linkwise.broker.group_registry import GroupView
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.model.views import PodView

__all__ = ["give_up", "note_written", "plan_annotations", "take_up_plans"]

Found = Plan | Literal["later", "never"]
_LATER: Final = "later"
_NEVER: Final = "never"


def plan_annotations(state: State, key: str) -> Iterator[Annotate]:
    """What is to be written on members when their plan is held."""
    for each in mates_of(state, key) if state.settings.group.write_plans else ():
        held = state.groups.plans.get(each)
        for uid, placement in held.plan.placements.items() if held else ():
            pod, parts = state.pod(uid), placement.offer.parts if placement.offer else ()
            if held and pod:
                words = plan_words(MemberPlan(held.id, held.generation, placement.node, parts))
                yield Annotate(pod.namespace, pod.name, uid, words)


def give_up(state: State, key: str) -> list[str]:
    """Release a group's plan, and take away what was written of it; the UIDs of members that held devices by it."""
    plans = state.groups.plans
    ending = [plans[each] for each in (key, *(plans[key].bundle if key in plans else ())) if each in plans]
    released = release(state, key)
    uids = [uid for held in ending if plans.get(held.id) is not held for uid in held.plan.placements]
    state.outbox.add(_taken_away(state, uids))
    return released


def _taken_away(state: State, uids: Iterable[str]) -> Iterator[Annotate]:
    for uid in uids if state.settings.group.write_plans else ():
        pod = state.pod(uid)
        if pod and not pod.node:
            yield Annotate(pod.namespace, pod.name, uid, {PLAN: None})


def note_written(state: State, pod: PodView) -> None:
    """Note a plan or a grant of a plan that a member carries: plans made later have higher numbers."""
    book, key = state.groups, state.groups.key_of(pod.uid)
    if not key:
        _note_stray(state, pod)
        return
    entry = state.cluster.ledger.get(pod.uid)
    if entry and entry.grant.plan == key:
        book.note_generation(key, entry.grant.generation)
    written = plan_of(pod)[0] if PLAN in pod.annotations and not pod.node else None
    if written is None or written.id != key:
        _note_stray(state, pod)
        return
    held = book.plans.get(key)
    joins = held and held.generation == written.generation and pod.uid not in held.plan.placements
    if joins or written.generation > book.past.get(key, 0):
        book.written[key] = None
    elif held is None or pod.uid not in held.plan.placements:
        _note_stray(state, pod)  # it was written late
    book.note_generation(key, written.generation)


def _note_stray(state: State, pod: PodView) -> None:
    """A pod carries a plan that is not its group's: it is taken away, so that nobody who starts anew believes it."""
    if PLAN in pod.annotations and plan_of(pod)[0]:
        state.outbox.add(_taken_away(state, [pod.uid]))


def take_up_plans(state: State, now: float) -> None:
    """Let written plans hold again of which everything is still to be had; others are made anew when somebody asks."""
    for key in list(state.groups.written):
        if key not in state.groups.written:
            continue  # it was taken up with another
        keys = mates_of(state, key)
        found = {each: _read(state, each) for each in keys}
        if _LATER in found.values() and _NEVER not in found.values():
            continue
        for each in keys:
            state.groups.give_up_written(each)
        plans = {each: plan for each, plan in found.items() if isinstance(plan, Plan)}
        if len(plans) == len(keys):
            _hold(state, plans, now)
        for each in keys:
            _clear(state, each)


def _clear(state: State, key: str) -> None:
    """Members that carry a plan and have no place in the one that holds carry it no more."""
    found, held = gathered(state, key), state.groups.plans.get(key)
    placed = held.plan.placements if held else {}
    carriers = [pod for pod in (found.waiting if found else ()) if PLAN in pod.annotations and plan_of(pod)[0]]
    state.outbox.add(_taken_away(state, [pod.uid for pod in carriers if pod.uid not in placed]))


def _hold(state: State, plans: dict[str, Plan], now: float) -> None:
    for key in plans:
        release(state, key)
    flush(state)
    for key, plan in plans.items():
        if plan.placements:
            hold(state, key, plan, now, state.groups.generation(key))
    link_plans(state, plans)


def _read(state: State, key: str) -> Found:
    """The plan that is written on a group's members; later, if what it names is not known yet."""
    found = gathered(state, key)
    if found is None or not any(PLAN in pod.annotations for pod in found.waiting):
        return _NEVER if found is None or found.waiting else Plan({})
    placements: dict[str, Placement] = {}
    held = state.groups.plans.get(key)
    for pod in found.waiting:
        if PLAN not in pod.annotations:
            continue
        place = (held.plan.placements.get(pod.uid) if held else None) or _placement(state, key, pod)
        if isinstance(place, str):
            return place
        placements[pod.uid] = place
    if crowded(state, [place for uid, place in placements.items() if not held or uid not in held.plan.placements]):
        return _NEVER
    if all(pod.gates for pod in found.waiting) or _too_few(state, found, len(placements)):
        return _LATER  # not all of it was seen yet
    return Plan(placements)


def _too_few(state: State, found: GroupView, written: int) -> bool:
    group = found.group
    least = 0 if group.minimum is None or group.key in state.groups.satisfied else group.minimum
    return written + len(found.bound) < least


def _placement(state: State, key: str, pod: PodView) -> Placement | Literal["later", "never"]:
    """Where one member was planned, if that is of the newest plan and still to be had."""
    plan, wanted = plan_of(pod)[0], state.query(pod)
    if plan is None or (plan.id, plan.generation) != (key, state.groups.generation(key)):
        return _NEVER
    node, view = state.cluster.index.nodes.get(plan.node), state.cluster.nodes.get(plan.node)
    if node is None or view is None:
        return _LATER
    if not view.ready or view.unschedulable or bool(plan.parts) != (wanted is not None):
        return _NEVER
    offer = Offer(plan.node, plan.parts)
    if not {device.id for device in node.devices}.issuperset(offer.devices):
        return _LATER
    if wanted is None:
        return Placement(plan.node)
    return Placement(plan.node, offer) if _serves(wanted, offer) and takes(node, wanted, offer) else _NEVER


def _serves(wanted: Query, offer: Offer) -> bool:
    """Whether these are as many devices as each container asks for; what a person wrote may be anything."""
    counts = {part.container: len(part.devices) for part in offer.parts}
    asked = {found.container: found.devices for found in wanted.ask.containers if found.devices}
    return counts == asked if wanted.ask.devices else len(offer.devices) == 1
