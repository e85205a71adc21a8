"""Cells of one row of a link table: glued cells are separated, affinity is kept as printed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from linkwise.model.link import vendor_links

__all__ = ["Cells", "affinity_of", "code_pattern", "codes_in", "is_known", "is_whole", "split_row"]

_PCIE: Final = ("NODE", "PIX", "PXB", "PHB", "SYS", "SOC")
_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]*|\?|N/A")
_TITLE: Final = re.compile(r"(?:CPU|NUMA|GPU|NIC[0-9]*|ID)")
_NVLINKS: Final = re.compile(r"NV[0-9]{2,3}")
_RANGES: Final = re.compile(r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*|N/A|")


@dataclass(frozen=True, slots=True)
class Cells:
    """The link codes at the start of a row, and the cells after them."""

    codes: tuple[str, ...]
    after: tuple[str, ...] = ()
    tabbed: bool = False
    """whether empty cells are visible: columns count by position"""
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


def code_pattern() -> str:
    """Regular expression of one link code, with those of all registered vendors."""
    return _pattern(vendor_links())


@lru_cache(maxsize=16)
def _pattern(vendor_codes: tuple[str, ...]) -> str:
    codes = sorted((*vendor_codes, *_PCIE, "X"), key=len, reverse=True)  # glued cells are separated from the left
    return f"(?:NV[0-9]{{1,3}}|{'|'.join(codes)})"


@lru_cache(maxsize=16)
def _compiled(pattern: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile(pattern), re.compile(f"{pattern}+")


def codes_in(cell: str) -> list[str]:
    """The link codes of a cell: one, several that were glued together, or none; unknown codes are kept."""
    known, glued = _compiled(code_pattern())
    if known.fullmatch(cell):
        return [cell]
    if glued.fullmatch(cell) and (found := known.findall(cell)).count("X") <= 1:  # a row has one X: XXXX is one code
        return found
    return [cell] if _CODE.fullmatch(cell) and not _TITLE.fullmatch(cell) else []


def is_known(code: str) -> bool:
    """Whether it is a link code of a registered vendor."""
    return _compiled(code_pattern())[0].fullmatch(code) is not None


def is_whole(code: str) -> bool:
    """Whether a known code is not the beginning of a longer one, as NV1 is of NV12: a cut took nothing from it."""
    if code.startswith("NV"):
        return _NVLINKS.fullmatch(code) is not None
    codes = (*vendor_links(), *_PCIE)
    return code in codes and not any(other != code and other.startswith(code) for other in codes)


def affinity_of(cells: Cells, titles: tuple[str, ...], *, cut: bool) -> tuple[str | None, ...]:
    """A value per title, as printed; None where the text has none, or where its column is uncertain.

    Without tabs an empty cell is invisible, so the values count only if there is one per title.
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
