"""The report on the shape of the source tells the truth about a small package."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from support.environment import surroundings
from support.shape.source import Spread, measure
from support.shape.trace import trace

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

FAST = ("--no-walks", "--no-wheel")
FILES = {
    "__init__.py": '"""A package."""\n',
    "errors.py": "class OwnError(Exception):\n    pass\n",
    "walk.py": """\
from sample.errors import OwnError


def outer(number):
    return [inner(each) for each in range(number)]


def inner(number):
    class Local:
        value = number

    return Local.value


def other():
    raise OwnError
""",
    "ring/__init__.py": "",
    "ring/first.py": "from . import second\nfrom ..errors import OwnError\n",
    "ring/second.py": "import sample.ring.third\n",
    "ring/third.py": "def late():\n    from sample.ring import first\n\n    return first\n",
    "typed/__init__.py": "",
    "typed/one.py": """\
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sample.typed.two import (
        Two,
    )
""",
    "typed/two.py": "from sample.typed import one\nfrom sample.errors import OwnError\n\nTwo = one, OwnError\n",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / "sample" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return tmp_path / "sample"


@pytest.fixture
def walking(package: Path) -> ModuleType:
    """The module of the package that runs; what it imports has no name outside the package."""
    file = package / "walk.py"
    file.write_text(FILES["walk.py"].replace("from sample.errors import OwnError\n", ""), "utf-8")
    spec = importlib.util.spec_from_file_location("walking_sample", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "scripts/shape.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=surroundings())


def test_modules_and_folders_are_counted(package: Path) -> None:
    shape = measure(package)
    assert shape.modules == len(FILES)
    assert shape.lines == sum(len(text.splitlines()) for text in FILES.values())
    assert shape.folders == {"sample/ring": 4, "sample": 3, "sample/typed": 3}


def test_functions_are_measured_from_def_to_end(package: Path) -> None:
    shape = measure(package)
    assert (shape.functions, shape.function_lines) == (4, Spread(3.0, 5, 5))


def test_import_statements_count_with_all_their_lines(package: Path) -> None:
    assert measure(package).import_share == pytest.approx((1 + 2 + 1 + 1 + 1 + 3 + 2) / measure(package).lines)


def test_a_cycle_through_a_function_or_types_is_no_cycle_at_run_time(package: Path) -> None:
    shape = measure(package)
    ring, typed = [
        [f"sample.{folder}.{name}" for name in names]
        for folder, names in (("ring", ("first", "second", "third")), ("typed", ("one", "two")))
    ]
    assert (shape.cycles, shape.cycles_with_types) == ([], [ring, typed])


def test_a_cycle_at_run_time_is_found(package: Path) -> None:
    (package / "ring/third.py").write_text("from sample.ring.first import second\n", "utf-8")
    assert measure(package).cycles == [["sample.ring.first", "sample.ring.second", "sample.ring.third"]]


def test_fan_in_counts_importing_modules(package: Path) -> None:
    assert next(iter(measure(package).fan_in.items())) == ("sample.errors", 3)
    assert measure(package).fan_in["sample.walk"] == 0


def test_the_ninth_decile_is_one_of_the_numbers() -> None:
    assert Spread.of(range(1, 11)) == Spread(5.5, 9, 10)
    assert Spread.of([7]) == Spread(7, 7, 7)
    assert Spread.of([]) == Spread(0, 0, 0)


def test_a_walk_counts_functions_and_frames_but_no_comprehensions_and_class_bodies(
    package: Path, walking: ModuleType
) -> None:
    with trace(package) as walk:
        walking.outer(2)
    walking.other  # noqa: B018 - what is not called is not counted
    assert walk.functions == {("walk.py", "outer"), ("walk.py", "inner")}
    assert (walk.modules, walk.depth) == ({"walk.py"}, 2)


def test_a_walk_leaves_other_packages_out(package: Path) -> None:
    with trace(package) as walk:
        json.dumps({"a": 1})
    assert (walk.functions, walk.depth) == (set(), 0)


def test_the_report_is_readable(root: Path, package: Path) -> None:
    printed = run(root, *FAST, "--package", str(package)).stdout
    assert "Import cycle of 3 modules: sample.ring.first, sample.ring.second, sample.ring.third" in printed
    header = next(line for line in printed.splitlines() if "kopf" in line)
    assert header.split()[:3] == ["sample", "kopf", "h11"]


def test_the_report_is_data_too(root: Path, package: Path) -> None:
    report: dict[str, Any] = json.loads(run(root, "--json", *FAST, "--package", str(package)).stdout)
    assert report["source"]["modules"] == len(FILES)
    assert (report["walks"], report["wheel"]) == ({}, {})


def test_all_walks_and_the_wheel_are_reported(root: Path) -> None:
    report: dict[str, Any] = json.loads(run(root, "--json").stdout)
    assert len(report["walks"]) == 13
    assert all(figures["functions"] >= figures["modules"] > 0 for figures in report["walks"].values())
    assert report["wheel"]["modules"] == report["source"]["modules"]
