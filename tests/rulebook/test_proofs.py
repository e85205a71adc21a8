"""Tests say by a marker which rules they prove, and their folder says at which level."""

from pathlib import Path

import pytest

from linkwise.errors import RulebookError
from linkwise.rulebook.scan import Proof, proofs

KNOWN = {"000.links", "000.ties"}
ONE = '@pytest.mark.rule("000.links")\ndef test_one() -> None: ...\n'


def found(root: Path, path: str, text: str) -> list[Proof]:
    (root / path).parent.mkdir(parents=True)
    (root / path).write_text(text, "utf-8")
    return list(proofs(root, KNOWN))


@pytest.mark.parametrize(
    ("folder", "level"),
    [
        ("topology", "L"),
        ("service", "E"),
        ("cluster", "E"),
        ("embedded", "E"),
        ("e2e", "R"),
        ("browser", "R"),
    ],
)
def test_the_folder_says_the_level(tmp_path: Path, folder: str, level: str) -> None:
    path = f"tests/{folder}/test_a.py"
    assert found(tmp_path, path, ONE) == [Proof("000.links", level, f"{path}::test_one")]


def test_a_test_of_the_docs_proves_documentation(tmp_path: Path) -> None:
    assert [proof.level for proof in found(tmp_path, "tests/docs/test_a.py", ONE)] == ["-"]


def test_a_marker_may_name_several_rules_and_its_own_level(tmp_path: Path) -> None:
    text = ONE.replace('"000.links"', '"000.links", "000.ties", level="E"')
    made = found(tmp_path, "tests/topology/test_a.py", text)
    assert [(proof.rule, proof.level) for proof in made] == [("000.links", "E"), ("000.ties", "E")]


def test_a_story_in_yaml_proves_the_rules_that_it_names(tmp_path: Path) -> None:
    made = found(tmp_path, "tests/scenarios/000-a.yaml", "story: s\nrules: [000.links, 000.ties]\nsteps: []\n")
    assert made == [Proof(rule, "L", "tests/scenarios/000-a.yaml::000-a") for rule in ("000.links", "000.ties")]


def test_a_story_that_names_no_rule_of_the_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RulebookError, match=r"tests/scenarios/a\.yaml: unknown rule '009.x'"):
        found(tmp_path, "tests/scenarios/a.yaml", "rules: [009.x]\n")


def test_a_test_may_carry_several_markers(tmp_path: Path) -> None:
    made = found(tmp_path, "tests/test_a.py", '@pytest.mark.rule("000.ties")\n' + ONE)
    assert [proof.rule for proof in made] == ["000.ties", "000.links"]


@pytest.mark.parametrize("mark", ['pytest.mark.rule("000.ties")', '[pytest.mark.slow, pytest.mark.rule("000.ties")]'])
def test_a_file_may_mark_all_its_tests(tmp_path: Path, mark: str) -> None:
    text = f"pytestmark = {mark}\ndef test_one() -> None: ...\nasync def test_two() -> None: ...\n"
    made = found(tmp_path, "tests/test_a.py", text)
    assert [proof.test for proof in made] == ["tests/test_a.py::test_one", "tests/test_a.py::test_two"]


def test_a_class_hands_its_marker_to_its_tests(tmp_path: Path) -> None:
    text = '@pytest.mark.rule("000.ties")\nclass TestTies:\n    def test_one(self) -> None: ...\n'
    made = found(tmp_path, "tests/test_a.py", text)
    assert made == [Proof("000.ties", "L", "tests/test_a.py::TestTies::test_one")]


def test_a_marker_inside_a_string_proves_nothing(tmp_path: Path) -> None:
    assert found(tmp_path, "tests/test_a.py", f"TEXT = '''\n{ONE}'''\n") == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ('("000.link")', "unknown rule '000.link'"),
        ("(RULE)", "needs a string literal, found 'RULE'"),
        ("()", "names no rule"),
        ("", "names no rule"),
        ('("000.links", level="X")', "level is one of L E R -, found 'X'"),
        ('("000.links", at="L")', "found 'at='"),
    ],
)
def test_a_bad_marker_is_named_by_its_line(tmp_path: Path, arguments: str, complaint: str) -> None:
    with pytest.raises(RulebookError, match=rf"^tests/test_a\.py:2: .*{complaint}"):
        found(tmp_path, "tests/test_a.py", "\n" + ONE.replace('("000.links")', arguments))


def test_a_file_that_is_not_python_is_named(tmp_path: Path) -> None:
    with pytest.raises(RulebookError, match=r"^tests/test_a\.py:3: not valid Python"):
        found(tmp_path, "tests/test_a.py", ONE + "def\n")
