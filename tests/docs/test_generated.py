"""The generated pages are those `make docs` would write now."""

from collections.abc import Callable
from pathlib import Path
from runpy import run_path

import pytest

from linkwise.rulebook import table

ROOT = Path(__file__).resolve().parents[2]
PAGES: dict[str, Callable[[], str]] = run_path(str(ROOT / "scripts" / "docs.py"))["PAGES"]


@pytest.mark.parametrize("path", PAGES)
def test_a_generated_page_is_up_to_date(path: str) -> None:
    assert (ROOT / path).read_text("utf-8") == PAGES[path](), "run `make docs`"


def test_every_rule_is_on_the_page_of_rules() -> None:
    page = (ROOT / "docs" / "rules.md").read_text("utf-8")
    assert [rule.id for rule in table.rules() if f"| `{rule.id}` |" not in page] == []
