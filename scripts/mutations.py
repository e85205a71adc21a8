"""Mutations: places of the source that can be changed, the forms that each can take, and random ones of them for `mutants.py`."""

from __future__ import annotations

import ast
import copy
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = [
    "EQUIVALENT",
    "OWN",
    "PACKAGES",
    "SOURCE",
    "Mutant",
    "mutated",
    "on_line",
    "places",
    "probed",
    "sample",
    "variants",
]

SOURCE: Final = Path(__file__).resolve().parents[1] / "src"
PACKAGES: Final = ("broker", "engine", "dialects", "serve", "node", "agent")
OWN: Final[Mapping[str, str]] = {"serve": "service"}  # folder of tests of a package, where it has another name

EQUIVALENT: Final[Mapping[str, str]] = {
    "linkwise/broker/volcano/callbacks.py _count: 0 -> 1": "no hardware refuses a pod with one device",
    "linkwise/broker/groups/planning/priority.py _plans_to_preempt: return [] -> return None": (
        "the caller asks only whether there are any"
    ),
    "linkwise/broker/groups/reservations.py give_up_places: state.groups.note_deadline(key) -> pass": (
        "a group that is noted without a date is skipped"
    ),
    "linkwise/broker/volcano/members.py member_on: return pod.uid -> return None": (
        "filter answers with a member's own node, and booking asks only for another one"
    ),
    "linkwise/dialects/nvidia.py Nvidia.advertised: del hardware -> pass": "the argument is not used",
    "linkwise/engine/index/share_index.py Bucket.ranks: self._sign < 0 -> self._sign <= 0": "a sign is 1 or -1",
    "linkwise/engine/index/share_index.py ShareIndex.all_fitting: "
    "len(names) * CHEAPER > len(self._known) -> len(names) * CHEAPER >= len(self._known)": (
        "it chooses the cheaper of two ways to the same answer"
    ),
    "linkwise/engine/planning/spread_packed.py packed_on: 0 -> -1": "a search without steps ends without an answer too",
}
"""mutants that no test can notice, by their identity without the line, each with the reason"""

COMPARISONS: Final[Mapping[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = (
    {ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt)}
    | {ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,)}
    | {ast.In: (ast.NotIn,), ast.NotIn: (ast.In,)}
)
ARITHMETIC: Final[Mapping[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
} | {ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv}
BUILT_IN: Final[Mapping[str, str]] = {"min": "max", "max": "min", "any": "all", "all": "any"}
NOT_CHANGED: Final = frozenset({"annotation", "returns", "decorator_list", "bases", "pattern"})
"""fields of the syntax tree that hold types, and options such as slots"""


def variants(node: ast.AST) -> Iterator[ast.AST]:  # noqa: C901, PLR0912 (a table of operators)
    """Every changed form of a node, without its children's."""
    match node:
        case ast.Compare(left, ops, comparators):
            for position, op in enumerate(ops):
                for other in COMPARISONS[type(op)]:
                    yield ast.Compare(left, [*ops[:position], other(), *ops[position + 1 :]], comparators)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            for position in range(len(values)):
                others = [*values[:position], *values[position + 1 :]]
                yield ast.BoolOp(op, others) if len(others) > 1 else others[0]
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.BinOp(left, op, right) if type(op) in ARITHMETIC:
            yield ast.BinOp(left, ARITHMETIC[type(op)](), right)
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() as value):
            yield from map(ast.Constant, (value + 1, value - 1))
        case ast.Call(ast.Name(name), args, keywords) if name in BUILT_IN:
            yield ast.Call(ast.Name(BUILT_IN[name], ast.Load()), args, keywords)
        case ast.If() | ast.While() | ast.IfExp():
            changed = copy.copy(node)
            changed.test = ast.UnaryOp(ast.Not(), node.test)
            yield changed
        case ast.comprehension(target, values, [_, *ifs], is_async):
            yield ast.comprehension(target, values, ifs, is_async)
        case ast.Return(value) if value is not None and ast.unparse(value) != "None":
            yield ast.Return(ast.Constant(None))
            if isinstance(value, ast.Compare | ast.BoolOp | ast.UnaryOp):
                yield from (ast.Return(ast.Constant(each)) for each in (True, False))
        case ast.Assign(targets) if not all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets):
            return
        case ast.Expr(value) if not isinstance(value, ast.Call | ast.Await) or ast.unparse(value).startswith("log."):
            return
        case ast.Assign() | ast.Expr() | ast.AugAssign() | ast.Delete() | ast.Raise() | ast.Continue() | ast.Break():
            yield ast.Pass()


@dataclass(frozen=True, slots=True)
class Place:
    """A node that can be changed, with the statement and the function around it."""

    node: ast.AST
    statement: ast.stmt
    function: str  # qualified name; empty outside of functions

    @property
    def line(self) -> int:
        """The line of the node, or of the statement if the syntax tree has none for it."""
        return int(getattr(self.node, "lineno", self.statement.lineno))


def places(tree: ast.Module) -> list[Place]:
    """Every node that has variants, in a fixed order."""
    return [place for place in _walk(tree, None, "", inside=False) if next(variants(place.node), None)]


def _walk(node: ast.AST, statement: ast.stmt | None, scope: str, *, inside: bool) -> Iterator[Place]:
    if statement is not None:
        yield Place(node, statement, scope if inside else "")
    definition = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    for field, value in ast.iter_fields(node):
        if field in NOT_CHANGED or (field == "keywords" and definition):
            continue
        body = definition and field == "body"
        name = f"{scope}.{node.name}" if body and scope else node.name if body else scope  # type: ignore[attr-defined]
        within = inside or (body and not isinstance(node, ast.ClassDef))
        for child in value if isinstance(value, list) else [value]:
            # Changes of imports of types, and of `strict` of zip, which is about bugs only, would say nothing.
            types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            strict = isinstance(child, ast.keyword) and child.arg == "strict"
            if isinstance(child, ast.AST) and not types and not strict:
                own = child if isinstance(child, ast.stmt) else statement
                yield from _walk(child, own, name, inside=within)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one place."""

    number: int
    file: str  # below src/
    place: int
    variant: int
    line: int
    function: str
    before: str
    after: str

    @property
    def identity(self) -> str:
        """The mutant without numbers that move with every change of the file."""
        return f"{self.file} {self.function}: {self.before} -> {self.after}"

    @property
    def module(self) -> str:
        """Its dotted name."""
        return self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def own(self) -> str:
        """The folder of tests of its package."""
        package = self.file.split("/")[1]
        return f"tests/{OWN.get(package, package)}/"


def sample(count: int, seed: int, packages: Sequence[str] = PACKAGES) -> list[Mutant]:
    """Choose places at random, and one change of each."""
    files = [file for name in packages for file in sorted((SOURCE / "linkwise" / name).rglob("*.py"))]
    everywhere = [(file, each) for file in files for each in enumerate(places(ast.parse(file.read_bytes())))]
    chooser = random.Random(seed)
    chosen = chooser.sample(everywhere, min(count, len(everywhere)))
    forms = (chooser.choice(list(enumerate(variants(place.node)))) for _, (_, place) in chosen)
    return [_mutant(number, *each, form) for number, (each, form) in enumerate(zip(chosen, forms, strict=True))]


def on_line(file: Path, line: int | None = None) -> list[Mutant]:
    """Every change of every place on a line, or in the whole file."""
    found = [each for each in enumerate(places(ast.parse(file.read_bytes()))) if line in {None, each[1].line}]
    changes = [(file, each, form) for each in found for form in enumerate(variants(each[1].node))]
    return [_mutant(number, *change) for number, change in enumerate(changes)]


def _mutant(number: int, file: Path, found: tuple[int, Place], form: tuple[int, ast.AST]) -> Mutant:
    (position, place), (variant, after), name = found, form, file.relative_to(SOURCE).as_posix()
    return Mutant(number, name, position, variant, place.line, place.function, _text(place.node), _text(after))


def _text(node: ast.AST) -> str:
    """The node as source, of compound statements the first line."""
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).strip().split("\n", 1)[0]


def mutated(tree: ast.Module, place: int, variant: int) -> None:
    """Change one place of a tree."""
    old = places(tree)[place].node
    _replace(tree, old, [ast.copy_location(list(variants(old))[variant], old)])


def probed(tree: ast.Module, numbers: Mapping[int, int]) -> None:
    """Report when the statements around places (by number of the mutant) run; for tables any function of the module."""
    found = places(tree)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for mutant, place in numbers.items():
        at = [found[place].statement] if found[place].function else [function.body[0] for function in functions]
        for statement in at:
            call = ast.Call(ast.Name("__reached__", ast.Load()), [ast.Constant(mutant)], [])
            _replace(tree, statement, [ast.copy_location(ast.Expr(call), statement), statement])


def _replace(tree: ast.Module, old: ast.AST, new: Sequence[ast.AST]) -> None:
    """Put nodes in the place of one; several only where the syntax has a list."""
    for node in list(ast.walk(tree)):
        for field, value in ast.iter_fields(node):
            if value is old:
                setattr(node, field, *new)
            elif isinstance(value, list) and any(each is old for each in value):
                value[:] = [part for each in value for part in (new if each is old else [each])]
