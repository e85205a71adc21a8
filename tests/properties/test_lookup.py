"""Over random clusters: the best nodes of a request are those that evaluating every node would find, in one order."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings, strategies as st

from linkwise.engine.index.node_index import Index, Query, choices
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.settings import PlacingSettings, ShareSettings
from linkwise.model.verdict import Offer
from linkwise.policies.registry import policies_with
from linkwise.testing.nodes import ask, node, share_ask, share_node
from linkwise.vendors.machines import profile
from support.profile import examples

if TYPE_CHECKING:
    from linkwise.engine.index.score_table import Code
    from linkwise.model.node import Mode, Node

MACHINES = ("dgx1-v100", "v100-pcie", "dgx-a100")
RING = "ascend-910"
WORDS = frozenset({"w"})
CARD = 10
STRANGERS = [f"x{number}" for number in range(1100)]  # with so many names no node is looked up by itself


def random_node(chance: random.Random, policy: str, name: str) -> Node:
    free = chance.sample(range(8), chance.choice([0, 1, 2, 4, 7, 8, 8]))
    if policy == "memory-share":
        left = [chance.choice([0, 0, 2, 3, 5, CARD, CARD]) for _ in range(chance.choice([1, 4, 8]))]
        owners = {number: chance.choice(["a", "b"]) for number, room in enumerate(left) if room < CARD}
        cores = {number: chance.choice([0, 50, 90]) for number, room in enumerate(left) if room < CARD}
        mode: Mode = chance.choice(["share", "percent", "any"])
        shared = share_node(CARD, left, name=name, owners=owners, cores=cores, mode=mode)
        linked = node(8, topology=profile(chance.choice(MACHINES)).topology).topology
        return replace(shared, topology=linked if chance.random() < 0.7 else None)
    if policy == "ring-affinity":
        return node(8, name=name, free=free, faulty=free[:1] if chance.random() < 0.2 else (), profile=RING)
    return node(8, name=name, free=free, topology=chance.choice([None, *(profile(name).topology for name in MACHINES)]))


def random_ask(chance: random.Random, policy: str) -> Ask:
    if policy == "memory-share":
        asked = share_ask(chance.choice([1, 2, 3, 5]), core=chance.choice([0, 0, 20]), namespace=chance.choice("ab"))
        return replace(asked, mode=chance.choice(["share", "percent"]))
    size = chance.choice([1, 2, 4, 8])
    return Ask("w", (ContainerAsk("c", devices=size),), profile=RING) if policy == "ring-affinity" else ask(size)


@settings(max_examples=examples(150), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    policy=st.sampled_from(["link-affinity", "bandwidth", "whole-device", "ring-affinity", "memory-share"]),
    count=st.integers(1, 12) | st.integers(1, 200),
    share=st.builds(ShareSettings, st.sampled_from(["binpack", "spread"]), st.sampled_from(["namespace", "any"])),
    breadth=st.sampled_from([1, 1, 3]),
)
def test_the_best_nodes_are_those_of_brute_force_in_whatever_order_the_names_come(
    seed: int, policy: str, count: int, share: ShareSettings, breadth: int
) -> None:
    chance, chosen = random.Random(seed), PlacingSettings(share=share)
    index = Index(chosen)
    for number in range(count):
        index.put(random_node(chance, policy, f"n{number}"), WORDS)
    query = Query(random_ask(chance, policy), "w", policies_with(chosen)[policy])
    for _ in range(3):
        changed = chance.choice(list(index.nodes))
        index.put(random_node(chance, policy, changed), WORDS)
        names = [name for name in index.nodes if chance.random() < chance.choice([0.3, 1.0])]
        without = {name for name in names if chance.random() < 0.1}
        expected = brute_force(query, index, names, without)[:breadth]
        names += chance.choice([[], STRANGERS])
        for _ in range(2):
            chance.shuffle(names)
            assert choices(index, query).best(names, breadth, without) == expected


def brute_force(query: Query, index: Index, names: list[str], without: set[str]) -> list[str]:
    """The names of the best class that are not in `without`, by score, then by name."""
    codes: dict[str, Code] = {}
    for name in set(names) - without:
        offer = query.policy.pick(query.ask, index.nodes[name])
        if isinstance(offer, Offer):
            codes[name] = query.policy.score(query.ask, index.nodes[name], offer)
    best = max((code[: query.policy.leading] for code in codes.values()), default=())
    of_class = [name for name, code in codes.items() if code[: query.policy.leading] == best]
    return sorted(of_class, key=lambda name: ([-term for term in codes[name]], name))
