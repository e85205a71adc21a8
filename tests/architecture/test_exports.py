from __future__ import annotations

import subprocess
import sys

import linkwise
import linkwise.model


def test_every_exported_name_is_there() -> None:
    for name in linkwise.__all__:
        assert getattr(linkwise, name) is not None


def test_the_model_is_exported_whole() -> None:
    assert set(linkwise.model.__all__) <= set(linkwise.__all__)


def test_exported_names_are_pinned() -> None:
    functions = {"best_bottleneck", "best_partition", "pair_score", "parse_topology", "refusal", "score_matrix"}
    results = {"Bottleneck", "Partition"}
    errors = {"AskError", "InputError", "LinkwiseError", "PolicyError", "RulebookError", "TopologyError"}
    assert set(linkwise.__all__) == {*linkwise.model.__all__, *functions, *results, *errors, "__version__"}
    assert not hasattr(linkwise, "no_such_name")


def test_importing_the_package_is_cheap() -> None:
    code = "import sys, linkwise; print([name for name in sys.modules if name.startswith('linkwise.')])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
