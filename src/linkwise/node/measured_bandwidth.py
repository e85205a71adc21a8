"""Measured bandwidth of a node: the measurements that are kept, and the matrix that they make for the devices present.

Values belong to pairs of UUIDs, so those of a card that was replaced apply to no other card. A pair that was never
measured, because one of its devices is new or was in use, has the value of its link kind.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from typing import TYPE_CHECKING, Final

from linkwise.model.topology import Topology
from linkwise.topology.canonical import SUSPECT_BELOW, typical_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkwise.model.inventory import Discovery, Measurement
    from linkwise.model.topology import Matrix

__all__ = ["FACT", "MAX_MEASUREMENTS", "with_measurement", "with_measurements"]

FACT: Final = "bandwidth"
"""the fact of the node that says what was measured last, and when"""
MAX_MEASUREMENTS: Final = 16
_SHOWN: Final = 4
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"

Samples = dict[tuple[str, str], float]
"""GB/s by the ids of two devices, from and to"""


def with_measurement(known: Sequence[Measurement], new: Measurement) -> tuple[Measurement, ...]:
    """The measurements to keep, the newest first.

    Values of different tests are not comparable, so only those of the same test stay. An older one is dropped once the
    new one has all of its devices.
    """
    others = [each for each in known if each.tool == new.tool and not set(each.devices) <= set(new.devices)]
    return (new, *others)[:MAX_MEASUREMENTS]


def with_measurements(discovery: Discovery, measurements: Sequence[Measurement]) -> Discovery:
    """The discovery with measured bandwidth; unchanged, with a problem, if its devices can't be identified."""
    if not discovery.devices or not measurements:
        return discovery
    topology = discovery.topology or Topology(tuple(device.id for device in discovery.devices))
    samples = _samples(measurements, set(topology.devices))
    if not samples:
        return _unmeasured(discovery, "the measured bandwidth is of devices that this node does not have")
    matrix, filled = _matrix(topology, samples)
    if matrix is None:
        return _unmeasured(discovery, f"no bandwidth is measured between {filled}, and their links are not known")
    warnings = [warning for each in measurements[:1] for warning in each.warnings]
    if filled:
        warnings.append(f"no bandwidth is measured between {filled}: the value of the link kind is used")
    newest = measurements[0]
    when = f"{newest.tool}, {datetime.fromtimestamp(newest.time, UTC):{_TIME}}"
    return replace(
        discovery,
        topology=replace(topology, bandwidth=matrix, warnings=tuple(dict.fromkeys((*topology.warnings, *warnings)))),
        facts={**discovery.facts, FACT: when},
    )


def _samples(measurements: Sequence[Measurement], present: set[str]) -> Samples:
    samples: Samples = {}
    for each in reversed(measurements):  # the newest last, so that it counts
        for a, row in zip(each.devices, each.bandwidth, strict=True):
            for b, value in zip(each.devices, row, strict=True):
                if a != b and {a, b} <= present:
                    samples[a, b] = value
    return samples


def _matrix(topology: Topology, samples: Samples) -> tuple[Matrix | None, str]:
    """The matrix, and the pairs without a sample; None if the links do not tell their value."""
    ids, values = topology.devices, dict(samples)
    missing = [(i, j) for i, j in combinations(range(len(ids)), 2) if (ids[i], ids[j]) not in samples]
    plausible = _plausible(ids, samples)
    for i, j in missing:
        value = typical_value((i, j), topology.links, plausible) if topology.links else 0.0
        if not value:
            return None, _pairs(missing)
        values[ids[i], ids[j]] = values[ids[j], ids[i]] = value
    return tuple(tuple(values.get((a, b), 0.0) for b in ids) for a in ids), _pairs(missing)


def _plausible(ids: Sequence[str], samples: Mapping[tuple[str, str], float]) -> dict[tuple[int, int], float]:
    """By positions, the slower direction of each pair without a bad sample."""
    plausible = {}
    for (i, a), (j, b) in combinations(enumerate(ids), 2):
        if (a, b) in samples:
            slow, fast = sorted((samples[a, b], samples[b, a]))
            if slow >= SUSPECT_BELOW * fast:
                plausible[i, j] = slow
    return plausible


def _pairs(missing: Sequence[tuple[int, int]]) -> str:
    more = f" and {len(missing) - _SHOWN} more pairs" if len(missing) > _SHOWN else ""
    return ", ".join(f"{i}-{j}" for i, j in missing[:_SHOWN]) + more


def _unmeasured(discovery: Discovery, sentence: str) -> Discovery:
    return replace(discovery, problems=(*discovery.problems, f"{sentence}; run `linkwise agent measure`"))
