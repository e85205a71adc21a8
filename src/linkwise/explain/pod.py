"""Why a pod waits, or why it has these devices: worked out from the cluster as it is now, and nothing is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.cluster.demand import demand_of
from linkwise.broker.cluster.pods import FINISHED
from linkwise.broker.scheduling.bind import pick_on
from linkwise.broker.state import pod_name
from linkwise.engine.queue.contention import crowded_out
from linkwise.engine.reasons.catalog import refusal
from linkwise.explain.choice import why_chosen
from linkwise.explain.placement import explain_placed
from linkwise.explain.placement__comparing import given, other_node, rank_of, terms_of
from linkwise.explain.pod__explaining_member import as_member
from linkwise.explain.pod__unknown_resources import unknown_resource
from linkwise.explain.remedies import fewer_devices, remedies
from linkwise.explain.reports.pod import Asked, Explanation, Offered
from linkwise.explain.survey import against_all, survey
from linkwise.explain.text.pod import explanation_lines
from linkwise.model.verdict import Offer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.cluster.pod_request import Wish
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Wanted
    from linkwise.explain.survey import Survey
    from linkwise.model.ask import Ask
    from linkwise.model.verdict__problem import Problem
    from linkwise.model.views import PodView

__all__ = ["explain", "explanation_lines"]


def explain(state: State, uid: str, now: float, *, plan: bool = True) -> Explanation | None:
    """Where the pod stands and why; None if it is not known. With `plan` its group is planned, if that tells more."""
    pod = state.pod(uid)
    return as_member(state, _alone(state, pod), now, plan=plan) if pod else None


def _alone(state: State, pod: PodView) -> Explanation:
    """What is to say of the pod whatever group it is in."""
    uid = pod.uid
    wish, entry = state.wish(pod), state.cluster.ledger.get(uid)
    told = Explanation(uid, pod_name(pod), "no devices", len(state.cluster.nodes), policy=wish.policy, node=pod.node)
    problems = state.cluster.problems.get(uid, wish.problems)
    told = replace(told, asked=_asked(state, wish.ask, entry.node if entry else ""), notes=_sentences(problems))
    if pod.phase in FINISHED or pod.stopped:
        return replace(told, state="ended")
    if entry is not None:
        return explain_placed(state, pod, wish, entry, told)
    if wish.ask is None:
        return _without_ask(wish, told, unknown_resource(state, pod))
    return told if pod.node else _unplaced(state, pod, wish, told)


def _without_ask(wish: Wish, told: Explanation, unknown: str) -> Explanation:
    broken = wish.broken
    if broken is None:
        return replace(told, state="broken", sentence=unknown) if unknown else told
    others = [problem for problem in wish.problems if problem is not broken]
    return replace(told, state="broken", sentence=f"{broken.key}: {broken.sentence}", notes=_sentences(others))


def _unplaced(state: State, pod: PodView, wish: Wish, told: Explanation) -> Explanation:
    wanted = state.wanted(wish)
    if wanted is None:
        return told
    told = replace(told, notes=(*told.notes, *_holding_back(pod)))
    refused = wanted.policy.admit(wanted.ask)
    if refused:
        less = fewer_devices(state, pod, wanted, demand_of(pod)[0])
        return replace(told, state="broken", sentence=refusal(refused), remedies=less)
    found = survey(state, pod, wanted)
    offered = _offered(state, pod)
    if found.fitting:
        return _fits(state, wanted, found, replace(told, offered=offered))
    return replace(
        told,
        state="waiting",
        offered=offered,
        against=against_all(state, wanted, found),
        remedies=remedies(state, pod, wanted, found),
    )


def _fits(state: State, wanted: Wanted, found: Survey, told: Explanation) -> Explanation:
    """Where it would go; nodes that other pods were offered a moment ago come last, as they do when it asks."""
    nodes = state.cluster.index.nodes
    names = [name for name, _ in found.fitting[: state.settings.breadth or None]]
    open_ones = [name for name in names if not _crowded(state, wanted, told.uid, name)]
    best = (open_ones or names)[0]
    offer = pick_on(state, wanted, best)
    own = dict(found.fitting)[best]
    if not isinstance(offer, Offer) or told.offered is None:
        return told
    return replace(
        told,
        state="fits",
        fitting=len(found.fitting),
        node=best,
        devices=given(offer.parts, nodes[best].devices),
        unit=state.cluster.stocks[best].unit,
        terms=terms_of(wanted, own),
        rank=rank_of(own, found.fitting),
        choice=why_chosen(wanted, nodes[best], offer.devices),
        other=other_node(wanted, own, [entry for entry in found.fitting if entry[0] != best]),
        against=against_all(state, wanted, found),
        offered=replace(told.offered, crowded=not open_ones),
    )


def _crowded(state: State, wanted: Wanted, uid: str, name: str) -> bool:
    others, nodes = state.pending.on(name, uid), state.cluster.index.nodes
    return bool(others) and crowded_out(nodes[name], wanted, others, nodes.get)


def _offered(state: State, pod: PodView) -> Offered:
    tries, last = state.pending.attempts(pod.uid), state.pending.offered().get(pod.uid, ())
    waiting = any(entry.pod == pod.uid for entry in state.pending.entries())
    rounds = tries.rounds + (bool(last) and not waiting)
    return Offered(rounds, tuple(sorted({*tries.nodes, *last})), waiting, pod.uid in state.asked)


def _asked(state: State, ask: Ask | None, node: str) -> Asked | None:
    if ask is None:
        return None
    unit = "bytes" if ask.in_bytes else "" if ask.devices else _unit(state, ask, node)
    return Asked(ask.resource, ask.mode, ask.devices, ask.share, ask.core, unit, ask.profile, ask.containers)


def _unit(state: State, ask: Ask, node: str) -> str:
    """What shares are counted in: on the pod's node, or on all nodes that share."""
    stocks = state.cluster.stocks
    if ask.mode == "percent":
        return "%"
    if node in stocks:
        return stocks[node].unit
    units = {stock.unit for stock in stocks.values() if stock.mode == ask.mode}
    return units.pop() if len(units) == 1 else ""


def _holding_back(pod: PodView) -> list[str]:
    gates = [f"no scheduler tries it before its scheduling gates are gone: {', '.join(pod.gates)}"] if pod.gates else []
    return [*gates, *([f"room is being made for it on node {pod.nominated}"] if pod.nominated else [])]


def _sentences(problems: Iterable[Problem]) -> tuple[str, ...]:
    return tuple(f"{problem.key}: {problem.sentence}" for problem in problems)
