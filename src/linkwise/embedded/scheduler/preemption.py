"""Room for a pod by sending others away: who would have to go from which node, cheapest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.embedded.scheduler.fit import stopped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.embedded.scheduler.nodes import Host, Hosts, Placed

__all__ = ["cheapest", "victims_on_all"]


def victims_on_all(pod: Placed, hosts: Hosts, names: Iterable[str]) -> dict[str, list[str]]:
    """By node, the UIDs of those who would have to go; only nodes on which that lets the pod in by counts."""
    found = {}
    for name in names:
        victims = _victims(pod, hosts.nodes[name]) if name in hosts.nodes else None
        if victims:
            found[name] = [victim.view.uid for victim in victims]
    return found


def cheapest(hosts: Hosts, victims: Mapping[str, Sequence[str]]) -> str:
    """The node whose dearest victim is the cheapest, then with the fewest of them."""

    def cost(name: str) -> tuple[int, int, int, str]:
        gone = [hosts.nodes[name].pods[uid].view.priority for uid in victims[name]]
        return max(gone), sum(gone), len(gone), name

    return min(victims, key=cost)


def _victims(pod: Placed, host: Host) -> list[Placed] | None:
    """Of all pods of lower priority, those that can't stay if the pod comes: the dearest and oldest may stay first."""
    lower = {uid: found for uid, found in host.pods.items() if found.view.priority < pod.view.priority}
    room = host.without(lower)
    if not lower or stopped(pod.demand, pod.counts, room) is not None:
        return None
    victims = []
    for found in sorted(lower.values(), key=lambda one: (-one.view.priority, one.view.created, one.view.uid)):
        room.add(found)
        if stopped(pod.demand, pod.counts, room) is not None:
            room.remove(found.view.uid)
            victims.append(found)
    return victims
