"""Modules of scripts/, which import each other as a script finds them: beside itself."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SCRIPTS", "scripts_importable"]

SCRIPTS: Final = Path(__file__).resolve().parents[2] / "scripts"


@contextmanager
def scripts_importable() -> Iterator[None]:
    """The modules can be imported until the end of the block, and stay."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield
    finally:
        sys.path.remove(str(SCRIPTS))
