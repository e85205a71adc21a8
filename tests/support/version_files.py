"""Files that name the version of the package, which `__version__` alone decides; `make docs` writes it into the others."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from linkwise import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GENERATED", "with_version"]

ROOT: Final = Path(__file__).resolve().parents[2]
_FILES: Final = (
    "CONTRIBUTING.md",
    "Makefile",
    "README.md",
    "deploy/Dockerfile",
    "deploy/chart/Chart.yaml",
    "docs/guides/administrator.md",
    "docs/how-to/install-with-helm.md",
)
_PLACE: Final = re.compile(
    r"(?P<before>\b(?:linkwise[:-]|VERSION=|tag `v)|^(?:version|appVersion): )\d+\.\d+\.\d+(?:-[a-z]+\.\d+)?",
    re.MULTILINE,
)


def with_version(text: str, version: str) -> str:
    """The text with another version of images, archives and charts of Linkwise."""
    return _PLACE.sub(lambda found: found["before"] + version, text)


def _current(file: str) -> str:
    return with_version((ROOT / file).read_text("utf-8"), __version__)


GENERATED: Final[dict[str, Callable[[], str]]] = {file: partial(_current, file) for file in _FILES}
"""files by path below the root, each with its generator"""
