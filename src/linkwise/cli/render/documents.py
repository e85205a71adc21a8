"""Documents of `-o json` and `-o yaml`, with apiVersion and kind as those of kubectl."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

from linkwise.cli.render.tables import print_sentences, terminal

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["API_VERSION", "list_document", "object_document", "print_data", "show_document"]

API_VERSION: Final = "cli.linkwise.dev/v1"
"""of what is printed; these are reports, not objects of the API server"""


def object_document(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    """Return the document of one object."""
    return {"apiVersion": API_VERSION, "kind": kind, **item}


def list_document(kind: str, items: Iterable[dict[str, Any]], **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return the document of several objects; `more` are fields beside the items."""
    return {"apiVersion": API_VERSION, "kind": f"{kind}List" if kind else "List", "items": list(items), **more}


def print_data(document: object, form: str) -> None:
    """Print a document as JSON or YAML."""
    if form == "json":
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    import yaml  # noqa: PLC0415 - only needed for YAML

    sys.stdout.write(yaml.safe_dump(document, sort_keys=False, width=sys.maxsize, allow_unicode=True))


def show_document(document: dict[str, Any], form: str | None) -> None:
    """Print the document of an explanation: one sentence per line, the most important first, or all data."""
    if form:
        print_data(object_document("Explanation", document), form)
        return
    heading, *lines = document["lines"]
    console = terminal()
    print_sentences(console, [heading], indent=0, style="bold")
    print_sentences(console, lines)
