"""The embedded API server for the tests of this directory; tests/e2e/test_conformance.py runs them against a real one."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from support.embedded.conformance import Space
from support.embedded.thread import EmbeddedThread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

numbers = count(1)


@pytest.fixture(scope="session")
def embedded(root: Path) -> Iterator[EmbeddedThread]:
    """One server for all, with our kind as its definition has it."""
    with EmbeddedThread() as thread:
        api = thread.api()
        text = (root / "deploy/crds/deviceinventories.linkwise.dev.yaml").read_bytes()
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/deviceinventories.linkwise.dev"
        status, answer = api.raw("PATCH", f"{path}?fieldManager=test", text, "application/apply-patch+yaml")
        assert status == 200, answer
        api.close()
        yield thread


@pytest.fixture
def space(embedded: EmbeddedThread) -> Iterator[Space]:
    api = embedded.api()
    made = Space(api, f"space-{next(numbers)}")
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made.name}})
    yield made
    api.close()
