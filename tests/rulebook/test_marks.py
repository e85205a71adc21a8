"""Marks are comments of the code and of the pages, and nothing else."""

import tokenize
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from linkwise.errors import RulebookError
from linkwise.rulebook.scan import Mark, _python_comments, marks

ROOT = Path(__file__).resolve().parents[2]
KNOWN = {"000.links", "000.ties", "004.not-isolated"}


def found(root: Path, path: str, text: str) -> list[Mark]:
    (root / path).parent.mkdir(parents=True)
    (root / path).write_text(text, "utf-8")
    return list(marks(root, KNOWN))


def test_a_comment_line_marks_its_line(tmp_path: Path) -> None:
    text = '"""Links."""\n\n# rule 000.links\nKINDS = ()\n'
    assert found(tmp_path, "src/linkwise/link.py", text) == [Mark("000.links", "src/linkwise/link.py:3")]


def test_one_mark_may_name_several_rules_and_say_why(tmp_path: Path) -> None:
    made = found(tmp_path, "src/linkwise/link.py", "x = 1  # rule 000.links, 000.ties: first wins\n")
    assert [mark.rule for mark in made] == ["000.links", "000.ties"]


@pytest.mark.parametrize(
    "text",
    [
        '"""Docstring.\n\n# rule 000.links\n"""\n',
        "x = '# rule 000.links'\n",
        'x = "\\"# rule 000.links"\n',
        "# see rule 000.links for the order\n",
    ],
)
def test_strings_and_prose_are_no_marks(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, "src/linkwise/link.py", text) == []


@pytest.mark.parametrize("name", ["kinds.yaml", "kinds.toml"])
def test_data_files_carry_marks(tmp_path: Path, name: str) -> None:
    made = found(tmp_path, f"src/linkwise/data/{name}", "a: 1  # rule 000.links\n# rule 000.ties: why\n")
    assert made == [
        Mark("000.links", f"src/linkwise/data/{name}:1"),
        Mark("000.ties", f"src/linkwise/data/{name}:2"),
    ]


def test_a_page_carries_marks_out_of_sight(tmp_path: Path) -> None:
    made = found(tmp_path, "docs/how-to/share.md", "# Share\n\n<!-- rule 004.not-isolated -->\n")
    assert made == [Mark("004.not-isolated", "docs/how-to/share.md:3")]


def test_an_unknown_rule_is_named_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(RulebookError, match=r"src/linkwise/link\.py:2: unknown rule '000\.link'"):
        found(tmp_path, "src/linkwise/link.py", "\n# rule 000.link\n")


@pytest.mark.parametrize(
    "comment",
    [
        "# rules 000.links",
        "# Rule 000.links",
        "# rule 000.links - why",
        "# rule 000.links 000.ties",
        "# rule 000.links,",
    ],
)
def test_a_mark_in_another_form_is_refused(tmp_path: Path, comment: str) -> None:
    with pytest.raises(RulebookError, match=r"link\.py:1: write a mark as"):
        found(tmp_path, "src/linkwise/link.py", f"{comment}\n")


def test_comments_are_those_that_python_sees() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text("utf-8")
        assert list(_python_comments(text)) == list(as_python_sees(text)), path


def as_python_sees(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.strip("# ")
