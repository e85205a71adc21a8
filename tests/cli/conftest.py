from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from support.command_line import run_linkwise

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess


@pytest.fixture
def linkwise(tmp_path: Path) -> Callable[..., CompletedProcess[str]]:
    """Run the command line as a user would: in an empty folder, at a width of 80 columns."""
    return partial(run_linkwise, folder=tmp_path)
