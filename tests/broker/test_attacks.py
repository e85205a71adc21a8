"""What no well-meaning cluster would say, and what a broker makes of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Event
from linkwise.broker.watch_events import NodeObject, PodDeleted
from linkwise.dialects.linkwise.dialect import GRANT
from linkwise.dialects.linkwise.inventory import KIND
from linkwise.model.views import ContainerView, NodeView
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
from support.properties.broker_invariants import claims
from support.state import state_of

if TYPE_CHECKING:
    from linkwise.engine.drift import DriftKind
    from linkwise.testing.cluster import Family

NOW = 100.0
WHOLE, SHARE = device_pod("whole"), device_pod("share", 4, MEMORY)
BOTH = {NVIDIA: "2", MEMORY: "32", "aliyun.com/gpu-count": "2"}


def drift(broker: Broker, node: str = "n") -> list[DriftKind]:
    return [found.kind for found in broker.drift.get(node, ())]


def used(broker: Broker, node: str = "n") -> set[str]:
    return set(broker.usage[node].used)


def serving_both(box: FakeNode) -> NodeView:
    """A node whose plugins tell kubelet of whole devices and of memory."""
    return replace(box.view(), capacity=BOTH, allocatable=BOTH)


@pytest.mark.rule("004.mode")
@pytest.mark.parametrize(("old", "new"), [("linked", "share"), ("share", "linked")])
def test_a_node_switched_while_devices_are_held_hands_out_nothing_until_they_are_given_back(
    old: Family, new: Family
) -> None:
    first, then = (WHOLE, SHARE) if old == "linked" else (SHARE, WHOLE)
    broker = broker_of(FakeNode("n", old))
    held = place(broker, first, "n")
    switched = FakeNode("n", new)
    effects = broker.observe([serving_both(switched), switched.told()], NOW)
    assert drift(broker) == ["mode"]
    assert ["in another way" in effect.sentence for effect in effects if isinstance(effect, Event)] == [True]
    assert broker.filter(then, ["n"], NOW).failed == {"n": "the node hands out devices in another way"}
    assert broker.filter(replace(first, uid="other", name="other"), ["n"], NOW).nodes == []
    broker.observe([PodDeleted(held.uid)], NOW)
    assert drift(broker) == []
    assert broker.filter(then, ["n"], NOW).nodes == ["n"]


def test_a_node_that_never_said_how_it_hands_out_devices_keeps_to_its_first_grant() -> None:
    broker = Broker()
    amounts = {NVIDIA: "2", KOORDINATOR: "200"}
    device = {"type": "gpu", "health": True, "resources": {"koordinator.sh/gpu-memory-ratio": 100}}
    cards = {"spec": {"devices": [{**device, "minor": minor, "id": f"GPU-{minor}"} for minor in range(2)]}}
    broker.observe([NodeView("n", capacity=amounts, allocatable=amounts), NodeObject("n", "Device", cards)], NOW)
    held = place(broker, WHOLE, "n")
    percent = device_pod("percent", 50, KOORDINATOR)
    assert broker.filter(percent, ["n"], NOW).failed == {"n": "the node hands out devices in another way"}
    broker.observe([PodDeleted(held.uid)], NOW)
    assert broker.filter(percent, ["n"], NOW).nodes == ["n"]


def test_an_agent_that_lists_pods_of_other_nodes_takes_nothing_from_these() -> None:
    broker = broker_of(FakeNode("n"), FakeNode("m"))
    pod = place(broker, WHOLE, "m")
    broker.observe([FakeNode("n", allocations={pod.uid: ("n-d1", "m-d1")}).told()], NOW)
    assert (used(broker, "n"), used(broker, "m")) == ({"n-d1"}, {"m-d0"})
    assert drift(broker, "n") == ["stranger"]


def test_two_nodes_that_claim_the_same_devices_are_two_nodes() -> None:
    broker = broker_of(FakeNode("n", ids=("x0", "x1")), FakeNode("m", ids=("x0", "x1")))
    place(broker, device_pod("a", 2), "n")
    place(broker, device_pod("b", 2), "m")
    assert used(broker, "n") == used(broker, "m") == {"x0", "x1"}


def test_an_agent_that_sees_two_pods_on_one_device_is_believed_and_told_of() -> None:
    broker = broker_of(FakeNode("n", count=3))
    pods = [place(broker, device_pod(name), "n") for name in ("a", "b")]
    broker.observe([FakeNode("n", count=3, allocations={pod.uid: ("n-d1",) for pod in pods}).told()], NOW)
    assert used(broker) == {"n-d1"}
    assert drift(broker) == ["record", "record", "twice"]


def test_two_records_of_one_device_take_two_devices_because_no_device_is_handed_out_twice() -> None:
    known, counted = FakeNode("n", count=4), FakeNode("n", count=4, inventory=False)
    broker = broker_of(known)
    place(broker, device_pod("a"), "n")
    broker.observe(counted.sights(), NOW)
    place(broker, device_pod("b"), "n")  # which device it gets is not told, and guessed at
    broker.observe(known.sights(), NOW)
    assert drift(broker) == ["twice"]
    assert broker.filter(device_pod("c", 3), ["n"], NOW).nodes == []
    assert broker.filter(device_pod("d", 2), ["n"], NOW).nodes == ["n"]


def test_a_record_copied_from_another_pod_is_not_believed() -> None:
    broker = broker_of(FakeNode("n"))
    theirs = place(broker, WHOLE, "n")
    copied = replace(device_pod("thief"), node="n", annotations=theirs.annotations, version=2)
    broker.observe([copied], NOW)
    assert used(broker) == {"n-d0"}
    assert broker.usage["n"].unattributed == 1
    assert "not for this one" in state_of(broker).cluster.problems[copied.uid][0].sentence


def test_evicting_on_a_node_of_another_vendor_helps_nobody() -> None:
    broker = broker_of(FakeNode("n", "amd"))
    place(broker, device_pod("a", 2, AMD), "n")
    assert broker.preempt(WHOLE, {"n": ["uid-a"]}, NOW) == {}


def test_what_an_agent_still_lists_of_pods_that_ended_does_not_spoil_an_eviction() -> None:
    broker = broker_of(FakeNode("n"))
    done, stays = place(broker, device_pod("done"), "n"), place(broker, device_pod("stays"), "n")
    listing = FakeNode("n", allocations={done.uid: ("n-d0",), stays.uid: ("n-d1",)})
    broker.observe([replace(done, phase="Succeeded", version=9), listing.told()], NOW)
    assert broker.preempt(device_pod("new", 2), {"n": [stays.uid]}, NOW)


def test_the_name_of_a_node_may_be_anything() -> None:
    for name in ("#0", " ", "ü", "n" * 1000):
        broker = broker_of(FakeNode(name))
        assert broker.filter(WHOLE, [name], NOW).nodes == [name]
        assert used(broker, name) == set()
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


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_an_inventory_may_say_anything_and_nothing_breaks(data: st.DataObject) -> None:
    family: Family = data.draw(st.sampled_from(["linked", "share", "percent", "ring"]))
    box = FakeNode("n", family, 8, allocations={"uid-a": ("n-d0",)})
    document = data.draw(damaged(box.told().document))
    broker = broker_of(box)
    for found in (document if isinstance(document, dict) else {}, json.dumps(document).encode()):
        broker.observe([NodeObject("n", KIND, found)], NOW)
        for resource, amount in ((NVIDIA, 2), (MEMORY, 4), (KOORDINATOR, 50), (KOORDINATOR, 200)):
            broker.filter(device_pod(f"{resource}-{amount}", amount, resource), ["n"], NOW)
    broker.observe(FakeNode("n", family, 8).sights(), NOW)
    assert claims(broker) == claims(broker_of(FakeNode("n", family, 8)))


@settings(max_examples=150, deadline=None)
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


@settings(max_examples=100, deadline=None)
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
