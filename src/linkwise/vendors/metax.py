"""MetaX: descriptor, and the reader of `mx-smi topo`, which is NVIDIA's layout with MX for MetaXLink.

Node Affinity stands before CPU Affinity.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.vendors.link_table.layout import MARKS, Names, leading, line_of, tables
from linkwise.vendors.link_table.matrix import no_table, read_first
from linkwise.vendors.reader import Reader
from linkwise.vendors.vendor import LinkCode, Vendor

if TYPE_CHECKING:
    from linkwise.vendors.reader import Reading

__all__ = ["READERS", "VENDOR", "recognises"]

_KIND: Final = "mx-smi topo"
_GPUS: Final = Names("GPU[0-9]{1,3}")
_COMMAND: Final = re.compile(r"mx-smi[ \t]+topo")
_HEADER: Final = re.compile(r"(?m)^(?=[^\n]*GPU[0-9])[^\n]*Node Affinity")
_ROW: Final = re.compile(rf"(?m)^{MARKS}GPU[0-9]{{1,3}}[ \t]+(?:[A-Z]+[ \t]+){{0,63}}MX(?=[ \t]|$)")
_BANNER: Final = "MetaX System Management Interface"
_ERROR: Final = re.compile(r"mx-smi: .{0,40}not found|(?i:error|failed|no devices? found)")


def recognises(text: str) -> bool:
    """Whether the table is MetaX's; the command alone is no proof where the text names nvidia-smi too."""
    if _HEADER.search(text) or _ROW.search(text) or (_COMMAND.search(text) and "nvidia-smi" not in text):
        return True
    return _BANNER in text and _GPUS.link_row.search(text) is not None


def _read(text: str) -> Reading:
    reading = read_first(list(leading(tables(text, _GPUS))), _KIND)
    error = line_of(text, _ERROR.search(text))
    return reading or no_table(_KIND, error, "the text has no table of GPUs")


READERS: Final = (Reader(_KIND, recognises, _read, claims="matrix of GPUs"),)


VENDOR: Final = Vendor(
    name="metax",
    readers=READERS,
    tools={"mx-smi": "mx-smi topo"},
    links=(LinkCode("MX", "MetaXLink"),),
)
