"""The page of rules links to what it names."""

from linkwise.rulebook.status import RuleStatus, render

RING = RuleStatus(
    id="003.ring",
    statement="one ring",
    status="not yet",
    proven=("L",),
    missing=("R",),
    waits_for=("rings", "a ring of rings"),
    where=("src/linkwise/topology/rings.py:3", "src/linkwise/topology/rings.py:9", "docs/rings.md:3"),
    tests=("tests/topology/test_rings.py::test_ring",),
)


def row(rule: RuleStatus) -> list[str]:
    last = render([rule], {"003": "rings"}).splitlines()[-1]
    return [cell.strip() for cell in last.strip("|").split("|")]


def test_a_row_shows_levels_listed_and_proven() -> None:
    assert row(RING)[:4] == ["`003.ring`", "one ring", "L R", "L"]


def test_what_a_rule_waits_for_is_named() -> None:
    assert row(RING)[4] == "rings, a ring of rings"


def test_places_are_links_without_lines_each_file_once() -> None:
    links = ["[topology/rings.py](../src/linkwise/topology/rings.py)", "[docs/rings.md](rings.md)"]
    assert row(RING)[5] == "<br>".join(links)


def test_tests_are_links_to_their_files() -> None:
    assert row(RING)[6] == "[test_ring](../tests/topology/test_rings.py)"


def test_each_system_has_its_heading() -> None:
    assert "\n## 003 rings\n" in render([RING], {"003": "rings"})
