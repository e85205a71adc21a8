"""The cells of one row of a link table: cut apart, glued ones taken apart, affinity kept as printed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["LINK_CODE", "Cells", "affinity_of", "is_known", "is_whole", "split_row"]

# Longer codes first: a glued cell is taken apart from the left.
LINK_CODE: Final = r"(?:NV[0-9]{1,3}|HCCS_SW|HCCS|NODE|PIX|PXB|PHB|SYS|SOC|SIO|XGMI|UB|MX|X)"
_KNOWN: Final = re.compile(LINK_CODE)
_GLUED: Final = re.compile(rf"{LINK_CODE}+")
_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]*|\?|N/A")
_TITLE: Final = re.compile(r"(?:CPU|NUMA|GPU|NIC[0-9]*|ID)")
# What no longer code begins with: a line that was cut behind it lost nothing of it.
_WHOLE: Final = re.compile(r"NV[0-9]{2,3}|HCCS_SW|NODE|PIX|PXB|PHB|SYS|SOC|SIO|UB|MX")
_RANGES: Final = re.compile(r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*|N/A|")


@dataclass(frozen=True, slots=True)
class Cells:
    """The link codes at the start of a row, and what stands after them."""

    codes: tuple[str, ...]
    after: tuple[str, ...] = ()
    tabbed: bool = False
    """whether an empty cell shows: columns count by position"""
    gapped: bool = False
    """whether empty cells stand between the codes: doubled tabs, or cells that were lost"""

    @property
    def ended(self) -> bool:
        """Whether the line ends with the last code, and may be cut inside it."""
        return not self.after


def split_row(text: str, width: int | None = None) -> Cells:
    """The cells of a row behind its name; at most `width` of them are links."""
    cells = [cell.strip() for cell in text.lstrip().split("\t")]
    tabbed = len(cells) > 1 and not any(" " in cell for cell in cells)
    if not tabbed:
        cells = text.split()
    codes: list[str] = []
    gap = gapped = False
    end = len(cells)
    for index, cell in enumerate(cells):
        found = codes_in(cell)
        if (width is not None and len(codes) >= width) or (cell and not found):
            end = index
            break
        gapped = gapped or (gap and bool(cell))
        gap = gap or not cell
        codes += found
    after = tuple(cells[end:])
    if gapped:
        after = tuple(filter(None, after))
    return Cells(tuple(codes), after, tabbed and not gapped, gapped)


def codes_in(cell: str) -> list[str]:
    """The link codes of a cell: one, several that were glued together, or none; unknown codes stay as they are."""
    if _KNOWN.fullmatch(cell):
        return [cell]
    if _GLUED.fullmatch(cell):
        return _KNOWN.findall(cell)
    return [cell] if _CODE.fullmatch(cell) and not _TITLE.fullmatch(cell) else []


def is_known(code: str) -> bool:
    """Whether it is a link code of the tools we read."""
    return _KNOWN.fullmatch(code) is not None


def is_whole(code: str) -> bool:
    """Whether a known code can't be the beginning of a longer one, as NV1 is of NV12."""
    return _WHOLE.fullmatch(code) is not None


def affinity_of(cells: Cells, titles: tuple[str, ...], *, cut: bool) -> tuple[str | None, ...]:
    """A value for each title, as printed; None where the text does not tell it, or not for certain.

    Without tabs an empty cell does not show, so the values count only when there are as many as titles.
    """
    values: list[str | None]
    if cells.tabbed:
        values = [*cells.after[: len(titles)]]
    else:
        tokens = re.sub(r",[ \t]+", ",", " ".join(cells.after)).split(" ")
        values = [*tokens] if len(tokens) == len(titles) and tokens != [""] else []
    if cut and cells.tabbed and values and len(cells.after) < len(titles):
        values[-1] = None
    values += [None] * (len(titles) - len(values))
    return tuple(value if value is not None and _RANGES.fullmatch(value) else None for value in values)
