"""Mutation testing: change random places of the source one at a time, and list the changes that no test notices; `make mutants` runs it.

The checkout is never touched: what is changed is compiled from a syntax tree in memory. The tests are collected once, with
a probe at each place; a first run of them in a fork says which reach it. Then each mutant gets a fork of that process in
which its functions have the changed code; it runs the tests that reach the place, the fastest first, until one fails. Processes
that tests start compile the changed module when they import it; so does a session of its own for a change outside of functions.
Results are kept in a folder per seed, from which an interrupted run resumes.

A survivor wants a test. If no test could notice it, it is listed in EQUIVALENT, `mutations.py`, with the reason and no longer counts.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import gc
import importlib.abc
import importlib.machinery
import json
import os
import resource
import select
import signal
import struct
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

from mutations import EQUIVALENT, OWN, PACKAGES, SOURCE, mutated, on_line, probed, sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mutations import Mutant

ROOT: Final = Path(__file__).resolve().parents[1]
TESTS: Final = tuple(f"tests/{OWN.get(name, name)}" for name in (*PACKAGES, "properties", "scenarios", "explain"))
"""tests that are fast and use the packages in their own process"""
JOB: Final = "MUTANTS_JOB"  # variable that names the file with the changes; not LINKWISE_, which would be a setting
SURVIVED: Final = ("survived", "not reached")
FIRST_LOOK: Final = 10.0  # seconds of tests before the other mutants have had their turn: most are noticed within them
MEMORY: Final = 6 << 30  # bytes that a process may address: an endless loop must not take the machine's memory
RESULT: Final = struct.Struct("cd")  # how a test ended (. passed, s skipped, F failed), and its seconds
COLLECTING: Final = 300  # seconds for importing and collecting the tests


class _Finder(importlib.abc.MetaPathFinder):
    """Finder of the modules that are changed; their bytecode is neither read nor written."""

    def __init__(self, modules: Mapping[str, Any]) -> None:
        self._modules = modules

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> Any:  # noqa: ANN401, ARG002
        spec: Any = importlib.machinery.PathFinder.find_spec(fullname, path) if fullname in self._modules else None
        if spec is not None:
            spec.loader.get_code = lambda name: _compiled(Path(spec.origin), self._modules[name])
        return spec


def _compiled(path: Path, changes: Mapping[str, Any]) -> CodeType:
    tree = ast.parse(path.read_bytes(), str(path))
    if "probes" in changes:
        probed(tree, {int(mutant): place for mutant, place in changes["probes"].items()})
    else:
        mutated(tree, changes["place"], changes["variant"])
    code: CodeType = compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)
    return code


def install(job: str) -> None:
    """Change modules as the job says: in this process, in forks of it, and by sitecustomize in processes that it starts."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.environ[JOB] = job
    changes = json.loads(Path(job).read_text("utf-8"))
    if report := changes.get("report"):
        output = os.open(report, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

        def reached(mutant: int) -> None:
            if mutant not in _seen:
                _seen.add(mutant)
                os.write(output, f"{mutant}\t{os.environ.get('PYTEST_CURRENT_TEST', '')}\n".encode())

        builtins.__reached__ = reached  # type: ignore[attr-defined]
    sys.meta_path.insert(0, _Finder(changes["modules"]))


_seen: Final = set[int]()
"""places that the running test has reached"""


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


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the first run found."""

    tests: Mapping[str, Sequence[str]]
    """the tests that reach a place, by number of its mutant"""
    seconds: Mapping[str, float]
    """how long the tests that passed took"""
    imported: Sequence[int]
    """places that are reached while modules are imported: what they make stays as it was in a fork"""

    def order(self, mutant: Mutant) -> list[str]:
        """The tests of a mutant, file by file: first those of its own package, then the fastest."""
        tests = self.seconds.keys() & self.tests.get(str(mutant.number), ())
        if mutant.number in self.imported:
            tests |= {test for test in self.seconds if test.startswith(mutant.own)}
        costs = defaultdict[str, float](float)
        for test in sorted(tests):
            costs[_file(test)] += self.seconds[test]

        def place(test: str) -> tuple[bool, float, str, float, str]:
            file = _file(test)
            return not file.startswith(mutant.own), costs[file], file, self.seconds[test], test

        return sorted(tests, key=place)


def _file(test: str) -> str:
    return test.split("::", maxsplit=1)[0]


class Session:
    """Plug-in of pytest that shows mutants to collected tests in forks; `apart` for one that was imported changed."""

    def __init__(self, folder: Path, mutants: Sequence[Mutant], terminal: int, *, apart: bool = False) -> None:
        self._folder, self._mutants, self._terminal, self._apart = folder, mutants, terminal, apart
        self._items: dict[str, Any] = {}
        self._coverage = Coverage({}, {}, ())

    def pytest_configure(self) -> None:
        """Look for a counterexample only, and do not make it smaller."""
        from hypothesis import Phase, settings  # noqa: PLC0415 (imported in the process of the tests only)

        settings.register_profile("mutants", settings(), phases=[Phase.explicit, Phase.generate])
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: Any) -> bool:  # noqa: ANN401 (pytest.Session)
        """Run all tests once unless that was done, then those of each mutant."""
        signal.alarm(0)
        self._items = {item.nodeid: item for item in session.items}
        stored = self._folder / "coverage.json"
        if not stored.exists():
            stored.write_text(json.dumps(asdict(self._cover())), "utf-8")
        self._coverage = Coverage(**json.loads(stored.read_text("utf-8")))
        later = []
        for mutant in self._mutants:
            order = self._coverage.order(mutant)
            if self._apart or (order and not _needs_import(mutant, self._coverage)):
                ends = list(accumulate(self._coverage.seconds[test] for test in order))
                first = len(order) if self._apart else max(1, bisect_right(ends, FIRST_LOOK))
                if not self._judge(mutant, order[:first], last=first == len(order)):
                    later.append((mutant, order[first:]))
        for mutant, tests in later:
            self._judge(mutant, tests, last=True)
        return True

    def _cover(self) -> Coverage:
        """Run all tests, and note which of them reach the places."""
        results = {test: (end, seconds) for test, end, seconds in self._results(None, list(self._items.values()))}
        if len(results) < len(self._items):
            raise RuntimeError(f"a test hangs or ends the process: {list(results)[-1]}")
        reached, imported = defaultdict[str, set[str]](set), set[int]()
        for line in (self._folder / "reached.tsv").read_text("utf-8").splitlines():
            number, _, phase = line.partition("\t")
            test, _, when = phase.rpartition(" ")
            if not phase:
                imported.add(int(number))
            elif when == "(call)":
                reached[number].add(test)
            else:  # what a fixture reaches may serve the other tests of its file too
                reached[number] |= {each for each in self._items if _file(each) == _file(test)}
        seconds = {test: seconds for test, (end, seconds) in results.items() if end == "."}
        return Coverage({number: sorted(tests) for number, tests in reached.items()}, seconds, sorted(imported))

    def _judge(self, mutant: Mutant, tests: Sequence[str], *, last: bool) -> bool:
        """Run tests of a mutant until one fails; returns whether the verdict is final, and writes it then."""
        began, wrong = time.monotonic(), set[str]()
        while True:
            outcome, by = self._outcome(mutant, [test for test in tests if test not in wrong])
            if outcome == "survived" or self._apart or self._outcome(None, [by])[0] == "survived":
                break
            wrong.add(by)  # it fails without the mutant too
        final = last or outcome != "survived"
        seconds = time.monotonic() - began
        if final:
            write(self._folder, mutant, outcome, by, tests=len(self._coverage.order(mutant)))
        shown = outcome if final else "more tests"
        os.write(
            self._terminal, f"{mutant.number:4} {shown:12} {seconds:4.0f} s  {mutant.file}:{mutant.line}\n".encode()
        )
        return final

    def _outcome(self, mutant: Mutant | None, tests: Iterable[str]) -> tuple[str, str]:
        for test, end, _ in self._results(mutant, [self._items[test] for test in tests if test in self._items]):
            if end not in ".s":
                return "timed out" if end == "T" else "killed", test
        return "survived", ""

    def _results(self, mutant: Mutant | None, items: Sequence[Any]) -> Iterator[tuple[str, str, float]]:
        """Run tests in a child process; yields how each ended, T for one that took too long."""
        read, output = os.pipe()
        child = os.fork()
        if not child:
            os.setsid()
            try:
                self._run(mutant, items, output)
            finally:
                os._exit(0)
        os.close(output)
        try:
            for item in items:
                limit = 60 + 20 * self._coverage.seconds.get(item.nodeid, 30)
                ready, _, _ = select.select([read], [], [], limit)
                result = os.read(read, RESULT.size) if ready else b""
                end, seconds = RESULT.unpack(result or RESULT.pack(b"F" if ready else b"T", limit))
                yield item.nodeid, end.decode(), seconds
                if not result:  # it hangs or has ended
                    return
        finally:
            os.close(read)
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def _run(self, mutant: Mutant | None, items: Sequence[Any], output: int) -> None:
        from _pytest.runner import runtestprotocol  # noqa: PLC0415 (what `pytest_runtest_protocol` calls)

        if mutant is not None and not self._apart:
            os.environ[JOB] = str(_job(self._folder / "fork.json", {mutant.module: asdict(mutant)}))
            _exchange(SOURCE / mutant.file, mutant.place, mutant.variant)
        for item, following in zip(items, [*items[1:], None], strict=True):
            _seen.clear()
            reports = runtestprotocol(item, log=False, nextitem=following)
            outcomes = {report.outcome for report in reports}
            end = b"F" if "failed" in outcomes else b"s" if "skipped" in outcomes else b"."
            os.write(output, RESULT.pack(end, sum(report.duration for report in reports)))


def _needs_import(mutant: Mutant, coverage: Coverage) -> bool:
    return not mutant.function or mutant.number in coverage.imported


def _job(file: Path, modules: Mapping[str, Any], **others: str) -> Path:
    file.write_text(json.dumps({"modules": modules, **others}), "utf-8")
    return file


def write(folder: Path, mutant: Mutant, outcome: str, by: str, tests: int) -> None:
    """Append a verdict."""
    with (folder / "verdicts.jsonl").open("a", encoding="utf-8") as output:
        output.write(json.dumps({**asdict(mutant), "tests": tests, "outcome": outcome, "by": by}) + "\n")


def run_session(
    folder: Path, mutants: Sequence[Mutant], job: Path, tests: Iterable[str], *, apart: bool = False
) -> int | None:
    """Run pytest in a child process; returns its exit code, None if it did not get to the tests in time."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return None if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)
    signal.alarm(COLLECTING)
    site, terminal = folder / "site", os.dup(1)
    site.mkdir(exist_ok=True)
    loading = f"import os, sys\nsys.path.insert(0, {str(ROOT / 'scripts')!r})\nimport mutants\nsys.path.pop(0)\n"
    (site / "sitecustomize.py").write_text(f"{loading}mutants.install(os.environ[{JOB!r}])\n", "utf-8")
    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(ROOT)
    paths = [str(site), str(SOURCE), str(ROOT / "tests")]
    sys.path[:1] = [*paths[1:], str(ROOT)]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(folder / "hypothesis")
    install(str(job))
    import pytest  # noqa: PLC0415 (after `install`)

    options = ["-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--tb=line"]
    code = 1
    try:
        code = pytest.main([*options, *tests], plugins=[Session(folder, mutants, terminal, apart=apart)])
    finally:
        os._exit(code)


def judge(folder: Path, mutants: Sequence[Mutant], tests: Sequence[str], judged: Iterable[int]) -> None:
    """Show the mutants that are not judged to their tests, and write what becomes of each."""
    modules = defaultdict[str, dict[str, Any]](lambda: {"probes": {}})
    for mutant in mutants:
        modules[mutant.module]["probes"][mutant.number] = mutant.place
    report, stored = folder / "reached.tsv", folder / "coverage.json"
    if not stored.exists():
        report.unlink(missing_ok=True)
        print("running the tests once to see which of them reach the places", flush=True)
    job = _job(folder / "job.json", {} if stored.exists() else modules, report=str(report))
    left = [each for each in mutants if each.number not in judged and each.identity not in EQUIVALENT]
    if code := run_session(folder, left, job, tests):
        sys.exit(f"the tests did not run (exit code {code}): see {folder / 'output.txt'}")
    coverage = Coverage(**json.loads(stored.read_text("utf-8")))
    for mutant in left:
        order = coverage.order(mutant)
        if order and _needs_import(mutant, coverage):
            job = _job(folder / "job.json", {mutant.module: asdict(mutant)})
            code = run_session(folder, [mutant], job, dict.fromkeys(map(_file, order)), apart=True)
            outcome = "timed out" if code is None else "killed by an import" if code else ""
        else:
            outcome = "" if order else "not reached"
        if outcome:
            write(folder, mutant, outcome.removesuffix(" by an import"), "an import" if order else "", len(order))
            print(f"{mutant.number:4} {outcome:12}         {mutant.file}:{mutant.line}", flush=True)


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
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) if options.line else ROOT / "dist" / "mutants" / f"{options.count}-{options.seed}"
        folder.mkdir(parents=True, exist_ok=True)
        if options.again:
            (folder / "coverage.json").unlink(missing_ok=True)
        known = _verdicts(folder)
        judge(
            folder,
            mutants,
            tests,
            [number for number, each in known.items() if not (options.again and each["outcome"] in SURVIVED)],
        )
        return _print(list(_verdicts(folder).values()), sum(mutant.identity in EQUIVALENT for mutant in mutants))


def _verdicts(folder: Path) -> dict[int, dict[str, Any]]:
    """The last verdict on each mutant, by number."""
    file = folder / "verdicts.jsonl"
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return {each["number"]: each for each in map(json.loads, lines)}


def _print(verdicts: Sequence[Mapping[str, Any]], equivalent: int) -> int:
    """Print the survivors and the rate; returns the exit code."""
    survivors = [each for each in verdicts if each["outcome"] in SURVIVED]
    for each in survivors:
        where = f"src/{each['file']}:{each['line']} in {each['function'] or 'the module'}"
        print(f"\n{where}: {each['outcome']}, {each['tests']} tests\n  - {each['before']}\n  + {each['after']}")
    noticed, all_ = len(verdicts) - len(survivors), len(verdicts)
    print(
        f"\n{noticed} of {all_} mutants noticed ({100 * noticed / max(1, all_):.1f}%), {len(survivors)} survived",
        end="",
    )
    print(f", {equivalent} equivalent and not run" if equivalent else "")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
