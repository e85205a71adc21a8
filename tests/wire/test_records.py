"""Records as JSON: written by the annotations of their fields, and decoded strictly."""

from __future__ import annotations

import json
from collections.abc import Mapping  # noqa: TC003 - records are decoded by their annotations
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal, NamedTuple

import pytest

from linkwise.errors import InputError
from linkwise.wire.records import Form, RecordCodec


class Share(NamedTuple):
    device: str
    amount: int = 1


FIRST = Share("gpu-0")


@dataclass(frozen=True, slots=True)
class Idle:
    pass


@dataclass(frozen=True, slots=True)
class Waiting:
    reason: str
    until: float = 0.0


@dataclass(frozen=True, slots=True)
class Tree:
    name: str
    children: tuple[Tree, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    color: Literal["red", "blue"] = "red"
    stage: Idle | Waiting | None = None
    last: type[Idle | Waiting] | None = None
    share: Share = FIRST
    nodes: frozenset[str] = frozenset()
    notices: Mapping[tuple[str, int], str] = field(default_factory=dict)
    scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    fact: int | str | tuple[int, ...] | tuple[str, ...] | tuple[tuple[int, int], ...] | None = None
    tree: Tree | None = None
    size: complex = 0j
    length: int = field(default=0, compare=False)


FULL = Record(
    "a",
    "blue",
    Waiting("full", 2.5),
    Waiting,
    Share("gpu-1", 2),
    frozenset({"n2", "n1"}),
    {("u-1", 2): "sent"},
    {"u/1": (1, 2.5, inf, -inf)},
    ((1, 2), (3, 4)),
    Tree("root", (Tree("leaf"),)),
    3j,
    length=1,
)
CODEC = RecordCodec({complex: Form(lambda value: value.imag, lambda data: complex(0, data))})


def written(record: Record = FULL) -> dict[str, Any]:
    return dict(json.loads(json.dumps(CODEC.encode(record, Record), allow_nan=False)))


def test_a_record_is_decoded_as_it_was_encoded() -> None:
    assert CODEC.decode(written(), Record) == FULL


def test_keys_are_the_names_of_fields_and_defaults_are_omitted() -> None:
    assert written(Record("a", share=Share("gpu-0"), nodes=frozenset("b"))) == {"name": "a", "nodes": ["b"]}


def test_a_class_is_written_as_its_name() -> None:
    assert written()["last"] == "Waiting"


def test_what_is_derived_is_neither_written_nor_read() -> None:
    assert "length" not in written()
    with pytest.raises(InputError, match="field 'length' is not known"):
        CODEC.decode({"name": "a", "length": 1}, Record)


def test_a_set_is_written_in_order() -> None:
    assert written()["nodes"] == ["n1", "n2"]


def test_one_of_several_records_names_its_class() -> None:
    assert written()["stage"] == {"type": "Waiting", "reason": "full", "until": 2.5}
    assert written(Record("a", stage=Idle()))["stage"] == {"type": "Idle"}
    assert CODEC.decode(written(Record("a", stage=Idle())), Record).stage == Idle()


def test_fields_can_be_encoded_one_item_after_the_other() -> None:
    parts = RecordCodec().encode_fields(Tree("root", (Tree("a"), Tree("b"))))
    assert (parts["name"], next(parts["children"]), list(parts["children"])) == ("root", {"name": "a"}, [{"name": "b"}])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": 3}, "top.name: expected text, got a whole number"),
        ({"nam": "a"}, "top: field 'nam' is not known; the fields are name, color, stage, "),
        ({"color": "green"}, "top.color: 'green' is not known; use red, blue"),
        ({"stage": {"type": "Busy"}}, "top.stage.type: 'Busy' is not known; use Idle, Waiting"),
        ({"stage": {}}, "top.stage.type: None is not known; use Idle, Waiting"),
        ({"stage": {"type": "Waiting"}}, "top.stage: field 'reason' is missing"),
        ({"last": "Busy"}, "top.last: 'Busy' is not known; use Idle, Waiting"),
        ({"stage": "Idle"}, "top.stage: expected nothing or an object, got text"),
        ({"share": {"device": "a", "amount": True}}, "top.share.amount: expected a whole number, got true or false"),
        ({"nodes": ["a", None]}, "top.nodes[1]: expected text, got nothing"),
        ({"notices": [[["u", 1, 2], "x"]]}, "top.notices[0][0]: expected 2 values, got 3"),
        ({"notices": {}}, "top.notices: expected a list, got an object"),
        ({"scores": {"a b: c": [1, "2"]}}, "top.scores['a b: c'][1]: expected a number, got text"),
        ({"fact": [[1, "a"]]}, "top.fact[0][1]: expected a whole number, got text"),
        ({"fact": 1.5}, "top.fact: expected a whole number or text or a list or nothing, got a number"),
        ({"tree": {"name": "a", "children": [{"name": 1}]}}, "top.tree.children[0].name: expected text, got"),
    ],
)
def test_what_is_invalid_is_named_with_its_place(change: dict[str, object], said: str) -> None:
    with pytest.raises(InputError) as caught:
        CODEC.decode(written() | change, Record, "top")
    assert str(caught.value).startswith(said)


def test_the_place_of_a_form_continues_that_of_the_record() -> None:
    def refuse(data: object) -> complex:
        raise InputError(f"spec.real: {data!r} is imaginary")

    with pytest.raises(InputError, match=r"^kept\.size\.spec\.real: 3 is imaginary$"):
        RecordCodec({complex: Form(None, refuse)}).decode({"name": "a", "size": 3}, Record, "kept")


@pytest.mark.parametrize("fact", [3, "three", (1, 2), ("a",), ((1, 2),), (), None])
def test_one_of_several_tuples_is_recognised_by_its_content(fact: Any) -> None:  # noqa: ANN401 - all that the field may hold
    assert CODEC.decode(written(Record("a", fact=fact)), Record).fact == fact


def test_forms_that_a_value_does_not_distinguish_are_a_bug() -> None:
    with pytest.raises(TypeError, match="a union has two forms of tuple, which a value does not distinguish"):
        RecordCodec().encode((), tuple[float, ...] | tuple[str, ...])


def test_a_type_without_a_form_is_a_bug() -> None:
    with pytest.raises(TypeError, match=r"complex.* has no JSON form"):
        RecordCodec().encode(FULL, Record)
