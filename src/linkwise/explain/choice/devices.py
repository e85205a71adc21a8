"""Explains the choice of devices on one node: their worth, the reason, the runner-up, and the rings or cards they are in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.explain.choice.links import by_bandwidth, by_links
from linkwise.explain.reports import Choice, indices_of
from linkwise.model.verdict import Offer
from linkwise.policies.memory_share import losses_of_unused, shares_on
from linkwise.policies.ring_affinity import LETTERS, group_letter, place_in_rings
from linkwise.policies.ring_profiles import known_profile
from linkwise.topology.fabric import NO_LOSS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.engine.index.node_index import Query
    from linkwise.model.device import HardwareProfile, Span
    from linkwise.model.node import Node

__all__ = ["by_rings", "why_chosen"]

_WAYS: Final[dict[Span, str]] = {
    "count": "any free devices qualify; the lowest are taken",
    "whole groups": "this number requires fully idle {groups}",
    "even split": "half in each of two {groups}, at matching positions",
    "whole groups first": "fully idle {groups} first, the remaining device from one in use",
}


def why_chosen(query: Query, node: Node, devices: Sequence[str]) -> Choice | None:
    """Explain a set of devices, with the node as it would be without the pod; None if the node lacks one of them."""
    known = {device.id for device in node.devices}
    if not devices or not set(devices) <= known:
        return None
    if not query.ask.devices:
        return _by_free_share(query, node, devices[0])
    match query.policy.name:
        case "link-affinity":
            return by_links(node, devices)
        case "bandwidth":
            return by_bandwidth(node, devices)
        case "ring-affinity":
            return by_rings(node, devices)
        case _:
            return _by_count(query, node, devices)


def by_rings(node: Node, devices: Sequence[str]) -> Choice:
    """Explain a choice by the rings, meshes, modules or cards of the node."""
    indices, profile = indices_of(node, devices), known_profile(node.profile)
    lying = place_in_rings(profile, node, len(indices)) if profile else None
    if profile is None or lying is None:
        return Choice(indices)
    idle = _idle(profile, node)
    chosen = Choice(indices, _worth(profile, idle, indices))
    if set(lying.devices) != set(indices):
        return replace(chosen, now=tuple(sorted(lying.devices)))
    span = profile.span(len(indices)) or "count"
    if span != "one group":
        return replace(chosen, because=_WAYS[span].format(groups=_plural(profile.noun)))
    because = f"{_preference(profile, len(indices))}; this is group {group_letter(lying)}"
    return _second(profile, idle, replace(chosen, because=because))


def _by_free_share(query: Query, node: Node, device: str) -> Choice:
    rooms, sizes = node.room(), {each.id: shares_on(query.ask, each.memory, each.bytes) for each in node.devices}
    left = rooms.get(device, 0)
    worth = f"{left} free before, {max(0, left - sum(sizes[device] or ()))} after"
    best, second = _pick(query, node), _pick(query, _without(node, device))
    chosen, other = indices_of(node, (device,)), indices_of(node, second)
    if best and best[0] != device:
        return Choice(chosen, worth, now=indices_of(node, best))
    if not second:
        return Choice(chosen, worth, "the only device with enough free memory")
    there = rooms[second[0]]
    order = "least" if there >= left else "most"
    lost = f"it has {there} free, {'the same' if there == left else 'more' if there > left else 'less'}"
    because = f"the feasible device with the {order} free memory"
    if there == left:
        losses = losses_of_unused(node)
        more = losses.get(second[0], NO_LOSS) > losses.get(device, NO_LOSS)
        lost += (
            ", but pods that request several devices need it more" if more else "; tie broken by lowest device index"
        )
    return Choice(chosen, worth, because, other, lost)


def _pick(query: Query, node: Node) -> tuple[str, ...]:
    offer = query.pick(node)
    return offer.devices if isinstance(offer, Offer) else ()


def _without(node: Node, device: str) -> Node:
    return replace(node, devices=tuple(each for each in node.devices if each.id != device))


def _by_count(query: Query, node: Node, devices: Sequence[str]) -> Choice:
    best = query.pick(node)
    now = best.devices if isinstance(best, Offer) and set(best.devices) != set(devices) else ()
    because = "" if now else query.policy.summary or f"by the policy {query.policy.name}"
    return Choice(indices_of(node, devices), because=because, now=indices_of(node, now))


def _idle(profile: HardwareProfile, node: Node) -> list[tuple[int, ...]]:
    free = {device.index for device in node.free()}
    count = max([profile.devices, *(device.index + 1 for device in node.devices)])
    return [tuple(index for index in group if index in free) for group in profile.groups(count)]


def _worth(profile: HardwareProfile, idle: list[tuple[int, ...]], indices: tuple[int, ...]) -> str:
    if profile.group == 1:
        return ""
    touched = [number for number, _ in enumerate(idle) if any(index // profile.group == number for index in indices)]
    return "in " + " and ".join(f"{profile.noun} {number} ({len(idle[number])} idle before)" for number in touched)


def _plural(noun: str) -> str:
    return f"{noun}es" if noun.endswith("sh") else f"{noun}s"


def _preference(profile: HardwareProfile, count: int) -> str:
    best, *others = _order(profile, count)
    if not others:
        return f"only a {profile.noun} with {best} idle qualifies"
    return f"for {count}, a {profile.noun} with {best} idle is best, then {', '.join(map(str, others))}"


def _order(profile: HardwareProfile, count: int) -> tuple[int, ...]:
    """Return the preferred numbers of idle devices in a group, the best first."""
    return profile.preference.get(count, tuple(range(count, profile.group + 1)))


def _second(profile: HardwareProfile, idle: list[tuple[int, ...]], chosen: Choice) -> Choice:
    """Add the best of the other groups as runner-up."""
    count, home = len(chosen.devices), chosen.devices[0] // profile.group
    order = _order(profile, count)
    others = [(order.index(len(group)), number) for number, group in enumerate(idle) if len(group) in order]
    others = [entry for entry in sorted(others) if entry[1] != home]
    if not others:
        return replace(chosen, lost=f"no other {profile.noun} has enough idle" if len(idle) > 1 else "")
    rank, number = others[0]
    there = f"{profile.noun} {number} has {len(idle[number])} idle"
    same = len(idle[number]) == len(idle[home])
    lost = f"{there} too; tie broken by lowest index" if same else f"{there}, which is group {LETTERS[rank]}"
    return replace(chosen, other=idle[number][:count], lost=lost)
