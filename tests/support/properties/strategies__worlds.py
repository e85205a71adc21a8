"""Generated nodes and asks for every policy, for tests with hypothesis."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.device import Device
from linkwise.model.link import SELF, Link, Pcie
from linkwise.model.node import Node, Use
from linkwise.model.topology import Topology

if TYPE_CHECKING:
    from linkwise.model.node import AskMode, Mode

__all__ = ["asks", "nodes"]

_NAMESPACES = st.sampled_from(["team-a", "team-b"])
_KINDS = st.builds(Link.of, st.integers(0, 3), st.sampled_from(list(Pcie)))


@st.composite
def nodes(draw: st.DrawFn, mode: Mode = "whole", most: int = 8, profile: str = "") -> Node:
    """A node of which some devices are faulty, some taken or shared, and some links known."""
    count = draw(st.integers(1, most))
    memory = draw(st.integers(1, 20))
    healthy = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    devices = tuple(Device(f"d{i}", i, memory=memory, healthy=healthy[i]) for i in range(count))
    used = {device.id: draw(_uses(mode, memory)) for device in devices if draw(st.booleans())}
    known = draw(st.sampled_from(["nothing", "links", "bandwidth", "both"]))
    links, samples = _matrices(draw, count)
    topology = Topology(
        tuple(device.id for device in devices),
        links=links if known in {"links", "both"} else (),
        bandwidth=samples if known in {"bandwidth", "both"} else (),
    )
    node = Node("n", devices, used, topology, profile, mode)
    return node if known != "nothing" else replace(node, topology=None)


@st.composite
def asks(draw: st.DrawFn, mode: AskMode = "whole") -> Ask:
    """An ask of one to three containers, whole devices or parts of one."""
    containers = []
    for number in range(draw(st.integers(1, 3))):
        if mode == "whole":
            containers.append(ContainerAsk(f"c{number}", devices=draw(st.integers(0, 4))))
        else:
            share, core = draw(st.integers(0, 8)), draw(st.integers(0, 60))
            containers.append(ContainerAsk(f"c{number}", share=share, core=core))
    return Ask("example.com/x", tuple(containers), draw(_NAMESPACES), mode=mode)


@st.composite
def _uses(draw: st.DrawFn, mode: Mode, memory: int) -> Use:
    if mode == "whole":
        return Use(whole=True)
    # Records may say that more is taken than there is.
    share, core = draw(st.integers(0, memory + 2)), draw(st.integers(0, 120))
    return Use(share, core, namespaces=frozenset(draw(st.sets(_NAMESPACES, min_size=1))))


def _matrices(draw: st.DrawFn, count: int) -> tuple[tuple[tuple[Link, ...], ...], tuple[tuple[float, ...], ...]]:
    speeds = st.sampled_from([0.0, 16.0, 17.0, 48.0, 49.0, 96.0])
    links = [[SELF] * count for _ in range(count)]
    samples = [[0.0] * count for _ in range(count)]
    for i in range(count):
        for j in range(i):
            links[i][j] = links[j][i] = draw(_KINDS)
            samples[i][j], samples[j][i] = draw(speeds), draw(speeds)
    return tuple(map(tuple, links)), tuple(map(tuple, samples))
