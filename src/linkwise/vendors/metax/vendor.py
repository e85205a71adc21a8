"""MetaX: descriptor."""

from __future__ import annotations

from typing import Final

from linkwise.vendors.metax import topo
from linkwise.vendors.vendor import LinkCode, Vendor

__all__ = ["VENDOR"]

VENDOR: Final = Vendor(
    name="metax",
    readers=topo.READERS,
    tools={"mx-smi": "mx-smi topo"},
    links=(LinkCode("MX", "MetaXLink"),),
)
