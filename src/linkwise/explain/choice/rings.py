"""Explains choices by ring, mesh, module or card: idle devices of each, and the preferred number."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.explain.reports.choice import Choice, indices_of
from linkwise.policies.ring_affinity import LETTERS, group_letter, place_in_rings
from linkwise.policies.ring_profiles import known_profile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.device import HardwareProfile, Span
    from linkwise.model.node import Node

__all__ = ["by_rings"]

_WAYS: Final[dict[Span, str]] = {
    "count": "any free devices qualify; the lowest are taken",
    "whole groups": "this number requires fully idle {groups}",
    "even split": "half in each of two {groups}, at matching positions",
    "whole groups first": "fully idle {groups} first, the remaining device from one in use",
}


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


def _idle(profile: HardwareProfile, node: Node) -> list[tuple[int, ...]]:
    free = {device.index for device in node.free()}
    count = max([profile.devices, *(device.index + 1 for device in node.devices)])
    return [tuple(index for index in group if index in free) for group in profile.groups(count)]


def _worth(profile: HardwareProfile, idle: list[tuple[int, ...]], indices: tuple[int, ...]) -> str:
    if profile.group == 1:
        return ""
    touched = [number for number, _ in enumerate(idle) if any(index // profile.group == number for index in indices)]
    return "in " + " and ".join(f"{profile.noun} {number} ({len(idle[number])} idle before)" for number in touched)


def _preference(profile: HardwareProfile, count: int) -> str:
    best, *others = _order(profile, count)
    if not others:
        return f"only a {profile.noun} with {best} idle qualifies"
    return f"for {count}, a {profile.noun} with {best} idle is best, then {', '.join(map(str, others))}"


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


def _plural(noun: str) -> str:
    return f"{noun}es" if noun.endswith("sh") else f"{noun}s"


def _order(profile: HardwareProfile, count: int) -> tuple[int, ...]:
    """Return the preferred numbers of idle devices in a group, the best first."""
    return profile.preference.get(count, tuple(range(count, profile.group + 1)))
