"""Prints a choice by link kinds or bandwidth, with its reasons and the link matrix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import isfinite
from typing import TYPE_CHECKING

from rich.console import Console

from linkwise.cli.render.matrix import Marks, bandwidth_table, link_table
from linkwise.cli.render.tables import LabelledLines, print_json, print_refusal
from linkwise.engine.reasons.catalog import devices_text, refusal
from linkwise.explain.choice.links import (
    best_share_text,
    bottleneck_lost,
    left_text,
    partition_lost,
    set_lost,
    single_lost,
)
from linkwise.model.verdict import Reason
from linkwise.topology.bottleneck import best_bottleneck
from linkwise.topology.device_sets import Question, mask_of, positions, question
from linkwise.topology.fabric import by_least_loss, fabric_of
from linkwise.topology.link_values import LinkGeneration, display_score, pair_score, score_matrix, weight
from linkwise.topology.machine import machine_of
from linkwise.topology.partition import best_partition, next_bottleneck, next_partition
from linkwise.wire.pick_batch import BandwidthAnswer, LinkAffinityAnswer, Refused

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from linkwise.model.link import Link
    from linkwise.model.topology import Matrix, Topology
    from linkwise.topology.bottleneck import Bottleneck
    from linkwise.topology.partition import Objective, Partition

__all__ = ["PickRequest", "pick_one"]


@dataclass(frozen=True, slots=True)
class PickRequest:
    """The machine, the policy and the number of devices."""

    topology: Topology
    policy: str
    size: int
    available: list[int] | None = None
    required: list[int] | tuple[int, ...] = ()
    objective: Objective = "partition"
    generation: LinkGeneration | None = None

    def free(self) -> Collection[int]:
        """Return the positions to choose from."""
        return range(len(self.topology.devices)) if self.available is None else self.available

    def question(self) -> Question:
        """Return the request as bit masks; valid only for a request that was not refused."""
        query = question(len(self.topology.devices), self.size, self.available, self.required)
        if isinstance(query, Reason):
            raise TypeError(f"refused: {query}")
        return query


def pick_one(request: PickRequest, *, as_json: bool = False, console: Console | None = None) -> bool:
    """Choose devices and print the choice with its reasons; False if the request was refused."""
    terminal = console or Console(highlight=False)
    return (_by_links if request.policy == "link-affinity" else _by_bandwidth)(request, terminal, as_json)


def _by_links(request: PickRequest, terminal: Console, as_json: bool) -> bool:  # noqa: FBT001 - see the dispatch above
    points = partial(weight, generation=request.generation) if request.generation else pair_score
    scores = score_matrix(request.topology, points)
    order = _single_order(request, scores)
    required = order[:1] or request.required
    partition = best_partition(scores, request.size, request.available, required, objective=request.objective)
    if isinstance(partition, Reason):
        return print_json(Refused(refusal(partition))) if as_json else print_refusal(terminal, refusal(partition))
    if as_json:
        missing = request.topology.problems
        normalized = None if request.generation else round(display_score(partition.score, request.size), 1)
        answer = LinkAffinityAnswer(
            partition.devices, partition.score, partition.total, partition.sets, partition.proven, missing, normalized
        )
        return print_json(answer)
    lines = LabelledLines()
    lines.add("chosen", f"{_ids(request, partition.devices)}  {_worth(request, scores, partition)}", "bold green")
    lines.add("", _why_partition(request, partition))
    other = _runner_up(request, scores, partition, order)
    if other:
        lines.add("runner-up", f"{_ids(request, other.devices)}  {_worth(request, scores, other)}", "bold")
        lost = (
            single_lost(request.topology, scores, order, order[:2]) if order else _why_lost(request, partition, other)
        )
        lines.add("", lost)
    if not partition.proven:
        lines.add("note", "may not be optimal: too many free devices for an exact search", "yellow")
    if any(min(link, back).half_known for link, back in _both_ways(request.topology)):
        lines.add("note", "the PCIe path of devices with direct links is unknown; counted as SYS", "dim")
    _add_problems(lines, request)
    marks = Marks(partition.devices, request.free())
    terminal.print(link_table(request.topology, scores, marks, terminal.width), "", lines.rows)
    return True


def _add_problems(lines: LabelledLines, request: PickRequest) -> None:
    for warning in request.topology.warnings:
        lines.add("warning", warning, "yellow")
    for problem in request.topology.problems:
        lines.add("missing", problem, "bold red")


def _both_ways(topology: Topology) -> Iterator[tuple[Link, Link]]:
    return ((topology.links[i][j], topology.links[j][i]) for i, j in combinations(range(len(topology.links)), 2))


def _single_order(request: PickRequest, scores: Matrix) -> list[int]:
    """Return the free devices in the order in which a request for one takes them; empty for any other request."""
    query = question(len(scores), request.size, request.available, request.required)
    if isinstance(query, Reason) or query.size > 1 or query.required:
        return []
    return by_least_loss(request.topology, scores, positions(query.free))


def _runner_up(request: PickRequest, scores: Matrix, partition: Partition, order: list[int]) -> Partition | None:
    if not order:
        return next_partition(machine_of(scores), request.question(), partition, request.objective)
    second = best_partition(scores, 1, request.available, order[1:2]) if len(order) > 1 else None
    return None if isinstance(second, Reason) else second


def _why_lost(request: PickRequest, winner: Partition, loser: Partition) -> str:
    return (set_lost if request.objective == "best-set" else partition_lost)(winner, loser)


def _loss(request: PickRequest, scores: Matrix, partition: Partition) -> float:
    """Return the link score that the other free devices lose with this device."""
    (device,) = partition.devices
    return sum(scores[device][other] for other in request.free() if other != device)


def _worth(request: PickRequest, scores: Matrix, partition: Partition) -> str:
    unit = " GB/s" if request.generation else ""
    if request.size == 1:
        return f"link score to the other free devices {_loss(request, scores, partition):g}{unit}"
    return f"link score {partition.score:g}{unit}{best_share_text(scores, partition)}"


def _why_partition(request: PickRequest, partition: Partition) -> str:
    if request.size == 1:
        return "the device that other pods need least"
    if request.objective == "best-set":
        return "the best set, regardless of what it leaves"
    sets = " ".join(map(devices_text, partition.sets))
    return f"the best set of the best partition (total {partition.total:g}): {sets}"


def _by_bandwidth(request: PickRequest, terminal: Console, as_json: bool) -> bool:  # noqa: FBT001 - see _by_links
    samples, links = request.topology.bandwidth, request.topology.links
    choice = best_bottleneck(samples, request.size, request.available, request.required, links=links)
    if isinstance(choice, Reason):
        return print_json(Refused(refusal(choice))) if as_json else print_refusal(terminal, refusal(choice))
    if as_json:
        value = choice.value if isfinite(choice.value) else None
        return print_json(
            BandwidthAnswer(choice.devices, value, choice.suspects, choice.proven, request.topology.problems)
        )
    fabric, lines = fabric_of(samples, links), LabelledLines()
    lines.add("chosen", f"{_ids(request, choice.devices)}{_bottleneck_text(choice)}", "bold green")
    query = request.question()
    if choice.proven:
        counts = fabric.left(query.free & ~mask_of(choice.devices))
        lines.add("", f"leaves for other pods: {left_text(counts)}")
    other = next_bottleneck(fabric, query, choice)
    if other:
        lines.add("runner-up", f"{_ids(request, other.devices)}{_bottleneck_text(other)}", "bold")
        lines.add("", bottleneck_lost(fabric, query.free, choice, other))
    if not choice.proven:
        lines.add("note", "may not be optimal: too many devices for an exact search", "yellow")
    if not samples:
        lines.add("note", "no measurements: bandwidth is estimated from the link kinds", "dim")
    for i, j in choice.suspects:
        ways = f"{samples[i][j]:g} and {samples[j][i]:g} GB/s in the two directions"
        lines.add("suspect", f"{i}-{j}: {ways}; counted as {fabric.values[i][j]:g} GB/s", "yellow")
    _add_problems(lines, request)
    marks = Marks(choice.devices, request.free())
    terminal.print(bandwidth_table(fabric.values, marks, choice.suspects, terminal.width), "", lines.rows)
    return True


def _bottleneck_text(choice: Bottleneck) -> str:
    return f"  slowest pair {choice.value:g} GB/s" if isfinite(choice.value) else ""


def _ids(request: PickRequest, devices: tuple[int, ...]) -> str:
    """Return the positions, with IDs if the machine has any."""
    ids = [request.topology.devices[device] for device in devices]
    named = [name for name in ids if not name.startswith("#")]
    return devices_text(devices) + (f" ({', '.join(named)})" if named else "")
