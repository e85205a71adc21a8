"""Code, tests and the table of rules agree."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from linkwise.cli.program import main
from linkwise.rulebook import table
from linkwise.rulebook.status import scanned

ROOT = Path(__file__).resolve().parents[2]
AGREED = ROOT.parent / "shared" / "RULES.md"


def test_every_rule_the_code_marks_is_proven_by_a_test() -> None:
    record = scanned(ROOT)
    tested = {proof.rule for proof in record.proofs}
    assert [f"{mark.place}: {mark.rule}" for mark in record.marks if mark.rule not in tested] == []


def test_every_rule_a_test_proves_is_marked_in_the_code() -> None:
    record = scanned(ROOT)
    in_the_docs = {mark.rule for mark in record.marks if mark.place.startswith("docs/")}
    in_the_code = {mark.rule for mark in record.marks if not mark.place.startswith("docs/")}
    lost = [
        f"{proof.test}: {proof.rule}"
        for proof in record.proofs
        if proof.rule not in (in_the_docs if proof.level == "-" else in_the_code)
    ]
    assert lost == []


def test_every_rule_is_listed_by_the_command() -> None:
    listed = json.loads(CliRunner().invoke(main, ["rules", "--json"]).stdout)
    assert {rule["id"] for rule in listed} == {rule.id for rule in table.rules()}


@pytest.mark.skipif(not AGREED.is_file(), reason=f"{AGREED} is not here to compare with")
def test_the_packaged_table_is_the_agreed_one() -> None:
    agreed = re.sub(r" \(contracts/[^)]*\)", "", AGREED.read_text("utf-8"))  # notes that do not ship
    assert table.rules() == table.read(agreed, AGREED.name)
