"""`make mutants` changes places of the source as its operators say, the same ones for a seed."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from support.script_modules import scripts_importable

with scripts_importable():
    from mutations import EQUIVALENT, SOURCE, mutated, on_line, places, probed, sample, variants

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("a < b", {"a <= b", "a >= b"}),
        ("a is None", {"a is not None"}),
        ("a and b", {"a or b", "a", "b"}),
        ("not a", {"a"}),
        ("a + 1", {"a - 1", "a + 2", "a + 0"}),
        ("min(a, key=f)", {"max(a, key=f)"}),
        ("[a for a in b if c]", {"[a for a in b]"}),
        ("if a:\n    f()", {"if not a:\n    f()", "if a:\n    pass"}),
        ("def f():\n    return a", {"def f():\n    return None"}),
        ("a.b = c", {"pass"}),
        ("a: int | None = zip(b, strict=True)", set()),
        ("if TYPE_CHECKING:\n    f(1)", set()),
        ("@dataclass(frozen=True)\nclass A:\n    pass", set()),
    ],
)
def test_a_place_is_changed_in_every_way_of_its_operator(source: str, changed: set[str]) -> None:
    found = set()
    for number, place in enumerate(places(ast.parse(source))):
        for variant, _ in enumerate(variants(place.node)):
            tree = ast.parse(source)
            mutated(tree, number, variant)
            found.add(ast.unparse(ast.fix_missing_locations(tree)))
    expected = {ast.unparse(ast.parse(text)) for text in changed}
    assert expected <= found
    assert bool(found) == bool(changed)


def test_a_seed_chooses_the_same_mutants_every_time() -> None:
    first, again, other = (sample(5, seed, ["node"]) for seed in (1, 1, 2))
    assert first == again != other


def test_a_probe_reports_when_the_statement_of_a_place_runs() -> None:
    source = "def f(a):\n    'text'\n    if a:\n        return 1\n    return 2\n"
    lines = {number: place.statement.lineno for number, place in enumerate(places(ast.parse(source)))}
    tree, reached = ast.parse(source), list[int]()
    probed(tree, {number: number for number in lines})
    namespace: dict[str, Any] = {"__reached__": reached.append}
    exec(compile(ast.fix_missing_locations(tree), "f.py", "exec"), namespace)  # noqa: S102 (the source above)
    assert namespace["f"](a=True) == 1
    assert {lines[number] for number in reached} == {3, 4}


def test_changes_of_a_line_are_shown_to_the_tests_that_reach_it(root: Path) -> None:
    lines = (root / "src/linkwise/speed/caches.py").read_text("utf-8").splitlines()
    line = 1 + next(number for number, text in enumerate(lines) if "len(known) > most" in text)
    place = ["--line", f"src/linkwise/speed/caches.py:{line}"]
    command = [sys.executable, "scripts/mutants.py", *place, "tests/speed/test_identity_cache.py"]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert "3 of 3 mutants noticed (100.0%), 0 survived" in run.stdout, run.stdout + run.stderr


@pytest.mark.parametrize("identity", EQUIVALENT)
def test_what_no_test_can_notice_is_still_in_the_source(identity: str) -> None:
    file = SOURCE / identity.partition(" ")[0]
    assert identity in {mutant.identity for mutant in on_line(file)}
