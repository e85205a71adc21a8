from __future__ import annotations

from itertools import chain, combinations, product

import pytest
from hypothesis import given, strategies as st

from linkwise.model.node import TOPOLOGY_POLICIES, TopologyPolicy
from linkwise.topology.numa import Locality, aligned_nodes, with_locality

Hint = tuple[frozenset[int], bool]
"""NUMA nodes, and whether the resource prefers them"""


def hints(totals: dict[int, int], free: dict[int, int], size: int) -> list[Hint]:
    """The hints of one resource, as the kubelet's managers make them."""
    masks = [frozenset(mask) for count in range(1, len(totals) + 1) for mask in combinations(sorted(totals), count)]
    enough = [len(mask) for mask in masks if sum(totals[node] for node in mask) >= size]
    fewest = min(enough, default=len(totals))
    return [(mask, len(mask) == fewest) for mask in masks if sum(free.get(node, 0) for node in mask) >= size]


def merged(policy: TopologyPolicy, resources: list[list[Hint]]) -> tuple[int, ...] | None:
    """The kubelet's choice: over all combinations of hints, preferred ones first, then narrow, then low ones."""
    if policy == "single-numa-node":
        resources = [[hint for hint in each if len(hint[0]) == 1 and hint[1]] for each in resources]
    best: tuple[bool, int, int] | None = None
    chosen: frozenset[int] = frozenset()
    for combination in product(*resources):
        mask = frozenset.intersection(*(hint[0] for hint in combination))
        preferred = all(hint[1] for hint in combination) and len({hint[0] for hint in combination}) == 1
        key = (not preferred, len(mask), sum(1 << node for node in mask))
        if mask and (best is None or key < best):
            best, chosen = key, mask
    if best is None or (policy != "best-effort" and best[0]):
        return None
    return tuple(sorted(chosen))


AMOUNTS = st.dictionaries(st.integers(0, 4), st.integers(1, 4), min_size=1, max_size=4)


@given(AMOUNTS, st.data(), st.sampled_from(TOPOLOGY_POLICIES[1:]), st.integers(1, 8))
def test_devices_are_aligned_as_the_kubelet_merges_hints(
    totals: dict[int, int], data: st.DataObject, policy: TopologyPolicy, size: int
) -> None:
    free = {node: data.draw(st.integers(0, count)) for node, count in totals.items()}
    everywhere = tuple(sorted(totals)) if policy == "best-effort" else None
    assert aligned_nodes(policy, [(totals, free, size)]) == (merged(policy, [hints(totals, free, size)]) or everywhere)


@given(AMOUNTS, AMOUNTS, st.data(), st.sampled_from(TOPOLOGY_POLICIES[2:]), st.integers(1, 6), st.integers(1, 6))
def test_devices_and_cpus_are_aligned_together(  # noqa: PLR0913, PLR0917 - hypothesis
    devices: dict[int, int], cpus: dict[int, int], data: st.DataObject, policy: TopologyPolicy, size: int, cores: int
) -> None:
    free = {node: data.draw(st.integers(0, count)) for node, count in devices.items()}
    idle = {node: data.draw(st.integers(0, count)) for node, count in cpus.items()}
    kubelet = merged(policy, [hints(devices, free, size), hints(cpus, idle, cores)])
    assert aligned_nodes(policy, [(devices, free, size), (cpus, idle, cores)]) == kubelet


@pytest.mark.rule("002.affinity")
def test_a_restricted_kubelet_wants_devices_and_cpus_on_equally_many_numa_nodes() -> None:
    devices, cpus = {0: 4, 1: 4}, {0: 32, 1: 32}
    assert aligned_nodes("restricted", [(devices, devices, 8)]) == (0, 1)
    assert aligned_nodes("restricted", [(devices, devices, 8), (cpus, cpus, 4)]) is None
    assert aligned_nodes("restricted", [(devices, devices, 8), (cpus, cpus, 48)]) == (0, 1)


@given(
    st.lists(st.integers(0, 60), min_size=10, max_size=10),
    st.lists(st.sampled_from([0, 1, None]), min_size=5, max_size=5),
    st.integers(0, 31),
)
def test_locality_decides_only_between_equal_link_scores(links: list[int], numa: list[int | None], nics: int) -> None:
    pairs = dict(zip(combinations(range(5), 2), links, strict=True))
    scores = tuple(tuple(pairs.get((min(i, j), max(i, j)), 0) for j in range(5)) for i in range(5))
    local = with_locality(scores, Locality(tuple(numa), nics))

    def terms(chosen: tuple[int, ...]) -> tuple[int, int, int]:
        own = list(combinations(chosen, 2))
        together = sum(numa[i] is not None and numa[i] == numa[j] for i, j in own)
        near = sum((nics >> i & 1) + (nics >> j & 1) for i, j in own)
        return sum(pairs[pair] for pair in own), together, near

    for one, other in combinations(chain.from_iterable(combinations(range(5), size) for size in (2, 3, 4)), 2):
        first, second = (sum(local[i][j] for i, j in combinations(chosen, 2)) for chosen in (one, other))
        assert (first > second) == (terms(one) > terms(other))
