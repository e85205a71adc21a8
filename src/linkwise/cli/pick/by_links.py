"""One choice, shown to a person: the devices, what was weighed, and the machine in colour."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import isfinite
from typing import TYPE_CHECKING

from rich.console import Console

from linkwise.cli.render.matrix import Marks, bandwidth_table, link_table
from linkwise.cli.render.tables import LabelledLines, print_json, tell_refusal
from linkwise.engine.reasons.catalog import devices_text, refusal
from linkwise.explain.choice_links import bottleneck_lost, partition_lost, set_lost, single_lost
from linkwise.model.verdict import Reason
from linkwise.topology.bottleneck import best_bottleneck
from linkwise.topology.device_sets import Question, mask_of, question
from linkwise.topology.fabric import fabric_of
from linkwise.topology.link_bandwidth import LinkGeneration, weight
from linkwise.topology.link_score import display_score, pair_score, score_matrix
from linkwise.topology.machine import machine_of
from linkwise.topology.partition import best_partition
from linkwise.topology.residual import SIZES
from linkwise.topology.runner_up import next_bottleneck, next_partition
from linkwise.wire.pick_batch import BandwidthAnswer, LinkAffinityAnswer, Refused

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from linkwise.model.link import Link
    from linkwise.model.topology import Matrix, Topology
    from linkwise.topology.bottleneck import Bottleneck
    from linkwise.topology.partition import Objective, Partition

__all__ = ["Pick", "pick_one"]


@dataclass(frozen=True, slots=True)
class Pick:
    """What the user asked for."""

    topology: Topology
    policy: str
    size: int
    available: list[int] | None = None
    required: list[int] | tuple[int, ...] = ()
    objective: Objective = "partition"
    generation: LinkGeneration | None = None

    def free(self) -> Collection[int]:
        """The positions to choose from."""
        return range(len(self.topology.devices)) if self.available is None else self.available

    def question(self) -> Question:
        """The same as masks; only for what was not refused."""
        asked = question(len(self.topology.devices), self.size, self.available, self.required)
        if isinstance(asked, Reason):
            raise TypeError(f"refused: {asked}")
        return asked


def pick_one(wanted: Pick, *, as_json: bool = False, console: Console | None = None) -> bool:
    """Choose, and print the choice with its reasons; False if it was refused."""
    shown = console or Console(highlight=False)
    return (_by_links if wanted.policy == "link-affinity" else _by_bandwidth)(wanted, shown, as_json)


def _by_links(wanted: Pick, shown: Console, as_json: bool) -> bool:  # noqa: FBT001 - told apart by the dispatch above
    points = partial(weight, generation=wanted.generation) if wanted.generation else pair_score
    scores = score_matrix(wanted.topology, points)
    found = best_partition(scores, wanted.size, wanted.available, wanted.required, objective=wanted.objective)
    if isinstance(found, Reason):
        return print_json(Refused(refusal(found))) if as_json else tell_refusal(shown, refusal(found))
    if as_json:
        missing = wanted.topology.problems
        return print_json(
            LinkAffinityAnswer(found.devices, found.score, found.total, found.sets, found.proven, missing)
        )
    told = LabelledLines()
    told.add("chosen", f"{_ids(wanted, found.devices)}  {_worth(wanted, scores, found)}", "bold green")
    told.add("", _why_partition(wanted, found))
    other = next_partition(machine_of(scores), wanted.question(), found, wanted.objective)
    if other:
        told.add("runner-up", f"{_ids(wanted, other.devices)}  {_worth(wanted, scores, other)}", "bold")
        told.add("", _why_lost(wanted, scores, found, other))
    if not found.proven:
        told.add("note", "not proven the best: too many free devices for an exact search", "yellow")
    if any(min(link, back).half_known for link, back in _both_ways(wanted.topology)):
        told.add("note", "the PCIe path behind direct links is not known here: counted as SYS", "dim")
    _tell_missing(told, wanted)
    marks = Marks(found.devices, wanted.free())
    shown.print(link_table(wanted.topology, scores, marks, shown.width), "", told.rows)
    return True


def _tell_missing(told: LabelledLines, wanted: Pick) -> None:
    for warning in wanted.topology.warnings:
        told.add("warning", warning, "yellow")
    for problem in wanted.topology.problems:
        told.add("missing", problem, "bold red")


def _both_ways(topology: Topology) -> Iterator[tuple[Link, Link]]:
    return ((topology.links[i][j], topology.links[j][i]) for i, j in combinations(range(len(topology.links)), 2))


def _why_lost(wanted: Pick, scores: Matrix, winner: Partition, loser: Partition) -> str:
    if wanted.size == 1:
        return single_lost(_loss(wanted, scores, winner), _loss(wanted, scores, loser))
    return (set_lost if wanted.objective == "best-set" else partition_lost)(winner, loser)


def _loss(wanted: Pick, scores: Matrix, found: Partition) -> float:
    """What the other free devices lose with one device."""
    (device,) = found.devices
    return sum(scores[device][other] for other in wanted.free() if other != device)


def _worth(wanted: Pick, scores: Matrix, found: Partition) -> str:
    unit = "GB/s" if wanted.generation else "points"
    if wanted.size == 1:
        return f"its links to the other free devices are worth {_loss(wanted, scores, found):g} {unit}"
    normal = "" if wanted.generation else f", {display_score(found.score, wanted.size):.1f} of 100"
    return f"score {found.score:g} {unit}{normal}"


def _why_partition(wanted: Pick, found: Partition) -> str:
    if wanted.size == 1:
        return "the device whose loss costs the other free ones least"
    if wanted.objective == "best-set":
        return "the best set, whatever it leaves"
    sets = " ".join(map(devices_text, found.sets))
    return f"the best set of the best partition, total {found.total:g}: {sets}"


def _by_bandwidth(wanted: Pick, shown: Console, as_json: bool) -> bool:  # noqa: FBT001 - see _by_links
    samples, links = wanted.topology.bandwidth, wanted.topology.links
    found = best_bottleneck(samples, wanted.size, wanted.available, wanted.required, links=links)
    if isinstance(found, Reason):
        return print_json(Refused(refusal(found))) if as_json else tell_refusal(shown, refusal(found))
    if as_json:
        value = found.value if isfinite(found.value) else None
        return print_json(BandwidthAnswer(found.devices, value, found.suspects, found.proven, wanted.topology.problems))
    fabric, told = fabric_of(samples, links), LabelledLines()
    told.add("chosen", f"{_ids(wanted, found.devices)}{_gbs(found)}", "bold green")
    asked = wanted.question()
    if found.proven:
        counts = fabric.left(asked.free & ~mask_of(found.devices))
        left = ", ".join(f"{count} of {size}" for size, count in zip(SIZES, counts, strict=True) if count)
        told.add("", f"leaves good sets to others: {left or 'none'}")
    other = next_bottleneck(fabric, asked, found)
    if other:
        told.add("runner-up", f"{_ids(wanted, other.devices)}{_gbs(other)}", "bold")
        told.add("", bottleneck_lost(fabric, asked.free, found, other))
    if not found.proven:
        told.add("note", "not proven the best: too many devices for an exact search", "yellow")
    if not samples:
        told.add("note", "nothing was measured here: link kinds count with the usual GB/s of their class", "dim")
    for i, j in found.suspects:
        ways = f"{samples[i][j]:g} and {samples[j][i]:g} GB/s by direction"
        told.add("suspect", f"{i}-{j}: {ways}; counted as {fabric.values[i][j]:g}", "yellow")
    _tell_missing(told, wanted)
    marks = Marks(found.devices, wanted.free())
    shown.print(bandwidth_table(fabric.values, marks, found.suspects, shown.width), "", told.rows)
    return True


def _gbs(found: Bottleneck) -> str:
    return f"  slowest pair {found.value:g} GB/s" if isfinite(found.value) else ""


def _ids(wanted: Pick, devices: tuple[int, ...]) -> str:
    """Positions, and ids beside them where the machine has any."""
    ids = [wanted.topology.devices[device] for device in devices]
    named = [name for name in ids if not name.startswith("#")]
    return devices_text(devices) + (f" ({', '.join(named)})" if named else "")
