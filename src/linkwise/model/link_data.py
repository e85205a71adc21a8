"""Link data: how every message says that a node has none, and how it gets there."""

from __future__ import annotations

from typing import Final

__all__ = ["NO_LINK_DATA", "link_data_help"]

NO_LINK_DATA: Final = "no link data"


def link_data_help(node: str = "NAME") -> str:
    """What publishes the links of a node: an agent on it, or a person."""
    return f"run the node agent (`linkwise agent`) or `linkwise topo --annotate node/{node}`"
