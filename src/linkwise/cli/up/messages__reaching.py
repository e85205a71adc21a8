"""How a reader calls this program in another terminal."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

__all__ = ["reaching"]


def reaching(own: str, found: str | None) -> list[str]:
    """What to type first: nothing, unless `linkwise` is in a folder that nobody looks into by himself.

    Args:
        own: how this one was called.
        found: where a shell finds `linkwise`, if it does.
    """
    hidden = Path(own).name == "linkwise" and not found
    return [f'export PATH={quote(str(Path(own).absolute().parent))}:"$PATH"'] if hidden else []
