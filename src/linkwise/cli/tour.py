"""The stops of the demo: each tells one choice and returns whether what it promises held."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

from rich.text import Text

from linkwise.cli.pick_group import pick_by_room, pick_in_rings, ring_line
from linkwise.cli.pick_one import Pick, pick_one
from linkwise.engine.explain import devices_text
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.device import Device
from linkwise.model.node import Node, Use
from linkwise.model.verdict import Offer, Reason
from linkwise.policies.whole_device import WholeDevice
from linkwise.topology.bits import mask_of
from linkwise.topology.bottleneck import Bottleneck, best_bottleneck
from linkwise.topology.fabric import fabric_of
from linkwise.topology.link_score import score_matrix
from linkwise.topology.partition import Partition, best_partition
from linkwise.vendors.profiles import profile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

__all__ = ["STOPS"]


def two_machines(console: Console) -> bool:
    """Seed 000, story 1."""
    _say(console, "Two nodes of eight V100, one with NVLinks and one without. A pod wants two devices.")
    linked, plain = _partition("dgx1-v100", 2), _partition("v100-pcie", 2)
    pick_one(Pick(profile("dgx1-v100").topology, "link-affinity", 2), console=console)
    _say(
        console,
        f"The node with NVLinks offers a pair worth {linked.score:g}, the other one {plain.score:g}: the pod goes to "
        f"the first and gets {devices_text(linked.devices)}. By position alone it would get "
        f"{devices_text((0, 1))}, worth {_score('dgx1-v100', (0, 1)):g}.",
    )
    return linked.score > plain.score and linked.score > _score("dgx1-v100", (0, 1))


def whole_partition(console: Console) -> bool:
    """Seed 000, "How to pick the best effort GPUs in one node"."""
    _say(
        console,
        "Three of the five free devices of a machine with NVLink bridges. A left-over set counts in the total, "
        "but is never the answer, even where its pair is the best of all.",
    )
    free = [1, 2, 4, 6, 7]
    pick_one(Pick(profile("a100-bridged").topology, "link-affinity", 3, available=free), console=console)
    found = _partition("a100-bridged", 3, free)
    return len(found.devices) == 3 and {6, 7} < set(found.devices)


def one_device(console: Console) -> bool:
    """Seed 000, one device."""
    _say(console, "One device of a machine whose pair {6,7} was already broken: 6 is gone.")
    free = [0, 1, 2, 3, 4, 5, 7]
    pick_one(Pick(profile("a100-bridged").topology, "link-affinity", 1, available=free), console=console)
    _say(console, "Device 7 has lost its partner; taking any other would break a good pair.")
    return _partition("a100-bridged", 1, free).devices == (7,)


def near_ties(console: Console) -> bool:
    """Seed 001, its own matrix."""
    _say(console, "A measured machine: two-way GB/s, with noise and two bad samples. A pod wants two devices.")
    topology = profile("dgx1-v100-measured").topology
    pick_one(Pick(topology, "bandwidth", 2), console=console)
    fabric, found = fabric_of(topology.bandwidth), _bottleneck(2)
    trap = mask_of((0, 6))
    best_four, trapped = (fabric.best_bottleneck(255 & ~mask, 4) for mask in (mask_of(found.devices), trap))
    _say(
        console,
        f"{{0,6}} measures {fabric.bottleneck(trap):g} GB/s, a little more. But it would leave a best four of "
        f"{trapped:g} GB/s to the next pod; {devices_text(found.devices)} leaves {best_four:g}.",
    )
    return found.value < fabric.bottleneck(trap) and best_four > 2 * trapped


def best_four(console: Console) -> bool:
    """Seed 001, motivation."""
    _say(console, "The same machine, four devices.")
    pick_one(Pick(profile("dgx1-v100-measured").topology, "bandwidth", 4), console=console)
    fabric, found = fabric_of(profile("dgx1-v100-measured").topology.bandwidth), _bottleneck(4)
    poor = fabric.bottleneck(mask_of((0, 1, 2, 5)))
    _say(
        console,
        f"{{0,1,2,5}} would have had {poor:g} GB/s at its slowest pair: {found.value / poor:.1f} times less.",
    )
    return all(fabric.bottleneck(mask_of(four)) <= found.value / 0.95 for four in combinations(range(8), 4))


def packing(console: Console) -> bool:
    """Seed 002, the second story."""
    _say(console, "Four nodes with two devices each. Four pods want one device, then one pod wants two.")
    packed, spread = (_fill(order) for order in (max, min))
    _say(
        console,
        f"Filling used nodes first leaves {_frees(packed)} devices free: the pod that wants two fits. Spreading leaves "
        f"{_frees(spread)}: four devices are free and it fits nowhere.",
    )
    fits = [any(isinstance(WHOLE.pick(_ask(2), node), Offer) for node in nodes) for nodes in (packed, spread)]
    return fits == [True, False]


def rings(console: Console) -> bool:
    """Seed 003, groups A to D."""
    _say(console, "An Ascend 910 node: two rings of four. Ring 0 has two idle chips, ring 1 three, and one is faulty.")
    chosen = pick_in_rings(ring_line("ascend-910", 2, [0, 1, 4, 5, 6], [7]), console=console)
    _say(console, "Two chips, but one idle in each ring: enough, and yet they could not talk to each other.")
    crossed = pick_in_rings(ring_line("ascend-910", 2, [0, 4], []), console=console)
    _say(console, "And three chips, which no ring layout serves.")
    three = pick_in_rings(ring_line("ascend-910", 3, None, []), console=console)
    return chosen and not crossed and not three


def sharing(console: Console) -> bool:
    """Seed 004, figures 2 and 3."""
    _say(console, "Cards of 16276 MiB, shared by memory. A pod wants 8138; the fullest card that still fits is taken.")
    packed = pick_by_room({0: 12207, 1: 8138, 2: 4069, 3: 16276}, 8138, console=console)
    _say(console, "Another node has 8138 free in all, but on no single card.")
    split = pick_by_room({0: 4069, 1: 4069}, 8138, console=console)
    return packed and not split


def refusal(console: Console) -> bool:
    """A refusal is a sentence."""
    _say(console, "Device 3 is a must, and somebody else has it.")
    wanted = Pick(profile("dgx1-v100").topology, "link-affinity", 2, available=[0, 1, 2], required=[3])
    return not pick_one(wanted, console=console)


WHOLE: Final = WholeDevice()


def _fill(better: Callable[..., Node]) -> list[Node]:
    """Four asks for one device, each on the node that scores best, or worst as a spreading scheduler would."""
    nodes = [Node(name, (Device("0", 0), Device("1", 1))) for name in "abcd"]
    for _ in range(4):
        offers = {node.name: WHOLE.pick(_ask(1), node) for node in nodes}
        fitting = [node for node in nodes if isinstance(offers[node.name], Offer)]
        chosen = better(fitting, key=lambda node: WHOLE.score(_ask(1), node, Offer(node.name, ())))
        offer = offers[chosen.name]
        taken = offer.devices if isinstance(offer, Offer) else ()
        full = replace(chosen, used={**chosen.used, **{device: Use(whole=True) for device in taken}})
        nodes = [full if node is chosen else node for node in nodes]
    return nodes


def _ask(devices: int) -> Ask:
    return Ask("", (ContainerAsk("", devices=devices),))


def _frees(nodes: list[Node]) -> str:
    return ", ".join(str(len(node.free())) for node in nodes)


def _say(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, "italic"))
    console.print()


def _score(name: str, devices: Sequence[int]) -> float:
    scores = score_matrix(profile(name).topology)
    return sum(scores[i][j] for i, j in combinations(devices, 2))


def _partition(name: str, size: int, free: list[int] | None = None) -> Partition:
    found = best_partition(score_matrix(profile(name).topology), size, free)
    if isinstance(found, Reason):
        raise TypeError(f"refused: {found}")
    return found


def _bottleneck(size: int) -> Bottleneck:
    found = best_bottleneck(profile("dgx1-v100-measured").topology.bandwidth, size)
    if isinstance(found, Reason):
        raise TypeError(f"refused: {found}")
    return found


STOPS: Final[tuple[tuple[str, Callable[[Console], bool]], ...]] = (
    ("Two machines, one with NVLinks", two_machines),
    ("The best set of the best partition", whole_partition),
    ("One device, without breaking a pair", one_device),
    ("Fast, and fair to the next", near_ties),
    ("The largest bottleneck", best_four),
    ("Ones that leave room for a two", packing),
    ("Rings that can't be crossed", rings),
    ("A part of one card", sharing),
    ("No, and why", refusal),
)
