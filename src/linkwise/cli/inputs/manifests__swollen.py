"""YAML that is small on the disk and has no end in memory: aliases of aliases of aliases."""

from __future__ import annotations

from typing import Final

import yaml

__all__ = ["swollen"]

_MOST: Final = 1_000_000  # values that aliases may make of fewer
_TIMES: Final = 10  # as many values as are written


def swollen(root: yaml.Node) -> bool:
    """Whether its aliases make far more of it than is written, or it holds itself."""
    sizes: dict[int, int] = {}
    try:
        size = _size(root, sizes)
    except ValueError:
        return True
    return size > max(_MOST, _TIMES * len(sizes))


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Values in it, each as often as it is named; ValueError if it holds itself."""
    known = sizes.setdefault(id(node), 0)
    if known:
        return known
    if isinstance(node, yaml.CollectionNode):
        inner = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        for part in inner:
            if sizes.get(id(part)) == 0:
                raise ValueError("it holds itself")
        sizes[id(node)] = 1 + sum(_size(part, sizes) for part in inner)
    else:
        sizes[id(node)] = 1
    return sizes[id(node)]
