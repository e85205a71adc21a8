"""Fast constructors make the same frozen values."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field

import pytest

from linkwise.model.topology import Topology
from linkwise.speed.fast_dataclass import fast_constructor


@dataclass(frozen=True, slots=True)
class Thing:
    name: str
    size: int = 1
    parts: list[str] = field(default_factory=list)


def test_what_is_made_quickly_is_of_the_class_equal_and_as_frozen() -> None:
    made = fast_constructor(Thing)("a", size=2)
    assert type(made) is Thing
    assert made == Thing("a", 2)
    with pytest.raises(FrozenInstanceError):
        made.name = "b"  # type: ignore[misc]  # that it can't be set is the claim


def test_every_value_gets_lists_of_its_own() -> None:
    one, other = fast_constructor(Thing)("a"), fast_constructor(Thing)("b")
    assert one.parts == other.parts == []
    assert one.parts is not other.parts


def test_a_field_without_a_default_must_be_given() -> None:
    with pytest.raises(TypeError):
        fast_constructor(Thing)()  # type: ignore[call-arg]  # that it can't be left out is the claim


def test_a_class_that_checks_its_fields_can_not_be_made_past_its_checks() -> None:
    with pytest.raises(TypeError, match="Topology has a __post_init__"):
        fast_constructor(Topology)
