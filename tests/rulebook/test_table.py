"""The table of rules is read strictly."""

import pytest

from linkwise.errors import RulebookError
from linkwise.rulebook import table
from linkwise.rulebook.table import Rule, read

HEAD = "## 003 rings\n| id | rule | proven |\n|---|---|---|\n"


def test_a_row_becomes_a_rule() -> None:
    assert read(HEAD + "| 003.ring | up to four chips | L E |\n") == (Rule("003.ring", "up to four chips", ("L", "E")),)


def test_text_around_the_tables_is_no_rule() -> None:
    assert read("# The rules\n\nSome | words.\n\n" + HEAD) == ()


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("| 003.ring | no levels |", "expected"),
        ("| 003.Ring | a capital | L |", "expected"),
        ("| 003.ring |  | L |", "expected"),
        ("| 003.ring | an unknown level | L X |", "levels must be distinct and among L E R -"),
        ("| 003.ring | a level twice | L L |", "levels must be distinct and among L E R -"),
        ("| 004.ring | another system | L |", "in the section of 003"),
    ],
)
def test_a_bad_row_is_named_by_its_line(row: str, complaint: str) -> None:
    with pytest.raises(RulebookError, match=rf"^rules\.md:4: .*{complaint}"):
        read(HEAD + row)


def test_a_row_before_any_heading_is_refused() -> None:
    with pytest.raises(RulebookError, match="in the section of no system"):
        read("| 003.ring | lost | L |\n")


def test_an_id_stands_once() -> None:
    with pytest.raises(RulebookError, match=r"rules\.md:5: rule 003\.ring is already in line 4"):
        read(HEAD + "| 003.ring | one | L |\n| 003.ring | two | L |\n")


def test_the_packaged_table_has_the_five_systems() -> None:
    assert list(table.systems()) == ["000", "001", "002", "003", "004"]
    assert {rule.system for rule in table.rules()} == set(table.systems())
