"""No module imports another that imports it, not even for a type."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from support.shape.source import measure

PACKAGE: Final = Path(__file__).resolve().parents[2] / "src/linkwise"


def test_there_is_no_import_cycle_not_even_for_types() -> None:
    shape = measure(PACKAGE)
    assert shape.fan_in["linkwise.broker.state"] > 10  # the imports of the package were read
    assert shape.cycles_with_types == []


def test_modules_that_import_each_other_for_types_are_a_cycle(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "one.py").write_text("from package.two import Two\n", "utf-8")
    (package / "two.py").write_text("if TYPE_CHECKING:\n    from package.three import Three\n", "utf-8")
    (package / "three.py").write_text("def work():\n    import package.one\n", "utf-8")
    (package / "four.py").write_text("import package.one\n", "utf-8")
    shape = measure(package)
    assert shape.cycles == []
    assert shape.cycles_with_types == [["package.one", "package.three", "package.two"]]
