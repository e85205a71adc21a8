"""The pure layers import no clock, I/O or random numbers, and nothing outside the standard library."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PURE = (
    *("errors.py", "speed", "model", "topology", "policies", "engine"),
    *("dialects", "vendors", "wire", "broker", "explain", "sim", "node", "doctor"),
)
ALLOWED_OUTSIDE = {"wire": {"msgspec"}}
FORBIDDEN = {
    *(
        "asyncio",
        "io",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
        "pickle",
        "random",
        "secrets",
    ),
    *(
        "select",
        "shutil",
        "signal",
        "socket",
        "ssl",
        "subprocess",
        "sys",
        "tempfile",
        "threading",
        "time",
        "urllib",
    ),
}
FORBIDDEN_CALLS = {"open", "print", "input", "exec", "eval", "now", "today", "utcnow"}


def files(root: Path, layer: str) -> list[Path]:
    place = root / "src/linkwise" / layer
    return sorted(place.rglob("*.py")) if place.is_dir() else [place] * place.exists()


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."


@pytest.mark.parametrize("layer", PURE)
def test_a_pure_layer_touches_nothing_outside(root: Path, layer: str) -> None:
    for file in files(root, layer):
        tree = ast.parse(file.read_text())
        for name in imported(tree):
            top = name.split(".")[0]
            known = top in sys.stdlib_module_names or top == "linkwise" or top in ALLOWED_OUTSIDE.get(layer, ())
            assert known, f"{file.name} imports {name}"
            assert top not in FORBIDDEN, f"{file.name} imports {name}"
        called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        calls = {func.id for func in called if isinstance(func, ast.Name)}
        calls |= {func.attr for func in called if isinstance(func, ast.Attribute)} & {"now", "today", "utcnow"}
        assert not calls & FORBIDDEN_CALLS, f"{file.name} calls {calls & FORBIDDEN_CALLS}"


def test_the_layers_that_are_checked_exist(root: Path) -> None:
    assert len([layer for layer in PURE if files(root, layer)]) >= 6


def test_every_file_opens_with_a_sentence(root: Path) -> None:
    for file in (root / "src").rglob("*.py"):
        docstring = ast.get_docstring(ast.parse(file.read_text()))
        assert docstring, f"{file} has no docstring"
        assert docstring.splitlines()[0].rstrip().endswith((".", ":")), f"{file}: {docstring.splitlines()[0]}"
