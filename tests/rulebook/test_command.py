"""`linkwise rules` shows all rules, some, or one."""

import json

import pytest
from click.testing import CliRunner, Result

from linkwise.cli.program import main
from linkwise.rulebook import table

KEYS = ["id", "statement", "status", "proven", "missing", "waits_for", "where", "tests"]


def rules(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["rules", *arguments], env={"COLUMNS": "80"})


def test_json_has_every_rule_with_its_keys_in_order() -> None:
    made = json.loads(rules("--json").stdout)
    assert [rule["id"] for rule in made] == [rule.id for rule in table.rules()]
    assert all(list(rule) == KEYS for rule in made)


def test_a_number_chooses_one_system() -> None:
    assert {rule["id"][:4] for rule in json.loads(rules("--json", "003").stdout)} == {"003."}


def test_an_exact_id_is_that_rule_alone() -> None:
    assert [rule["id"] for rule in json.loads(rules("--json", "003.one").stdout)] == ["003.one"]


def test_one_rule_is_shown_in_full() -> None:
    made = rules("003.groups").stdout
    assert made.startswith("003.groups  priority groups A to D")
    assert all(f"\n  {name}  " in made for name in ("status", "proven", "where", "tests"))


def test_tables_fit_80_columns_and_cut_nothing() -> None:
    made = rules().stdout
    assert max(map(len, made.splitlines())) <= 80
    assert "…" not in made
    assert "\x1b" not in made


def test_brackets_of_a_statement_are_printed() -> None:
    assert "[-d]" in rules("004").stdout


def test_the_last_lines_sum_up() -> None:
    summary, legend = rules().stdout.splitlines()[-2:]
    assert f"of {len(table.rules())} rules done; proven L " in summary
    assert legend == "(L library, E embedded cluster, R real component, - documentation)"


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("groups", "Did you mean 003.groups?"),
        ("003.gruops", "Did you mean 003.groups"),
        ("xyzzy", "Systems: 000, 001, 002, 003, 004."),
    ],
)
def test_an_unknown_pattern_gets_a_hint(pattern: str, hint: str) -> None:
    made = rules(pattern)
    assert made.exit_code == 2
    assert f"No rule starts with '{pattern}'. {hint}" in made.stderr
