"""Blocks of pages: sentences, tables and matrices with their colours, and the documents in which the service sends them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection

    from linkwise.model.topology import Matrix as Floats, Topology

__all__ = [
    "Grid",
    "Page",
    "Pairs",
    "Paragraph",
    "Sentences",
    "Spans",
    "bandwidth_forms",
    "bar",
    "decode_page",
    "encode_page",
    "link_forms",
    "plain",
    "rfc3339",
]

Spans: TypeAlias = tuple[tuple[str, str], ...]
"""parts of a text, each with its colour"""
_Texts: TypeAlias = tuple[tuple[str, ...], ...]

BAR_WIDTH: Final = 20
FULL, EMPTY = "#", "."


class Sentences(msgspec.Struct, frozen=True, tag="sentences"):
    """One sentence per line."""

    lines: tuple[str, ...]
    indent: int = 2
    style: str = ""


class Grid(msgspec.Struct, frozen=True, tag="grid"):
    """A table."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Spans, ...], ...]


class Pairs(msgspec.Struct, frozen=True, tag="pairs"):
    """A value for each pair of devices of a node."""

    forms: tuple[_Texts, ...]
    """the texts of all pairs, the longest form first: the one is shown that the terminal has room for"""
    worth: tuple[tuple[float, ...], ...]
    """by which pairs are coloured"""
    chosen: tuple[int, ...] = ()
    """positions of devices to highlight"""
    available: tuple[int, ...] = ()


Paragraph: TypeAlias = tuple[Sentences | Grid | Pairs, ...]
"""blocks without blank lines between them"""
Page: TypeAlias = tuple[Paragraph, ...]


def encode_page(page: Page) -> dict[str, Any]:
    """Return a page as JSON-compatible values."""
    return {"page": msgspec.to_builtins(page)}


def decode_page(document: Any) -> Page:  # noqa: ANN401 - JSON
    """Read a page; KeyError, TypeError or ValueError if it is not one."""
    return msgspec.convert(document["page"], Page)


def link_forms(topology: Topology) -> tuple[_Texts, ...]:
    """Return the link kinds with the PCIe path beside direct links, and without it."""
    full = tuple(tuple(map(str, row)) for row in topology.links)
    return full, tuple(tuple(cell.split("+")[0] for cell in row) for row in full)


def bandwidth_forms(values: Floats, suspects: Collection[tuple[int, int]]) -> tuple[_Texts, ...]:
    """Return the cleaned bandwidth with four to two digits; a question mark marks samples that were replaced."""

    def text(i: int, j: int, digits: int) -> str:
        value = values[i][j]
        shown = f"{value:.{digits}g}" if value < 10**digits else f"{value:.0f}"
        return shown + ("?" if (min(i, j), max(i, j)) in suspects else "")

    devices = range(len(values))
    return tuple(tuple(tuple(text(i, j, digits) for j in devices) for i in devices) for digits in (4, 3, 2))


def bar(part: float, width: int = BAR_WIDTH) -> Spans:
    """Return a bar for a fraction; a fraction above 0 has at least one mark."""
    marks = min(width, max(round(part * width), int(part > 0)))
    return ((FULL * marks, "cyan"), (EMPTY * (width - marks), "dim"))


def rfc3339(seconds: float) -> str | None:
    """Return a time in UTC as Kubernetes writes it; None for 0, which is an unknown time."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else None


def plain(report: Any) -> Any:  # noqa: ANN401 - any dataclass
    """Convert a dataclass to JSON-compatible values."""
    return msgspec.to_builtins(asdict(report), str_keys=True)
