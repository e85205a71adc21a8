"""Fixtures of tests on an embedded API server; each module has its own `served`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.embedded.conformance import Space

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.embedded.thread import EmbeddedThread


@pytest.fixture
def space(served: EmbeddedThread) -> Iterator[Space]:
    """The namespace `default` of the server."""
    api = served.api()
    yield Space(api, "default")
    api.close()
