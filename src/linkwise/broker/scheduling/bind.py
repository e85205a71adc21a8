"""Promising devices to a pod, and what became of the promise: bind and outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.answers import BindAnswer
from linkwise.broker.effects import Bind, Event, Wake
from linkwise.broker.groups.lifecycle import bind_refused, bound_by_plan
from linkwise.broker.reconcile import reconcile
from linkwise.broker.scheduling.siblings import blind_siblings, visible_to
from linkwise.broker.state import pod_name
from linkwise.broker.unobserved import unseen_member
from linkwise.dialects.dialect import Writing
from linkwise.engine.ledger import Entry
from linkwise.engine.reasons.catalog import refusal
from linkwise.model.verdict import Grant, Reject

if TYPE_CHECKING:
    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.broker.effects import Effect
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.ledger import Outcome
    from linkwise.model.verdict import Offer
    from linkwise.model.views import PodView

__all__ = ["bind", "outcome", "pick_on"]


def bind(state: State, uid: str, node: str, now: float) -> BindAnswer:
    """Promise devices of the node to the pod, and say what to write; asked again, the same promise."""
    effects = reconcile(state, now)
    pod = state.pod(uid)
    if pod is None:
        there = "was deleted" if uid in state.cluster.known.gone else "has not been observed yet; retry once it is"
        return BindAnswer(f"pod {uid} {there}", effects)
    entry = state.cluster.ledger.get(uid)
    if pod.node or (entry and entry.state != "PLANNED"):
        found = _again(state, pod, entry, node, now)
    else:
        found = _bound(state, pod, entry, node, now)
    told = {effect.uid for effect in effects if isinstance(effect, Wake)}
    more = [effect for effect in found.effects if not (isinstance(effect, Wake) and effect.uid in told)]
    return BindAnswer(found.error, (*effects, *more))


def _bound(state: State, pod: PodView, planned: Entry | None, node: str, now: float) -> BindAnswer:
    """A pod that nothing was promised yet but by a plan."""
    wish, uid = state.request(pod), pod.uid
    wanted = state.query_of(wish)
    if astray := _astray(state, uid, node):
        return BindAnswer(astray)
    if wanted is None:
        return _without_devices(pod, wish, node)
    if stopped := _unbindable(state, node):
        return BindAnswer(stopped)
    if planned:
        # rule 001.hold: what the plan holds is what the member gets.
        member = Entry(planned.grant, "ASSUMED", pod.namespace, pod.created)
        bound = _promise(state, pod, wish.dialect, member, now)
        bound_by_plan(state, uid, now)
        return BindAnswer("", (*reconcile(state, now), *blind_siblings(state, pod, member), bound))
    offer = pick_on(state, wanted, node)
    if isinstance(offer, Reject):
        # rule 004.no-fit: refused at once with the reason, and nothing leaks.
        state.offers.bound(uid)
        state.offers.failed(uid, [node])
        return BindAnswer(f"node {node}: {refusal(offer.reason)}")
    grant = Grant(uid, wanted.policy.name, offer, mode=wanted.ask.mode)
    bound = _promise(state, pod, wish.dialect, Entry(grant, "ASSUMED", pod.namespace, pod.created), now)
    state.offers.bound(uid)
    state.unschedulable.remove(uid, [node])
    # What follows from the promise is worked out now, so that between verbs nothing is left to do.
    return BindAnswer("", (*reconcile(state, now), bound))


def outcome(state: State, bound: Bind, ended: Outcome, now: float) -> tuple[Effect, ...]:
    """Take note of how a bind ended, and tell people about it."""
    if bound.grant is None:
        return reconcile(state, now)
    follows = state.cluster.ledger.outcome(bound.uid, bound.serial, ended)
    if follows and ended == "refused":
        state.offers.failed(bound.uid, [bound.node])
        bind_refused(state, bound, now)
    effects = reconcile(state, now)
    told = ended == "written" and (follows or _seen_first(state, bound))
    return (*effects, _placed(state, bound, bound.grant)) if told else effects


def pick_on(state: State, wanted: Query, name: str) -> Offer | Reject:
    """The devices that the node would give now."""
    index = state.cluster.index
    return index.unserved(wanted, name) or wanted.policy.pick(wanted.ask, index.nodes[name])


def _seen_first(state: State, bound: Bind) -> bool:
    """Whether the watch showed the pod on its node before the answer to the bind came: nobody was told then."""
    entry = state.cluster.ledger.get(bound.uid)
    return entry is not None and entry.state == "ASSIGNED" and entry.serial == bound.serial


def _again(state: State, pod: PodView, entry: Entry | None, node: str, now: float) -> BindAnswer:
    """A pod that is bound or promised already: the same again, or a refusal."""
    there = pod.node or (entry.node if entry else "")
    if there != node:
        word = "bound" if pod.node else "being bound"
        return BindAnswer(f"pod {pod_name(pod)} is already {word} to node {there}")
    if pod.node or entry is None or entry.state != "ASSUMED" or entry.outcome == "written":
        return BindAnswer()
    if not state.cluster.has(entry):
        return BindAnswer(f"the devices assumed for pod {pod_name(pod)} are no longer available on node {node}")
    wish = state.request(pod)
    if wish.ask is None:
        return BindAnswer(f"pod {pod_name(pod)} no longer requests the devices assumed for it")
    return BindAnswer("", (_promise(state, pod, wish.dialect, entry, now),))


def _astray(state: State, uid: str, node: str) -> str:
    """Why a member of a group can't be bound to this node; empty if it can, or is in no group."""
    key, pod = state.groups.key_of(uid), state.pod(uid)
    if pod and unseen_member(state, pod):
        return _unplanned(state, uid)
    found = state.groups.gather(key) if key else None
    if found is None or uid in found.extra:
        return ""
    held = state.groups.plans.get(key)
    asking = any(state.request(other).ask for other in found.waiting)
    if pod and state.request(pod).ask is None and (held or not asking or found.group.minimum is None):
        return ""  # without devices any node will do, once the others have a plan if they must start together
    if held is None or uid not in held.plan.placements:
        return _unplanned(state, uid)
    there = held.plan.placements[uid].node
    return "" if there == node else f"pod {state.name_of(uid)} is planned on node {there}"


def _unplanned(state: State, uid: str) -> str:
    return f"pod {state.name_of(uid)} belongs to a group without a plan; the group is planned when the pod is retried"


def _unbindable(state: State, node: str) -> str:
    view = state.cluster.nodes.get(node)
    if view is None or node not in state.cluster.index.nodes:
        return f"node {node} is unknown"
    return "" if view.ready else f"node {node} is not ready"


def _without_devices(pod: PodView, wish: PodRequest, node: str) -> BindAnswer:
    if wish.broken:
        return BindAnswer(str(wish.broken))
    return BindAnswer("", (Bind(pod.namespace, pod.name, pod.uid, node, None, 0),))


def _promise(state: State, pod: PodView, dialect: str, entry: Entry, now: float) -> Bind:
    """Enter the promise when all that must be written is known: nothing that fails leaves one behind."""
    devices = {device.id: device for device in state.cluster.index.nodes[entry.node].devices}
    # rule 004.record, 001.record: node and all keys are written in one request.
    writing = Writing(pod, entry.grant, devices, 0, visible_to(state, pod, entry))
    keys = state.writer.annotations(writing, dialect, now)
    promised = state.cluster.ledger.assume(entry, state.cluster.inventories[entry.node].allocations)
    return Bind(pod.namespace, pod.name, pod.uid, entry.node, entry.grant, promised.serial, keys)


def _placed(state: State, bound: Bind, grant: Grant) -> Event:
    # rule 002.describe: what was chosen stands under the pod's events.
    node = state.cluster.index.nodes.get(bound.node)
    indices = {device.id: str(device.index) for device in node.devices} if node else {}
    devices = ", ".join(indices.get(device, device) for device in grant.offer.devices)
    enforced = bound.node in state.cluster.inventories and state.cluster.inventories[bound.node].enforced
    hint = "" if enforced else " (expected; the node's device plugin makes the final choice)"
    several = "s" if len(grant.offer.devices) > 1 else ""
    sentence = f"device{several} {devices} on node {bound.node}, chosen by {grant.policy}{hint}"
    return Event("Normal", "DevicesChosen", sentence, bound.namespace, bound.name, bound.uid, bound.node)
