"""Builders of nodes and asks, for tests of policies and of the code that calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.device import Device
from linkwise.model.node import Node, Use
from linkwise.model.verdict import Offer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.model.node import Mode, NumaAlignment
    from linkwise.model.topology import Topology
    from linkwise.policies.policy import Policy

__all__ = ["ask", "node", "offered", "score", "share_ask", "share_node"]


def ask(*devices: int, namespace: str = "default", profile: str = "") -> Ask:
    """An ask for whole devices: one container per number."""
    containers = tuple(ContainerAsk(f"c{number}", devices=count) for number, count in enumerate(devices))
    return Ask("example.com/device", containers, namespace, profile)


def share_ask(*shares: int, core: int = 0, namespace: str = "default") -> Ask:
    """An ask for a share of one device: one container per number, compute for the first."""
    containers = tuple(
        ContainerAsk(f"c{number}", share=share, core=core if number == 0 else 0) for number, share in enumerate(shares)
    )
    return Ask("example.com/memory", containers, namespace, mode="share")


def node(  # noqa: PLR0913 - a builder: every field has a default
    count: int = 8,
    *,
    name: str = "n",
    free: Iterable[int] | None = None,
    faulty: Iterable[int] = (),
    topology: Topology | None = None,
    profile: str = "",
    numa: Sequence[int | None] = (),
    nics: Iterable[int] = (),
    alignment: NumaAlignment | None = None,
) -> Node:
    """A node of whole devices `d0`, `d1`, ...; all are free unless `free` lists those that are.

    `numa` has the NUMA nodes of the devices, `nics` the devices with a NIC under their PCIe switch.
    """
    bad, near = set(faulty), set(nics)
    places = (*numa, *(None for _ in range(count - len(numa))))
    devices = tuple(
        Device(
            f"d{index}",
            index,
            numa=places[index],
            healthy=index not in bad,
            nics=("mlx5_0",) if index in near else (),
        )
        for index in range(count)
    )
    idle = set(range(count)) if free is None else set(free)
    used = {f"d{index}": Use(whole=True) for index in range(count) if index not in idle}
    return Node(name, devices, used, _renamed(topology), profile, alignment=alignment)


def share_node(  # noqa: PLR0913 - a builder
    memory: int,
    rooms: Iterable[int],
    *,
    name: str = "n",
    faulty: Iterable[int] = (),
    owners: Mapping[int, str] | None = None,
    cores: Mapping[int, int] | None = None,
    mode: Mode = "share",
) -> Node:
    """A node that shares memory: every device has `memory`, and `rooms` lists how much of each is free."""
    bad, owner, core = set(faulty), owners or {}, cores or {}
    left = list(rooms)
    devices = tuple(Device(f"d{i}", i, memory=memory, healthy=i not in bad) for i in range(len(left)))
    used = {
        f"d{i}": Use(share=memory - room, core=core.get(i, 0), domains=frozenset({owner.get(i, "default")}))
        for i, room in enumerate(left)
        if room < memory or i in owner or i in core
    }
    return Node(name, devices, used, mode=mode)


def offered(policy: Policy, size: int, **fields: Any) -> Offer:  # noqa: ANN401 - as `node` has them
    """The offer of one node for a number of whole devices; a refusal fails the test."""
    answer = policy.pick(ask(size), node(**fields))
    if isinstance(answer, Offer):
        return answer
    raise AssertionError(f"refused: {answer}")


def score(policy: Policy, size: int, **fields: Any) -> tuple[int, ...]:  # noqa: ANN401 - same
    """The score of that offer."""
    return policy.score(ask(size), node(**fields), offered(policy, size, **fields))


def _renamed(topology: Topology | None) -> Topology | None:
    """The same topology with the device ids of the node."""
    if topology is None:
        return None
    names = tuple(f"d{index}" for index in range(len(topology.devices)))
    return type(topology)(names, topology.links, topology.bandwidth, topology.rings)
