"""Scanner for the marks and proofs of rules in a checkout; it imports none of the scanned code.

A mark is a comment at the line that implements a rule: `# rule 003.groups: why` in the code, `<!-- rule 003.groups -->`
in a page under docs/. A proof is a test with the marker `@pytest.mark.rule("003.groups")`, or a scenario under
tests/scenarios/ with a line `rules: [003.groups]`.
"""

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from linkwise.errors import RulebookError
from linkwise.rulebook.table import ID, LEVELS

LEVEL_OF_FOLDER: Final = {
    "e2e": "R",
    "browser": "R",
    "cluster": "E",
    "service": "E",
    "embedded": "E",
    "docs": "-",
}
OTHER_FOLDERS: Final = "L"

# As exact as `tokenize` for Python up to 3.11 and four times as fast; strings are matched to be skipped.
STRING_OR_COMMENT: Final = re.compile(
    r"""
    \"{3}(?:\\.|[^\\])*?\"{3} | '{3}(?:\\.|[^\\])*?'{3}
    | "(?:\\.|[^"\\\n])*"        | '(?:\\.|[^'\\\n])*'
    | \#(?P<comment>[^\n]*)
    """,
    re.DOTALL | re.VERBOSE,
)
HASH_COMMENT: Final = re.compile(r"(?:^|\s)#\s*(.*)$")
PAGE_COMMENT: Final = re.compile(r"<!--\s*(.*?)\s*-->")
SCENARIO_RULES: Final = re.compile(r"^rules: \[(?P<ids>[^\]]*)\]$", re.MULTILINE)
LOOKS_LIKE_A_MARK: Final = re.compile(r"rules?:?\s+\d{3}\.", re.IGNORECASE)
MARK: Final = re.compile(rf"rule (?P<ids>{ID}(?:, {ID})*)(?::.*|\s+#.*)?")


@dataclass(frozen=True, slots=True)
class Mark:
    """A line that implements a rule, in the code or in a page under docs/."""

    rule: str
    place: str


@dataclass(frozen=True, slots=True)
class Proof:
    """A test that proves a rule at a level."""

    rule: str
    level: str
    test: str


def marks(root: Path, known: Collection[str]) -> Iterator[Mark]:
    """All marks of a checkout, by file and line.

    Raises:
        RulebookError: a mark can't be read or names a rule that is not in `known`.
    """
    sources = (
        ("src/linkwise", "*.py", _python_comments),
        ("src/linkwise", "*.yaml", _hash_comments),
        ("src/linkwise", "*.toml", _hash_comments),
        ("docs", "*.md", _page_comments),
    )
    for folder, pattern, comments in sources:
        for path in sorted((root / folder).rglob(pattern)):
            name = path.relative_to(root).as_posix()
            text = path.read_text("utf-8")
            if LOOKS_LIKE_A_MARK.search(text):
                for line, comment in comments(text):
                    place = f"{name}:{line}"
                    yield from (Mark(rule, place) for rule in _ids(comment, place, known))


def proofs(root: Path, known: Collection[str]) -> Iterator[Proof]:
    """All tests of a checkout that name a rule, by file and line.

    Raises:
        RulebookError: a marker can't be read or names a rule that is not in `known`.
    """
    tests = root / "tests"
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text("utf-8")
        if "mark.rule" in text:
            name = path.relative_to(root).as_posix()
            usual = LEVEL_OF_FOLDER.get(path.relative_to(tests).parts[0], OTHER_FOLDERS)
            for test, marker in _marked_tests(_parsed(name, text).body, (), name):
                place = f"{name}:{marker.lineno}"
                level = _level(marker, place) or usual
                yield from (Proof(rule, level, test) for rule in _named(marker, place, known))
    yield from _scenario_proofs(root, known)


def _scenario_proofs(root: Path, known: Collection[str]) -> Iterator[Proof]:
    for path in sorted((root / "tests" / "scenarios").rglob("*.yaml")):
        name = path.relative_to(root).as_posix()
        for line in SCENARIO_RULES.finditer(path.read_text("utf-8")):
            rules = filter(None, re.split(r"[,\s]+", line["ids"]))
            yield from (Proof(_checked(rule, name, known), OTHER_FOLDERS, f"{name}::{path.stem}") for rule in rules)


def _python_comments(text: str) -> Iterator[tuple[int, str]]:
    for token in STRING_OR_COMMENT.finditer(text):
        if token["comment"] is not None:
            yield text.count("\n", 0, token.start()) + 1, token["comment"].strip("# ")


def _hash_comments(text: str) -> Iterator[tuple[int, str]]:
    for line, content in enumerate(text.splitlines(), start=1):
        if comment := HASH_COMMENT.search(content):
            yield line, comment[1]


def _page_comments(text: str) -> Iterator[tuple[int, str]]:
    for line, content in enumerate(text.splitlines(), start=1):
        for comment in PAGE_COMMENT.finditer(content):
            yield line, comment[1]


def _ids(comment: str, place: str, known: Collection[str]) -> list[str]:
    if not LOOKS_LIKE_A_MARK.match(comment):
        return []
    mark = MARK.fullmatch(comment)
    if mark is None:
        raise RulebookError(f"{place}: write a mark as 'rule 000.name, 000.name: why', found '{comment}'")
    return [_checked(rule, place, known) for rule in mark["ids"].split(", ")]


def _checked(rule: str, place: str, known: Collection[str]) -> str:
    if rule not in known:
        raise RulebookError(f"{place}: unknown rule '{rule}'")
    return rule


def _parsed(name: str, text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise RulebookError(f"{name}:{error.lineno}: not valid Python: {error.msg}") from error


def _marked_tests(body: Sequence[ast.stmt], outer: tuple[ast.expr, ...], name: str) -> Iterator[tuple[str, ast.expr]]:
    outer = (*outer, *_pytestmark(body))
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            inner = (*outer, *_markers(node.decorator_list))
            yield from _marked_tests(node.body, inner, f"{name}::{node.name}")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            for marker in (*outer, *_markers(node.decorator_list)):
                yield f"{name}::{node.name}", marker


def _pytestmark(body: Sequence[ast.stmt]) -> Iterator[ast.expr]:
    for node in body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["pytestmark"]:
            value = node.value
            yield from _markers(value.elts if isinstance(value, ast.List | ast.Tuple) else [value])


def _markers(expressions: Sequence[ast.expr]) -> Iterator[ast.expr]:
    for expression in expressions:
        called = expression.func if isinstance(expression, ast.Call) else expression
        if ast.unparse(called) in {"pytest.mark.rule", "mark.rule"}:
            yield expression


def _named(marker: ast.expr, place: str, known: Collection[str]) -> list[str]:
    if not isinstance(marker, ast.Call) or not marker.args:
        raise RulebookError(f"{place}: the marker names no rule")
    return [_checked(_text(argument, place), place, known) for argument in marker.args]


def _level(marker: ast.expr, place: str) -> str | None:
    for keyword in marker.keywords if isinstance(marker, ast.Call) else ():
        if keyword.arg != "level":
            raise RulebookError(f"{place}: the marker takes rule ids and level=, found '{keyword.arg}='")
        if (level := _text(keyword.value, place)) not in LEVELS:
            raise RulebookError(f"{place}: level is one of {' '.join(LEVELS)}, found '{level}'")
        return level
    return None


def _text(expression: ast.expr, place: str) -> str:
    if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
        return expression.value
    raise RulebookError(f"{place}: the marker needs a string literal, found '{ast.unparse(expression)}'")
