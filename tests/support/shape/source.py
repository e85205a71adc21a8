"""Static measures of a package: modules, folders, functions, imports.

One ruler for every package: all files that end in `.py` count, blank lines and comments too. An import of
`package.module` does not count as an import of `package`.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

__all__ = ["SourceShape", "Spread", "measure"]

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, ninth decile and maximum of some numbers; zeros if there are none."""

    median: float
    p90: int
    largest: int

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Spread:
        """Measure numbers; the ninth decile is one of them (nearest rank)."""
        ordered = sorted(numbers) or [0]
        return cls(median(ordered), ordered[-(-len(ordered) * 9 // 10) - 1], ordered[-1])


@dataclass(frozen=True, slots=True)
class SourceShape:
    """Measures of one package."""

    modules: int
    lines: int
    module_lines: Spread
    functions: int
    function_lines: Spread
    import_share: float
    """import statements' part of all lines"""
    folders: dict[str, int]
    """modules per folder, the fullest first"""
    fan_in: dict[str, int]
    """number of modules that import a module, for types or otherwise; the most imported first, zeros last"""
    cycles: list[list[str]]
    cycles_with_types: list[list[str]]


@dataclass(frozen=True, slots=True)
class _Module:
    """One file."""

    name: str  # dotted; a package is named as its folder
    folder: str
    lines: int
    import_lines: int
    functions: tuple[int, ...]
    """lines of each function from `def` to its end, nested ones too"""
    imports: frozenset[str] = field(default_factory=frozenset)
    """modules of the same package that are loaded when this one is"""
    other_imports: frozenset[str] = field(default_factory=frozenset)
    """the same under `if TYPE_CHECKING` and inside functions"""


def measure(package: Path) -> SourceShape:
    """Measure every module below the folder of a package."""
    files = {_dotted(package, file): file for file in sorted(package.rglob("*.py"))}
    by_name = {name: _read(name, file, package, files.keys()) for name, file in files.items()}
    modules = by_name.values()
    lines = sum(module.lines for module in modules)
    importers = Counter(name for module in modules for name in module.imports | module.other_imports)
    return SourceShape(
        modules=len(modules),
        lines=lines,
        module_lines=Spread.of(module.lines for module in modules),
        functions=sum(len(module.functions) for module in modules),
        function_lines=Spread.of(length for module in modules for length in module.functions),
        import_share=sum(module.import_lines for module in modules) / max(lines, 1),
        folders=dict(Counter(module.folder for module in modules).most_common()),
        fan_in=dict(sorted(((name, importers[name]) for name in by_name), key=lambda item: -item[1])),
        cycles=_cycles(by_name, types=False),
        cycles_with_types=_cycles(by_name, types=True),
    )


def _cycles(modules: Mapping[str, _Module], *, types: bool) -> list[list[str]]:
    """Groups of modules that import each other, directly or through others, the largest first.

    With `types` also by imports that are not needed to load them.
    """
    edges = {
        name: module.imports | (module.other_imports if types else frozenset()) for name, module in modules.items()
    }
    reach = {name: _reachable(name, edges) for name in edges}
    components = {tuple(sorted(other for other in reach[name] if name in reach[other])) for name in edges}
    return sorted(map(list, filter(None, components)), key=lambda component: (-len(component), component))


def _reachable(start: str, edges: Mapping[str, frozenset[str]]) -> set[str]:
    """All modules that a module imports, directly or through others; itself only in a cycle."""
    reached, stack = set[str](), list(edges[start])
    while stack:
        name = stack.pop()
        if name not in reached:
            reached.add(name)
            stack += edges[name]
    return reached


def _dotted(package: Path, file: Path) -> str:
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _read(name: str, file: Path, package: Path, names: Iterable[str]) -> _Module:
    text = file.read_text("utf-8")
    tree = ast.parse(text, str(file))
    base = name if file.name == "__init__.py" else name.rpartition(".")[0]
    loaded, other, lines = set[str](), set[str](), 0
    for node, at_load in _imports(tree):
        lines += _length(node)
        (loaded if at_load else other).update(_targets(node, base, names))
    return _Module(
        name,
        str(file.parent.relative_to(package.parent)),
        len(text.splitlines()),
        lines,
        tuple(_length(node) for node in ast.walk(tree) if isinstance(node, FUNCTIONS)),
        frozenset(loaded - {name}),
        frozenset(other - loaded - {name}),
    )


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _imports(node: ast.AST, *, at_load: bool = True) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Every import statement, and whether it runs when the module is loaded."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield node, at_load
        return
    inside = at_load and not isinstance(node, FUNCTIONS)
    guarded = node.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) else []
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, at_load=inside and child not in guarded)


def _targets(node: ast.Import | ast.ImportFrom, base: str, names: Iterable[str]) -> Iterator[str]:
    """The modules among `names` that a statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in names)
        return
    parents = base.split(".")[: len(base.split(".")) - node.level + 1] if node.level else []
    source = ".".join([*parents, *([node.module] if node.module else [])])
    for alias in node.names:
        inner = f"{source}.{alias.name}"
        if inner in names:
            yield inner
        elif source in names:
            yield source
