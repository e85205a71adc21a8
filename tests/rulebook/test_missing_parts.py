"""The parts that rules wait for are named, and none for nothing."""

from linkwise.rulebook import table
from linkwise.rulebook.status import current, parts_by_rule


def test_every_rule_that_is_not_done_names_its_part() -> None:
    assert [rule.id for rule in current() if rule.status != "done" and not rule.waits_for] == []


def test_a_rule_that_is_done_waits_for_nothing() -> None:
    assert [rule.id for rule in current() if rule.status == "done" and rule.waits_for] == []


def test_only_rules_wait() -> None:
    assert set(parts_by_rule()) - {rule.id for rule in table.rules()} == set()


def test_a_rule_may_wait_for_several_parts() -> None:
    assert parts_by_rule({"a": ("1", "2"), "b": ("2",)}) == {"1": ("a",), "2": ("a", "b")}
