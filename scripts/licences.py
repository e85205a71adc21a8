"""Licences of what Linkwise is distributed with: Python packages of the container image, and packages in the web page.

    python scripts/licences.py            what users get
    python scripts/licences.py --all      and what developers install

They are read from the metadata of installed packages and from the lock file of the page. Debian's licences are in the image, in
/usr/share/doc/*/copyright; those of fonts are beside the page.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).resolve().parents[1]
LOCK: Final = ROOT / "deploy/image/requirements.lock"
DEVELOPMENT: Final = ROOT / "requirements.lock"
PAGE: Final = ROOT / "page/package-lock.json"
FONTS: Final = "@fontsource-variable/"
"""packages of fonts: needed to build the page alone, since their files are copied into it"""
CLASSIFIER: Final = "License :: "

Entry = tuple[str, str, str]
"""name, version and licence"""


def licences(lock: Path = LOCK) -> list[Entry]:
    """Each package of a lock file that this platform has."""
    pins = re.findall(r"^([\w.-]+)==(\S+)", lock.read_text("utf-8"), re.MULTILINE)
    found = [(name, version, licence(name)) for name, version in pins]
    return [entry for entry in found if entry[2]]


def licences_of_page(*, development: bool = False) -> list[Entry]:
    """Each package that is in the web page, or that it is built and tested with."""
    packages = json.loads(PAGE.read_text("utf-8"))["packages"]
    named = {path.rpartition("node_modules/")[2]: package for path, package in packages.items() if path}
    return [
        (name, package["version"], package.get("license", "unknown"))
        for name, package in sorted(named.items())
        if (not package.get("dev") or name.startswith(FONTS)) != development
    ]


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


def table(entries: Sequence[Entry]) -> str:
    """The entries as a table in Markdown."""
    rows = [f"| {name} | {version} | {text} |" for name, version, text in entries]
    return "\n".join(["| package | version | licence |", "|---|---|---|", *rows, ""])


def distributed() -> str:
    """Both tables of what users get."""
    return "\n".join(
        ["# Python packages\n", table(licences()), "# Packages and fonts of the web page\n", table(licences_of_page())]
    )


def development() -> str:
    """Both tables of what developers install."""
    users = set(licences())
    python = [entry for entry in licences(DEVELOPMENT) if entry not in users]
    page = licences_of_page(development=True)
    return "\n".join(
        ["# Python packages for development\n", table(python), "# Packages that build the page\n", table(page)]
    )


if __name__ == "__main__":
    sys.stdout.write(distributed())
    if "--all" in sys.argv[1:]:
        sys.stdout.write("\n" + development())
