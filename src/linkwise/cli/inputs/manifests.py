"""Loads manifests from files and standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from linkwise.cli.options.io import file_name
from linkwise.errors import InputError
from linkwise.manifests.objects import parse_manifests

if TYPE_CHECKING:
    from linkwise.manifests.objects import Manifest

__all__ = ["load_manifests"]


def load_manifests(file: str) -> list[Manifest]:
    """Load all objects of a file (`-` for standard input), also those inside lists; InputError names file, line and column."""
    name = file_name(file)
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from error
    return parse_manifests(content, name)
