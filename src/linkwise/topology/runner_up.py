"""Runner-up: the second-best choice, shown to users beside the one made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.topology.bottleneck import Bottleneck, most_left, near_ties
from linkwise.topology.device_sets import mask_of, positions, sets_with
from linkwise.topology.machine import LARGEST_EXACT
from linkwise.topology.partition import partition_of

if TYPE_CHECKING:
    from linkwise.topology.device_sets import Question
    from linkwise.topology.fabric import Fabric
    from linkwise.topology.machine import Machine
    from linkwise.topology.partition import Objective, Partition

__all__ = ["next_bottleneck", "next_partition"]


def next_partition(machine: Machine, asked: Question, chosen: Partition, objective: Objective) -> Partition | None:
    """The choice of several devices without the chosen set; None if there is no other, or on too large a machine."""
    others = _others(len(machine.pairs), asked, mask_of(chosen.devices))
    if not others:
        return None
    table = machine.table(asked.size)

    def worth(devices: int) -> tuple[float, ...]:
        score = table.scores[devices]
        return (score,) if objective == "best-set" else (score + table.total(asked.free ^ devices), score)

    home = max(others, key=worth)
    return partition_of(machine, asked._replace(required=home), table.first_with(asked.free, home))


def next_bottleneck(fabric: Fabric, asked: Question, chosen: Bottleneck) -> Bottleneck | None:
    """The choice by bandwidth without the chosen set: the next of the near ties, or the fastest of the others."""
    first = mask_of(chosen.devices)
    others = _others(len(fabric.values), asked, first)
    if not others:
        return None
    ties = [devices for devices in near_ties(fabric, asked) if devices != first]
    second = most_left(fabric, asked, ties) if ties else max(others, key=fabric.bottleneck)
    return Bottleneck(positions(second), fabric.bottleneck(second), fabric.suspects)


def _others(count: int, asked: Question, chosen: int) -> list[int]:
    if count > LARGEST_EXACT:
        return []
    return [devices for devices in sets_with(asked.free, asked.required, asked.size) if devices != chosen]
