"""Our own record on pods: what is written is what is read, and nothing broken is used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from linkwise import InputError
from linkwise.dialects.dialect import Writing
from linkwise.dialects.linkwise.dialect import (
    GRANT,
    POLICY,
    Linkwise,
    policy_of,
)
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.model.views import NodeView, PodView

if TYPE_CHECKING:
    from linkwise.model.node import AskMode

DIALECT = Linkwise()
RECORD = {
    "version": 1,
    "policy": "memory-share",
    "mode": "share",
    "node": "n1",
    "pod": "uid",
    "containers": {"main": {"devices": ["GPU-a"], "share": 8138, "core": 0}},
    "plan": "",
    "generation": 0,
}
words = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12)
counts = st.integers(0, 2**63 - 1)
parts = st.lists(
    st.builds(Part, words, st.lists(words, min_size=1, max_size=4, unique=True).map(tuple), counts, counts),
    max_size=4,
    unique_by=lambda part: part.container,
).map(tuple)
grants = st.builds(
    Grant, st.just("uid"), words, st.builds(Offer, words, parts), words | st.just(""), counts, st.just("percent")
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def pod(node: str = "", phase: str = "Running", **annotations: str) -> PodView:
    keys = {"grant": GRANT, "policy": POLICY}
    said = {keys[name]: text for name, text in annotations.items()}
    return PodView("team", "p", "uid", annotations=said, node=node, phase=phase)


def with_field(path: str, value: object) -> str:
    record = json.loads(json.dumps(RECORD))
    *outer, last = path.split(".")
    holder = record
    for name in outer:
        holder = holder[name]
    holder[last] = value
    return json.dumps(record)


@given(grants)
def test_a_grant_that_is_written_is_read_back_as_it_was(grant: Grant) -> None:
    written = DIALECT.write(Writing(pod(), grant, {}, now=1))
    held = DIALECT.held(pod(grant=written[GRANT]))
    assert held.grant == grant
    assert held.problems == ()


def test_the_record_is_compact_and_its_fields_are_in_order() -> None:
    offer = Offer("n1", (Part("z", ("GPU-b", "GPU-a")), Part("a", ("GPU-c",))), score=(3,), notes=("inferred",))
    written = DIALECT.write(Writing(pod(), Grant("uid", "link-affinity", offer, "plan-7", 2), {}, now=1))
    assert written == {
        GRANT: '{"containers":{"z":{"core":0,"devices":["GPU-b","GPU-a"],"share":0},'
        '"a":{"core":0,"devices":["GPU-c"],"share":0}},'
        '"generation":2,"mode":"whole","node":"n1","plan":"plan-7","pod":"uid","policy":"link-affinity","version":1}'
    }


@pytest.mark.parametrize(
    ("part", "mode"),
    [
        (Part("c", ("d",)), "whole"),
        (Part("c", ("d",), share=4), "share"),
        (Part("c", ("d",), 4, 50), "percent"),
        (Part("c", ("d", "e")), "percent"),
    ],
)
def test_the_mode_is_kept_with_the_amounts(part: Part, mode: AskMode) -> None:
    grant = Grant("uid", "p", Offer("n", (part,)), mode=mode)
    written = DIALECT.write(Writing(pod(), grant, {}, now=1))
    assert DIALECT.held(pod(grant=written[GRANT])).grant == grant


def test_a_record_that_was_copied_from_another_pod_is_not_believed() -> None:
    held = DIALECT.held(pod(grant=with_field("pod", "other")))
    assert held.grant is None
    assert "made for the pod with UID 'other', not for this one" in held.problems[0].sentence


def test_a_grant_that_would_lose_devices_is_not_written() -> None:
    twice = Offer("n1", (Part("c", ("GPU-a",)), Part("c", ("GPU-b",))))
    with pytest.raises(InputError, match="one container twice"):
        DIALECT.write(Writing(pod(), Grant("uid", "p", twice), {}, now=1))


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("version", 2, "version is 2; we know version 1 only"),
        ("version", "1", "version is '1'"),
        ("policy", None, "policy is null"),
        ("mode", "half", "mode is 'half'; one of whole, share, percent"),
        ("mode", "whole", "mode is whole and amounts are given"),
        ("node", "", "node is ''"),
        ("generation", -1, "generation is -1"),
        ("containers", [], "containers is a list; an object is expected"),
        ("containers.main", 3, "containers.main is 3; an object is expected"),
        ("containers.main.devices", [], "containers.main.devices names no device"),
        ("containers.main.devices", ["a", "a"], "containers.main.devices names one device twice"),
        ("containers.main.devices", ["a\n"], "containers.main.devices lists 'a\\n'"),
        ("containers.main.share", True, "containers.main.share is true; a whole number"),
        ("containers.main.share", 10**30, "containers.main.share is a number of many digits"),
        ("containers.main.core", 1.5, "containers.main.core is 1.5"),
    ],
)
def test_a_broken_record_is_not_believed(path: str, value: object, said: str) -> None:
    held = DIALECT.held(pod(grant=with_field(path, value)))
    assert held.grant is None
    assert held.problems[0].where == "pod team/p"
    assert held.problems[0].key == GRANT
    assert said in held.problems[0].sentence


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is not valid JSON"),
        ("[]", "the value is a list; an object is expected"),
        ("[" * 100_000, "nested too deep"),
        ("1" * 5000, "a number has too many digits"),
        ('{"version": NaN}', "NaN is not a number"),
        ('{"version":1,"version":2}', "the field 'version' appears twice"),
        ("{}", "version is missing"),
    ],
)
def test_a_text_that_is_no_record_is_not_believed(text: str, said: str) -> None:
    held = DIALECT.held(pod(grant=text))
    assert held.grant is None
    assert said in held.problems[0].sentence


@pytest.mark.parametrize("path", ["colour", "containers.main.colour"])
def test_an_unknown_field_is_reported_and_the_rest_believed(path: str) -> None:
    held = DIALECT.held(pod(grant=with_field(path, "red")))
    assert held.grant is not None
    assert [problem.sentence for problem in held.problems] == [f"{path} is not a known field; it is ignored"]


def test_a_record_for_another_node_is_not_believed() -> None:
    assert DIALECT.held(pod("n1", grant=json.dumps(RECORD))).grant is not None
    held = DIALECT.held(pod("n2", grant=json.dumps(RECORD)))
    assert held.grant is None
    assert "made for node 'n1' and the pod is on 'n2'" in held.problems[0].sentence


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_holds_nothing(phase: str) -> None:
    assert DIALECT.held(pod("n1", phase, grant=json.dumps(RECORD))).grant is None


def test_a_pod_without_our_words_says_nothing() -> None:
    assert DIALECT.held(pod()).grant is None
    assert policy_of(pod()) == ""
    assert policy_of(pod(policy=" bandwidth ")) == "bandwidth"
    assert DIALECT.ask(pod()) is None
    assert not DIALECT.owns("nvidia.com/gpu")


def test_a_node_is_read_from_its_own_inventory() -> None:
    raw = {"metadata": {"name": "n1"}, "spec": {"mode": "whole", "enforced": True, "devices": []}}
    facts = DIALECT.node(NodeView("n1"), {"DeviceInventory": raw})
    assert facts is not None
    assert (facts.source, facts.mode, facts.problems) == ("linkwise", "whole", ())
    assert DIALECT.node(NodeView("n1"), {}) is None
    other = DIALECT.node(NodeView("n2"), {"DeviceInventory": raw})
    assert other is not None
    assert other.mode == "any"
    assert "an inventory is named after its node" in other.problems[0].sentence


@given(st.text() | anything.map(json.dumps), st.text())
def test_no_annotation_can_raise(text: str, policy: str) -> None:
    said = pod(grant=text, policy=policy)
    held = DIALECT.held(said)
    assert held.grant is not None or held.problems
    assert policy_of(said) == policy.strip()


@given(st.sampled_from([*RECORD, "containers.main", "containers.main.devices", "containers.main.share"]), anything)
def test_no_field_can_raise(path: str, value: object) -> None:
    held = DIALECT.held(pod(grant=with_field(path, value)))
    assert held.grant is not None or held.problems
