"""Mutation testing: change random places of the source one at a time, and list the changes that no test notices; `make mutants` runs it.

The checkout is never touched: what is changed is compiled from a syntax tree in memory. A first run of the tests records
which of them reach each place. Then the tests are collected once, and each mutant gets a fork of that process in which its
functions have the changed code; it runs the tests that reach the place, the fastest first, until one of them fails.
Processes that tests start compile the changed module when they import it, and so does a run for a change outside of
functions. Results are kept in a folder per seed, from which an interrupted run resumes.

A survivor wants a test. If no test could notice it, it is listed in EQUIVALENT with the reason and no longer counts.

PYTEST_DONT_REWRITE: this file is a plug-in of pytest too, and imported before it.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import copy
import gc
import importlib.abc
import importlib.machinery
import json
import os
import random
import resource
import select
import signal
import subprocess
import sys
import time
from bisect import bisect_right
from collections import defaultdict
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "src"
PACKAGES: Final = ("broker", "engine", "dialects", "serve", "node", "agent")
TESTS: Final = tuple(
    f"tests/{name}"
    for name in ("broker", "engine", "dialects", "service", "node", "agent", "properties", "scenarios", "explain")
)
"""tests that are fast and use the packages in their own process"""
OWN: Final[Mapping[str, str]] = {"serve": "service"}
"""folder of tests of a package, where it has another name"""
JOB: Final = "MUTANTS_JOB"
"""variable that names the file with what a test process does; not LINKWISE_, which would be a setting"""
PASSED: Final = b"."
FIRST_LOOK: Final = 10.0
"""seconds of tests that a mutant gets before the others have had their turn: most are noticed within them"""
MEMORY: Final = 6 << 30
"""bytes that a process may address: a loop that a mutant made endless must not take the machine's memory"""

EQUIVALENT: Final[Mapping[str, str]] = {
    "linkwise/broker/groups/planning/priority.py _plans_to_preempt: return [] -> return None": (
        "the caller asks only whether there are any"
    ),
    "linkwise/broker/volcano/places.py member_on: return pod.uid -> return None": (
        "filter answers with a member's own node, and booking asks only for another one"
    ),
    "linkwise/engine/index/share_buckets.py Bucket.ranks: self._sign < 0 -> self._sign <= 0": "a sign is 1 or -1",
}
"""mutants that no test can notice, by their identity without the line, each with the reason"""

# operators

COMPARISONS: Final[Mapping[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: Final[Mapping[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
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
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Call(ast.Name(name), args, keywords) if name in BUILT_IN:
            yield ast.Call(ast.Name(BUILT_IN[name], ast.Load()), args, keywords)
        case ast.If() | ast.While() | ast.IfExp():
            changed = copy.copy(node)
            changed.test = ast.UnaryOp(ast.Not(), node.test)
            yield changed
        case ast.comprehension(ifs=ifs) if ifs:
            changed_loop = copy.copy(node)
            changed_loop.ifs = ifs[1:]
            yield changed_loop
        case ast.Return(value) if value is not None and not _is_constant(value, None):
            yield ast.Return(ast.Constant(None))
            if isinstance(value, ast.Compare | ast.BoolOp | ast.UnaryOp):
                yield ast.Return(ast.Constant(value=True))
                yield ast.Return(ast.Constant(value=False))
        case ast.Expr(ast.Call() | ast.Await()) if not ast.unparse(node).startswith("log."):
            yield ast.Pass()
        case ast.Assign(targets) if all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets):
            yield ast.Pass()
        case ast.AugAssign() | ast.Delete() | ast.Raise() | ast.Continue() | ast.Break():
            yield ast.Pass()


def _is_constant(node: ast.AST, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


# places


@dataclass(frozen=True, slots=True)
class Place:
    """A node that can be changed, with the statement and the function around it."""

    node: ast.AST
    statement: ast.stmt
    function: str
    """qualified name; empty outside of functions"""


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
            if isinstance(child, ast.AST) and not _is_skipped(child):
                own = child if isinstance(child, ast.stmt) else statement
                yield from _walk(child, own, name, inside=within)


def _is_skipped(node: ast.AST) -> bool:
    """Whether a change here would say nothing: imports of types, and `strict` of zip, which is about bugs only."""
    types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    return types or (isinstance(node, ast.keyword) and node.arg == "strict")


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


def sample(count: int, seed: int, packages: Sequence[str] = PACKAGES) -> list[Mutant]:
    """Choose places at random, and one change of each."""
    files = [file for name in packages for file in sorted((SOURCE / "linkwise" / name).rglob("*.py"))]
    everywhere = [
        (file, number, place)
        for file in files
        for number, place in enumerate(places(ast.parse(file.read_text("utf-8"))))
    ]
    chooser = random.Random(seed)
    chosen = chooser.sample(everywhere, min(count, len(everywhere)))
    return [
        _mutant(number, file, position, place, chooser.choice(list(enumerate(variants(place.node)))))
        for number, (file, position, place) in enumerate(chosen)
    ]


def on_line(file: Path, line: int) -> list[Mutant]:
    """Every change of every place on a line."""
    found = places(ast.parse(file.read_text("utf-8")))
    changes = [
        (position, place, form) for position, place in enumerate(found) for form in enumerate(variants(place.node))
    ]
    return [
        _mutant(number, file, *change)
        for number, change in enumerate(change for change in changes if _line(change[1]) == line)
    ]


def _mutant(number: int, file: Path, position: int, place: Place, form: tuple[int, ast.AST]) -> Mutant:
    variant, after = form
    name = file.relative_to(SOURCE).as_posix()
    before, after_text = _text(place.node), _text(after)
    return Mutant(number, name, position, variant, _line(place), place.function, before, after_text)


def _line(place: Place) -> int:
    line: int = getattr(place.node, "lineno", place.statement.lineno)
    return line


def _text(node: ast.AST) -> str:
    """The node as source, of compound statements the first line."""
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).strip().split("\n", 1)[0]


# in a test process: modules are compiled from a changed tree


def mutated(tree: ast.Module, place: int, variant: int) -> None:
    """Change one place of a tree."""
    old = places(tree)[place].node
    new = list(variants(old))[variant]
    if isinstance(old, ast.expr | ast.stmt) and isinstance(new, ast.expr | ast.stmt):
        ast.copy_location(new, old)
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if value is old:
                setattr(node, field, new)
            elif isinstance(value, list):
                value[:] = [new if each is old else each for each in value]


def probed(tree: ast.Module, numbers: Mapping[int, int]) -> None:
    """Report when the statements around places (by number of the mutant) run; for tables any function of the module."""
    found = places(tree)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for mutant, place in numbers.items():
        if found[place].function:
            _insert_before(tree, found[place].statement, mutant)
        else:
            for function in functions:
                function.body.insert(1 if ast.get_docstring(function) else 0, _probe(mutant, function.body[0]))


def _insert_before(tree: ast.Module, statement: ast.stmt, mutant: int) -> None:
    for node in ast.walk(tree):
        for _, value in ast.iter_fields(node):
            if isinstance(value, list):
                for position, each in enumerate(value):
                    if each is statement:
                        value.insert(position, _probe(mutant, statement))
                        return
    raise LookupError(f"no list of statements has {ast.unparse(statement)}")


def _probe(mutant: int, at: ast.stmt) -> ast.stmt:
    return ast.copy_location(ast.Expr(ast.Call(ast.Name("__reached__", ast.Load()), [ast.Constant(mutant)], [])), at)


class _Loader(importlib.machinery.SourceFileLoader):
    """Loader that compiles a module from its changed tree, and neither reads nor writes bytecode."""

    changes: Mapping[str, Any]

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path), path)
        if "probes" in self.changes:
            probed(tree, {int(mutant): place for mutant, place in self.changes["probes"].items()})
        else:
            mutated(tree, self.changes["place"], self.changes["variant"])
        code: CodeType = compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)
        return code


class _Finder(importlib.abc.MetaPathFinder):
    """Finder of the modules that are changed."""

    def __init__(self, modules: Mapping[str, Any]) -> None:
        self._modules = modules

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> Any:  # noqa: ANN401, ARG002
        if fullname not in self._modules:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin:
            spec.loader = _Loader(fullname, spec.origin)
            spec.loader.changes = self._modules[fullname]
        return spec


_seen: Final = set[int]()
"""places that the running test has reached"""


def install() -> None:
    """Change the modules of the job; called by sitecustomize in every process of a test run."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    job = json.loads(Path(os.environ[JOB]).read_text("utf-8"))
    if report := job.get("report"):
        output = os.open(report, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

        def reached(mutant: int) -> None:
            if mutant not in _seen:
                _seen.add(mutant)
                os.write(output, f"{mutant}\t{os.environ.get('PYTEST_CURRENT_TEST', '')}\n".encode())

        builtins.__reached__ = reached  # type: ignore[attr-defined]
    sys.meta_path.insert(0, _Finder(job["modules"]))


# in a test process: hooks of pytest, which finds them in this module


def pytest_configure() -> None:
    """Look for a counterexample only, and do not make it smaller."""
    from hypothesis import Phase, settings  # noqa: PLC0415 (the other processes do without)

    phases = [Phase.explicit, Phase.generate]
    settings.register_profile("mutants", settings(), phases=phases)
    settings.load_profile("mutants")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Keep the tests of the job, in its order."""
    order = {test: place for place, test in enumerate(_job()["tests"])}
    if order:
        items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])


def pytest_runtestloop(session: Any) -> bool | None:  # noqa: ANN401 (pytest.Session; the other processes do without)
    """Run the tests of each mutant of the job in a fork; without mutants, the tests as usual."""
    job = _job()
    if "mutants" not in job:
        return None
    items = {item.nodeid: item for item in session.items}
    later = []
    for mutant in job["mutants"]:
        first = _first_look(mutant["order"], job["seconds"])
        if not _judged_in_forks(mutant, items, job, mutant["order"][:first], last=first == len(mutant["order"])):
            later.append((mutant, mutant["order"][first:]))
    for mutant, tests in later:
        _judged_in_forks(mutant, items, job, tests, last=True)
    return True


def _first_look(tests: Sequence[str], seconds: Mapping[str, float]) -> int:
    """How many of these tests are run before the other mutants have their turn; at least one."""
    ends = list(accumulate(seconds[test] for test in tests))
    return max(1, bisect_right(ends, FIRST_LOOK))


def _judged_in_forks(
    mutant: Mapping[str, Any], items: Mapping[str, Any], job: Mapping[str, Any], tests: Sequence[str], *, last: bool
) -> bool:
    """Run tests of a mutant in forks; returns whether the verdict is final, and writes it then."""
    began, wrong = time.monotonic(), set[str]()
    while True:
        outcome, by = _in_fork([items[test] for test in tests if test in items and test not in wrong], job, mutant)
        if outcome == "survived" or _in_fork([items[by]], job, None)[0] == "survived":
            break
        wrong.add(by)  # it fails without the mutant too
    final = last or outcome != "survived"
    if final:
        verdict = {key: value for key, value in mutant.items() if key != "order"} | {"outcome": outcome, "by": by}
        with Path(job["verdicts"]).open("a", encoding="utf-8") as verdicts:
            verdicts.write(json.dumps(verdict) + "\n")
    seconds, shown = time.monotonic() - began, outcome if final else "more tests"
    line = f"{mutant['number']:4} {shown:12} {seconds:4.0f} s  {mutant['file']}:{mutant['line']}\n"
    os.write(job["terminal"], line.encode())
    return final


def _in_fork(items: Sequence[Any], job: Mapping[str, Any], mutant: Mapping[str, Any] | None) -> tuple[str, str]:
    """Run tests on a mutant in a child process until one fails; returns what became of it, and the last test."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        try:
            _run_items(items, job, mutant, write)
        finally:
            os._exit(0)
    os.close(write)
    try:
        for item in items:
            ready, _, _ = select.select([read], [], [], 60 + 20 * job["seconds"][item.nodeid])
            if not ready:
                return "timed out", item.nodeid
            if os.read(read, 1) != PASSED:
                return "killed", item.nodeid
        return "survived", ""
    finally:
        os.close(read)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _run_items(items: Sequence[Any], job: Mapping[str, Any], mutant: Mapping[str, Any] | None, output: int) -> None:
    from _pytest.runner import runtestprotocol  # noqa: PLC0415 (only here; what `pytest_runtest_protocol` calls)

    if mutant is not None:
        own = Path(job["verdicts"]).with_name("job-of-mutant.json")
        own.write_text(json.dumps({"modules": {_module(mutant["file"]): mutant}}), "utf-8")
        os.environ[JOB] = str(own)
        _exchange(SOURCE / mutant["file"], mutant["place"], mutant["variant"])
    for item, following in zip(items, [*items[1:], None], strict=True):
        reports = runtestprotocol(item, log=False, nextitem=following)
        os.write(output, b"F" if any(report.failed for report in reports) else PASSED)


def _exchange(path: Path, place: int, variant: int) -> None:
    """Give the functions of a module that is imported the code of a mutant."""
    tree = ast.parse(path.read_bytes(), str(path))
    mutated(tree, place, variant)
    codes, waiting = dict[tuple[str, int], CodeType](), [compile(ast.fix_missing_locations(tree), str(path), "exec")]
    while waiting:
        code = waiting.pop()
        codes[code.co_qualname, code.co_firstlineno] = code
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
    gc.unfreeze()
    for function in gc.get_objects():
        if type(function) is FunctionType and function.__code__.co_filename == str(path):
            old = function.__code__
            new = codes.get((old.co_qualname, old.co_firstlineno), old)
            if new.co_freevars == old.co_freevars:
                function.__code__ = new


def pytest_runtest_logstart() -> None:
    """Let every test report what it reaches."""
    _seen.clear()


def pytest_runtest_logreport(report: Any) -> None:  # noqa: ANN401 (pytest.TestReport; the other processes do without)
    """Write how long a phase of a test took, and how it ended."""
    with Path(_job()["results"]).open("a", encoding="utf-8") as results:
        results.write(json.dumps([report.nodeid, report.when, report.outcome, report.duration]) + "\n")


def _job() -> dict[str, Any]:
    job: dict[str, Any] = json.loads(Path(os.environ[JOB]).read_text("utf-8"))
    return job


# the run


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the first run found: the tests that reach each place, and how long the tests that passed took."""

    tests: Mapping[int, frozenset[str]]
    seconds: Mapping[str, float]
    imported: frozenset[int]
    """places that are reached while modules are imported: what they make stays as it was in a fork"""

    def order(self, mutant: Mutant) -> list[str]:
        """The tests of a mutant, file by file: first those of its own package, then the fastest."""
        package = mutant.file.split("/")[1]
        own = f"tests/{OWN.get(package, package)}/"
        by_file = defaultdict[str, list[str]](list)
        tests = self.tests.get(mutant.number, frozenset()) & self.seconds.keys()
        if mutant.number in self.imported:
            tests |= {test for test in self.seconds if test.startswith(own)}
        for test in sorted(tests):
            by_file[test.split("::")[0]].append(test)

        def cost(file: str) -> tuple[bool, float]:
            return not file.startswith(own), sum(self.seconds[test] for test in by_file[file])

        return [
            test for file in sorted(by_file, key=cost) for test in sorted(by_file[file], key=self.seconds.__getitem__)
        ]


def run_tests(
    folder: Path, job: dict[str, Any], arguments: Iterable[str], limit: float | None
) -> tuple[int | None, list[Any]]:
    """Run pytest with a job; returns its exit code, None if it was stopped at the limit, and the phases of tests."""
    site = folder / "site"
    site.mkdir(parents=True, exist_ok=True)
    loading = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('mutants', {str(Path(__file__).resolve())!r})\n"
        "sys.modules['mutants'] = module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "module.install()\n"
    )
    (site / "sitecustomize.py").write_text(loading, "utf-8")
    results = folder / "results.jsonl"
    results.unlink(missing_ok=True)
    terminal = os.dup(sys.stdout.fileno())
    job = {**job, "results": str(results), "terminal": terminal}
    (folder / "job.json").write_text(json.dumps(job), "utf-8")
    environment = {
        **os.environ,
        JOB: str(folder / "job.json"),
        "PYTHONPATH": os.pathsep.join(map(str, (site, SOURCE, ROOT / "tests"))),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
    }
    command = [sys.executable, "-m", "pytest", "-p", "mutants", "-p", "no:randomly", "-p", "no:xdist"]
    command += ["-p", "no:cacheprovider", "--hypothesis-seed=0", "--tb=line", *arguments]
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 (our own tests)
            command,
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=(terminal,),
        )
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            os.close(terminal)
            _end(process)
    phases = [json.loads(line) for line in results.read_text("utf-8").splitlines()] if results.exists() else []
    return code, phases


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the processes that a run has left."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def covered(folder: Path, mutants: Sequence[Mutant], tests: Sequence[str]) -> Coverage:
    """Run all tests once, and note which of them reach the places."""
    modules = defaultdict[str, dict[str, Any]](lambda: {"probes": {}})
    for mutant in mutants:
        modules[_module(mutant.file)]["probes"][mutant.number] = mutant.place
    report = folder / "reached.tsv"
    report.unlink(missing_ok=True)
    job = {"modules": modules, "tests": [], "report": str(report)}
    _, phases = run_tests(folder, job, tests, None)
    seconds, failed = defaultdict[str, float](float), set[str]()
    for test, _, outcome, duration in phases:
        seconds[test] += duration
        if outcome != "passed":
            failed.add(test)
    reached, imported = defaultdict[int, set[str]](set), set[int]()
    for line in report.read_text("utf-8").splitlines():
        number, _, phase = line.partition("\t")
        test, _, when = phase.rpartition(" ")
        if not phase:
            imported.add(int(number))
            continue
        # What a fixture reaches may serve the other tests of its file too.
        file = test.split("::")[0]
        reached[int(number)] |= (
            {test} if when == "(call)" else {each for each in seconds if each.startswith(f"{file}::")}
        )
    return Coverage(
        {number: frozenset(tests) for number, tests in reached.items()},
        {test: duration for test, duration in seconds.items() if test not in failed},
        frozenset(imported),
    )


def _module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def judge(folder: Path, mutants: Sequence[Mutant], coverage: Coverage) -> None:
    """Show mutants to their tests, and write what becomes of each."""
    verdicts = folder / "verdicts.jsonl"
    entries = [
        {**asdict(each), "identity": each.identity, "tests": len(order), "order": order}
        for each in mutants
        if each.identity not in EQUIVALENT
        for order in [coverage.order(each)]
    ]
    inside = [
        each for each in entries if each["order"] and each["function"] and each["number"] not in coverage.imported
    ]
    if inside:
        files = sorted({test.split("::")[0] for each in inside for test in each["order"]})
        job = {"modules": {}, "tests": [], "mutants": inside, "verdicts": str(verdicts), "seconds": coverage.seconds}
        run_tests(folder, job, files, None)
    for entry in entries:
        if entry not in inside:
            _write(verdicts, {**entry, **_judged_apart(folder, entry, coverage)})


def _write(verdicts: Path, entry: Mapping[str, Any]) -> None:
    with verdicts.open("a", encoding="utf-8") as output:
        output.write(json.dumps({key: value for key, value in entry.items() if key != "order"}) + "\n")
    print(f"{entry['number']:4} {entry['outcome']:12}         {entry['file']}:{entry['line']}", flush=True)


def _judged_apart(folder: Path, entry: Mapping[str, Any], coverage: Coverage) -> dict[str, str]:
    """Run the tests of a mutant in a process of its own, which imports the changed module."""
    tests = entry["order"]
    if not tests:
        return {"outcome": "not reached", "by": ""}
    seconds = [coverage.seconds[test] for test in tests]
    arguments = ["-x", f"--timeout={60 + 20 * max(seconds):.0f}", *dict.fromkeys(test.split("::")[0] for test in tests)]
    job = {"modules": {_module(entry["file"]): entry}, "tests": tests}
    code, phases = run_tests(folder, job, arguments, 120 + 20 * sum(seconds))
    failed = next((test for test, _, outcome, _ in phases if outcome == "failed"), "an import")
    if code is None:
        return {"outcome": "timed out", "by": ""}
    return {"outcome": "killed", "by": failed} if code else {"outcome": "survived", "by": ""}


def main() -> int:
    """Run the mutants that are not judged yet, and print the survivors."""
    parser = argparse.ArgumentParser(
        description="Change random places of the source, and list the changes that no test notices."
    )
    parser.add_argument("tests", nargs="*", help="files or folders of tests (default: those that are fast)")
    parser.add_argument("--count", type=int, default=200, help="number of mutants (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="selects the places (default: 1)")
    parser.add_argument("--packages", nargs="+", default=PACKAGES, help="packages that are changed")
    parser.add_argument("--line", metavar="FILE:LINE", help="every change of one line instead of random ones")
    parser.add_argument("--again", action="store_true", help="run survivors of an earlier run again")
    parser.add_argument("--list", action="store_true", help="print the mutants, and run nothing")
    options = parser.parse_args()
    if options.line:
        file, _, line = options.line.rpartition(":")
        mutants = on_line(Path(file).resolve(), int(line))
    else:
        mutants = sample(options.count, options.seed, options.packages)
    if options.list:
        for mutant in mutants:
            print(f"{mutant.number:4} {mutant.file}:{mutant.line} {mutant.before} -> {mutant.after}")
        return 0
    tests = [test.removeprefix("./") for test in options.tests] or list(TESTS)
    if options.line:
        with TemporaryDirectory() as scratch:
            verdicts = _run(Path(scratch), mutants, tests, again=False)
    else:
        folder = ROOT / "dist" / "mutants" / f"{options.count}-{options.seed}"
        folder.mkdir(parents=True, exist_ok=True)
        verdicts = _run(folder, mutants, tests, again=options.again)
    _print(verdicts, sum(mutant.identity in EQUIVALENT for mutant in mutants))
    return 1 if any(_survives(each) for each in verdicts) else 0


def _run(folder: Path, mutants: Sequence[Mutant], tests: Sequence[str], *, again: bool) -> list[dict[str, Any]]:
    file, coverage_file = folder / "verdicts.jsonl", folder / "coverage.json"
    known = {number: each for number, each in _verdicts(file).items() if not (again and _survives(each))}
    if again or not coverage_file.exists():
        print("running the tests once to see which of them reach the places", flush=True)
        found = covered(folder, mutants, tests)
        text = {
            "tests": {number: sorted(tests) for number, tests in found.tests.items()},
            "seconds": found.seconds,
            "imported": sorted(found.imported),
        }
        coverage_file.write_text(json.dumps(text), "utf-8")
    stored = json.loads(coverage_file.read_text("utf-8"))
    coverage = Coverage(
        {int(key): frozenset(tests) for key, tests in stored["tests"].items()},
        stored["seconds"],
        frozenset(stored["imported"]),
    )
    judge(folder, [mutant for mutant in mutants if mutant.number not in known], coverage)
    return list(_verdicts(file).values())


def _verdicts(file: Path) -> dict[int, dict[str, Any]]:
    """The last verdict on each mutant, by number."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return {each["number"]: each for each in map(json.loads, lines)}


def _survives(verdict: Mapping[str, Any]) -> bool:
    return verdict["outcome"] in {"survived", "not reached"}


def _print(verdicts: Sequence[Mapping[str, Any]], equivalent: int) -> None:
    survivors = [each for each in verdicts if _survives(each)]
    for each in survivors:
        print(
            f"\nsrc/{each['file']}:{each['line']} in {each['function'] or 'the module'}: {each['outcome']}, {each['tests']} tests"
        )
        print(f"  - {each['before']}\n  + {each['after']}")
    noticed = len(verdicts) - len(survivors)
    rate = 100 * noticed / len(verdicts) if verdicts else 100.0
    print(f"\n{noticed} of {len(verdicts)} mutants noticed ({rate:.1f}%), {len(survivors)} survived", end="")
    print(f", {equivalent} equivalent and not run" if equivalent else "")


if __name__ == "__main__":
    sys.exit(main())
