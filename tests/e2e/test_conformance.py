"""The tests of tests/conformance, against a real API server: what the embedded one passes, the real one passes too."""

from __future__ import annotations

import runpy
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.embedded.conformance import Space

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.cluster import Cluster

numbers = count(1)


@pytest.fixture(scope="module")
def shared_cluster(kubernetes: Cluster) -> Iterator[Cluster]:
    """Cleared once, after all: every test has a namespace of its own."""
    yield kubernetes
    kubernetes.clear()


@pytest.fixture
def space(shared_cluster: Cluster) -> Space:
    return Space(shared_cluster.api, shared_cluster.namespace())


for file in sorted((Path(__file__).parents[1] / "conformance").glob("test_*.py")):
    found = {name: thing for name, thing in runpy.run_path(str(file)).items() if name.startswith("test_")}
    assert not found.keys() & globals().keys(), f"{file}: a name is there twice"
    globals().update(found)
