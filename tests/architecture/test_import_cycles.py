"""No module imports another that imports it, not even for a type."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from support.import_graph import cycles, import_graph

SOURCES: Final = Path(__file__).resolve().parents[2] / "src"


def test_there_is_no_import_cycle_not_even_for_types() -> None:
    graph = import_graph(SOURCES)
    assert "linkwise.broker.state" in graph["linkwise.broker.reconcile"]  # which imports it for its type alone
    assert cycles(graph) == []


def test_modules_that_import_each_other_for_types_are_a_cycle(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("from two import Two\n", "utf-8")
    (tmp_path / "two.py").write_text("if TYPE_CHECKING:\n    from three import Three\n", "utf-8")
    (tmp_path / "three.py").write_text("def work():\n    import one\n", "utf-8")
    (tmp_path / "four.py").write_text("import one\n", "utf-8")
    assert cycles(import_graph(tmp_path)) == [["one", "three", "two"]]
