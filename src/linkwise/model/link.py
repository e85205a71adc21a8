"""Link between two devices of one machine: direct links, and the PCIe path beside them.

NVLinks (NV1, NV2, ...) and PCIe paths are known here. Codes of other direct links belong to the vendors, who register
them (`set_vendor_links`).
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, NoReturn, Self

from linkwise.errors import TopologyError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SELF", "UNKNOWN_LINK", "Link", "Pcie", "is_link_code", "set_vendor_links", "vendor_links"]


class Pcie(IntEnum):
    """PCIe path between two devices, the longest first; names as topology tools print them."""

    UNKNOWN = 0
    SYS = 1
    """across the CPU interconnect (SOC in old drivers)"""
    NODE = 2
    """across host bridges of one CPU"""
    PHB = 3
    """through one host bridge"""
    PXB = 4
    """through several PCIe switches"""
    PIX = 5
    """through one PCIe switch"""
    BOARD = 6
    """on one board"""


_NVLINKS: Final = re.compile(r"NV([1-9][0-9]{0,2})")
_PCIE: Final = {kind.name: kind for kind in Pcie if kind}
_UNKNOWN: Final = {"?", "N/A"}
_OWN: Final = frozenset({*_PCIE, *_UNKNOWN, "SOC", "X", ""})
_REGISTRY: Final = "linkwise.vendors.registry"
_direct: Final[dict[str, int]] = {}
"""codes of direct links by vendors, each with its rank as a number of NVLinks"""


def set_vendor_links(codes: Mapping[str, int]) -> None:
    """Make these the codes of direct links, each with its rank as a number of NVLinks."""
    _direct.clear()
    _direct.update(codes)
    _meaning.cache_clear()


def vendor_links() -> tuple[str, ...]:
    """The codes of direct links that vendors registered."""
    return tuple(_vendor_codes())


def is_link_code(code: str) -> bool:
    """Whether the code is known: a PCIe path, a number of NVLinks, or a vendor's."""
    return code in _OWN or _NVLINKS.fullmatch(code) is not None or code in _vendor_codes()


def _vendor_codes() -> Mapping[str, int]:
    """The vendors' codes; the built-in ones are registered when a code is looked up that this layer does not know.

    The registry of vendors lies above this layer and is imported late, so that no caller has to do it first.
    """
    if not _direct:
        import_module(_REGISTRY)
    return _direct


class Link(str):
    """The code that a tool prints for a pair of devices, with its meaning.

    The text stays as printed, even if the code is unknown, because new hardware brings new codes. Scores are derived from
    the direct links and the PCIe path. Tools that print `NV2` hide the PCIe path beside it; then `pcie` is UNKNOWN. Links
    are ordered from slow to fast, and are equal if text and meaning are.
    """

    __slots__ = ("direct", "pcie")

    direct: int
    """the number of direct links: NVLinks, or the equivalent of a vendor's own"""
    pcie: Pcie

    def __new__(cls, text: str = "?", *, pcie: Pcie | None = None) -> Self:
        """The link of a cell in a tool's table; `pcie` if the tool reports the path elsewhere."""
        # rule 000.links: the kinds that a topology tool prints; nothing is guessed.
        code = text.strip().replace("SOC", "SYS")
        direct, path = _meaning(code)
        link = super().__new__(cls, "?" if code in _UNKNOWN else code)
        object.__setattr__(link, "direct", direct)
        object.__setattr__(link, "pcie", path if pcie is None else pcie)
        return link

    @classmethod
    def parse(cls, text: str) -> Self:
        """The link of user input, in upper or lower case; TopologyError for an unknown kind."""
        code = text.strip().upper()
        sorts = [_sort(part) for part in code.split("+")]
        if code not in _UNKNOWN and sorts not in (["direct"], ["pcie"], ["direct", "pcie"]):
            kinds = ", ".join([*_PCIE, *_vendor_codes()])
            raise TopologyError(f"link {text!r} is unknown; use NV1, NV2, ..., {kinds}, or both as in NV2+PHB")
        return cls(code)

    @classmethod
    def of(cls, nvlinks: int, pcie: Pcie = Pcie.UNKNOWN) -> Self:
        """The link of a number of NVLinks and a PCIe path."""
        parts = ([f"NV{nvlinks}"] if nvlinks else []) + ([pcie.name] if pcie else [])
        return cls("+".join(parts) or "?")

    @property
    def half_known(self) -> bool:
        """Whether direct links hide the PCIe path, which counts as SYS in scores."""
        return self.direct > 0 and self.pcie is Pcie.UNKNOWN

    def __deepcopy__(self, memo: object) -> Self:
        return self  # immutable

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a link is immutable: {name}")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Link):
            return str.__eq__(self, other) and (self.direct, self.pcie) == (other.direct, other.pcie)
        return str.__eq__(self, other) if isinstance(other, str) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)

    def __lt__(self, other: str) -> bool:
        return self._speed() < _speed(other)

    def __le__(self, other: str) -> bool:
        return self._speed() <= _speed(other)

    def __gt__(self, other: str) -> bool:
        return self._speed() > _speed(other)

    def __ge__(self, other: str) -> bool:
        return self._speed() >= _speed(other)

    def _speed(self) -> tuple[int, int, str]:
        return self.direct, self.pcie, str(self)


def _speed(link: str) -> tuple[int, int, str]:
    return (link if isinstance(link, Link) else Link(link))._speed()  # noqa: SLF001 - the same class


@lru_cache(maxsize=1024)
def _meaning(code: str) -> tuple[int, Pcie]:
    direct, pcie = 0, Pcie.UNKNOWN
    for part in code.split("+"):
        if part in _PCIE:
            pcie = _PCIE[part]
        elif nvlinks := _NVLINKS.fullmatch(part):
            direct = int(nvlinks[1])
        elif part not in _OWN:
            direct = _vendor_codes().get(part, direct)
    return direct, pcie


def _sort(part: str) -> str:
    if part in _PCIE or part == "SOC":
        return "pcie"
    direct = part not in _OWN and (_NVLINKS.fullmatch(part) or part in _vendor_codes())
    return "direct" if direct else "unknown"


UNKNOWN_LINK: Final = Link("?")
"""A pair without link data; it scores 0 and stays feasible."""

SELF: Final = Link("X")
"""The diagonal of a link matrix, which is never read."""
