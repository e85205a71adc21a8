"""Import graph of a source tree, with imports under TYPE_CHECKING and inside functions."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Set as AbstractSet
    from pathlib import Path

__all__ = ["cycles", "import_graph"]


def import_graph(root: Path) -> dict[str, set[str]]:
    """The modules below a folder, each with the modules below it that it imports."""
    files = {_module(path.relative_to(root)): path for path in root.rglob("*.py")}
    return {name: set(_imports(path, files.keys())) - {name} for name, path in files.items()}


def cycles(graph: Mapping[str, AbstractSet[str]]) -> list[list[str]]:
    """The modules that import each other, directly or by way of others: one sorted list per cycle."""
    reach = {name: _reachable(graph, name) for name in graph}
    found = {tuple(sorted(other for other in reach[name] if name in reach[other])) for name in graph}
    return sorted(list(names) for names in found if names)


def _module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _imports(path: Path, known: AbstractSet[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{name.name}" for name in node.names}
            yield from names & known
            if node.module in known and not names <= known:  # else it names nothing but modules of a package
                yield node.module


def _reachable(graph: Mapping[str, AbstractSet[str]], start: str) -> set[str]:
    found: set[str] = set()
    left = list(graph[start])
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left.extend(graph[name])
    return found
