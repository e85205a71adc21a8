"""Licences of the Python packages that the container image contains, from their own metadata.

    python scripts/licences.py

Debian's are in the image, in /usr/share/doc/*/copyright.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

LOCK: Final = Path(__file__).resolve().parents[1] / "deploy/image/requirements.lock"
CLASSIFIER: Final = "License :: "


def licences() -> list[tuple[str, str, str]]:
    """Name, version and licence of each package of the lock file that this platform has."""
    pins = re.findall(r"^([\w.-]+)==(\S+)", LOCK.read_text("utf-8"), re.MULTILINE)
    found = [(name, version, licence(name)) for name, version in pins]
    return [entry for entry in found if entry[2]]


def licence(name: str) -> str:
    """The licence of an installed package: its expression, else its classifiers, else its text's first line."""
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return ""
    classifiers = [one for one in about.get_all("Classifier") or () if one.startswith(CLASSIFIER)]
    names = [one.rpartition(" :: ")[2] for one in classifiers if not one.endswith(":: OSI Approved")]
    (expression, *_), (text, *_) = (about.get_all(key) or [""] for key in ("License-Expression", "License"))
    return str(expression) or ", ".join(names) or str(text).strip().partition("\n")[0] or "unknown"


def table(entries: Sequence[tuple[str, str, str]]) -> str:
    """The entries as a table in Markdown."""
    rows = [f"| {name} | {version} | {text} |" for name, version, text in entries]
    return "\n".join(["| package | version | licence |", "|---|---|---|", *rows, ""])


if __name__ == "__main__":
    sys.stdout.write(table(licences()))
