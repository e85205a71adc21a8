"""The members of one group: who is first, how many are bound, in which order."""

from __future__ import annotations

from dataclasses import replace

from linkwise.broker.records.members import Members
from linkwise.model.ask import Group
from linkwise.model.views import PodView

GROUP = Group("default/g", "koordinator")


def pod(name: str, created: float, node: str = "") -> PodView:
    return PodView("default", name, f"u-{name}", created=created, node=node)


def roll(*pods: PodView) -> Members:
    made = Members()
    for each in pods:
        made.put(each, GROUP)
    return made


def first(made: Members) -> str:
    return made.first()[0].name


def test_the_oldest_member_is_first_in_any_order_of_arrival() -> None:
    made = roll(pod("b", 2.0), pod("c", 3.0))
    assert first(made) == "b"
    made.put(pod("a", 1.0), GROUP)
    assert first(made) == "a"
    made.take("u-a")
    assert first(made) == "b"


def test_the_first_member_is_known_as_it_is_now() -> None:
    made = roll(pod("a", 1.0), pod("b", 2.0))
    assert first(made) == "a"
    made.put(pod("a", 1.0, "n0"), replace(GROUP, minimum=2))
    member, said = made.first()
    assert (member.node, said.minimum) == ("n0", 2)


def test_members_that_have_a_node_are_counted_once_each() -> None:
    made = roll(pod("a", 1.0), pod("b", 2.0, "n0"), pod("a", 1.0, "n0"), pod("a", 1.0, "n0"))
    assert made.bound == 2
    made.take("u-b")
    assert (made.bound, len(made)) == (1, 1)


def test_numbers_in_names_count_as_numbers() -> None:
    made = roll(pod("w-10", 1.0), pod("w-2", 1.0), pod("w-1", 2.0))
    assert [each.name for each in made.by_rank()] == ["w-2", "w-10", "w-1"]
