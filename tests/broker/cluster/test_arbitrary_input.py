"""Arbitrary names, times, inventories, records and requests: every verb answers, and nothing stays reserved."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from linkwise.broker.watch_events import NodeObject, PodDeleted
from linkwise.dialects.linkwise.dialect import GRANT
from linkwise.dialects.linkwise.inventory import KIND
from linkwise.model.views import ContainerView
from linkwise.testing.cluster import (
    AMD,
    KOORDINATOR,
    MEMORY,
    NVIDIA,
    FakeNode,
    binds,
    broker_of,
    device_pod,
    place,
    seen_bound,
)
from support.profile import examples
from support.properties.broker_invariants import claims

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.testing.cluster import Family

NOW = 100.0
WHOLE, SHARE = device_pod("whole"), device_pod("share", 4, MEMORY)


def used(broker: Broker, node: str = "n") -> set[str]:
    return set(broker.usage[node].used)


def test_the_name_of_a_node_may_be_anything() -> None:
    for name in ("#0", " ", "ü", "n" * 1000):
        broker = broker_of(FakeNode(name))
        assert broker.filter(WHOLE, [name], NOW).nodes == [name]
        place(broker, WHOLE, name)
        assert len(used(broker, name)) == 1


@pytest.mark.parametrize("now", [-1e300, -1.0, 0.0, 1e300, float("inf"), float("-inf"), float("nan")])
def test_no_time_is_too_strange_for_any_verb(now: float) -> None:
    broker = broker_of(FakeNode("n", "share", 2))
    broker.observe([SHARE], now)
    assert broker.filter(SHARE, ["n"], now).nodes == ["n"]
    broker.prioritize(SHARE, ["n"], now)
    (bound,) = binds(broker.bind(SHARE.uid, "n", now).effects)
    broker.outcome(bound, "written", now)
    broker.step(now)
    broker.observe([seen_bound(SHARE, bound)], NOW)
    assert used(broker) == {"n-d0"}
    assert broker.filter(device_pod("next", 16, MEMORY), ["n"], NOW).nodes == ["n"]


TEXTS = st.text(max_size=8) | st.sampled_from(["", "0", "-1", "1e9", "#0", "n-d0", "1Gi", "NaN", "n", "uid-a"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def damaged(draw: st.DrawFn, document: object) -> object:
    """A document of which something is not what it should be."""
    if isinstance(document, dict) and document and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(document)))
        return {**document, key: draw(damaged(document[key]))}
    if isinstance(document, list | tuple) and document and draw(st.integers(0, 4)):
        place = draw(st.integers(0, len(document) - 1))
        return [*document[:place], draw(damaged(document[place])), *document[place + 1 :]]
    return draw(JSON)


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_an_inventory_may_say_anything_and_nothing_breaks(data: st.DataObject) -> None:
    family: Family = data.draw(st.sampled_from(["linked", "share", "percent", "ring"]))
    box = FakeNode("n", family, 8, allocations={"uid-a": ("n-d0",)})
    document = data.draw(damaged(box.inventory_object().document))
    broker = broker_of(box)
    for found in (document if isinstance(document, dict) else {}, json.dumps(document).encode()):
        broker.observe([NodeObject("n", KIND, found)], NOW)
        for resource, amount in ((NVIDIA, 2), (MEMORY, 4), (KOORDINATOR, 50), (KOORDINATOR, 200)):
            broker.filter(device_pod(f"{resource}-{amount}", amount, resource), ["n"], NOW)
    broker.observe(FakeNode("n", family, 8).events(), NOW + 2.0)  # no offer is open any more
    assert claims(broker) == claims(broker_of(FakeNode("n", family, 8)))


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_a_record_may_say_anything_and_is_believed_or_counted(data: st.DataObject) -> None:
    family: Family = data.draw(st.sampled_from(["linked", "share", "percent", "ring"]))
    box = FakeNode("n", family, 8)
    amount, resource = {
        "linked": (2, NVIDIA), "share": (4, MEMORY), "percent": (50, KOORDINATOR), "ring": (2, "huawei.com/Ascend910")
    }[family]  # fmt: skip
    pod = device_pod("a", amount, resource)
    maker = broker_of(box)
    maker.observe([pod], NOW)
    (bound,) = binds(maker.bind(pod.uid, "n", NOW).effects)
    keys = dict(bound.annotations)
    for key in data.draw(st.sets(st.sampled_from(sorted(keys)), min_size=1)):
        text = keys[key]
        whole = json.loads(text) if text.startswith("{") else text
        keys[key] = json.dumps(data.draw(damaged(whole))) if whole is not text else data.draw(TEXTS)
    broker = broker_of(box)
    broker.observe([replace(seen_bound(pod, bound), annotations=keys)], NOW)
    node = broker.usage["n"]
    assert node.used or node.unattributed or node.unattributed_share
    broker.observe([PodDeleted(pod.uid)], NOW)
    assert claims(broker) == claims(broker_of(box))


@settings(max_examples=examples(100), deadline=None)
@given(
    amounts=st.dictionaries(st.sampled_from([NVIDIA, MEMORY, KOORDINATOR, AMD, "cpu"]), TEXTS, max_size=3), node=TEXTS
)
def test_a_pod_may_ask_for_anything_and_gets_an_answer(amounts: dict[str, str], node: str) -> None:
    broker = broker_of(FakeNode("n"), FakeNode("s", "share"), FakeNode("k", "percent"))
    pod = replace(device_pod("a"), containers=(ContainerView("main", limits=amounts, requests=amounts),))
    answer = broker.filter(pod, ["n", "s", "k", node], NOW)
    assert answer.nodes or {*answer.failed, *answer.unresolvable} == {"n", "s", "k", node}
    broker.observe([pod], NOW)
    bound = broker.bind(pod.uid, node, NOW)
    assert bool(bound.error) != bool(binds(bound.effects))
    broker.dry_run(pod, NOW)
    broker.admit(pod)
    broker.observe([replace(pod, node="n", annotations={GRANT: "{}"}, version=9)], NOW)
    broker.observe([PodDeleted(pod.uid)], NOW)
    assert list(broker.entries()) == []
