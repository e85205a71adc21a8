"""Parses manifests: every object with the position of each key.

Rejects YAML alias bombs, which are small on disk and exhaust memory when expanded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import yaml

from linkwise.config.yaml_documents import fault_of, place_of
from linkwise.dialects.kubernetes.pod_templates import WorkloadObject
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "NODE_KINDS",
    "WITHOUT_PODS",
    "Manifest",
    "Place",
    "follow",
    "is_alias_bomb",
    "parse_manifests",
]

NODE_KINDS: Final = ("Device", "DeviceInventory")
WITHOUT_PODS: Final = frozenset(
    (
        *("Service", "ServiceAccount", "ConfigMap", "Secret", "Namespace", "Role", "RoleBinding", "ClusterRole"),
        *("ClusterRoleBinding", "PersistentVolumeClaim", "PodGroup", "Queue", "Ingress", "NetworkPolicy"),
    )
)
"""common kinds that create no pods and need no note"""


@dataclass(frozen=True, slots=True)
class Place:
    """A line and a column, counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Manifest(WorkloadObject):
    """One object of a file."""

    root: yaml.Node

    def part(self, path: str) -> yaml.Node:
        """Return the part of the object at a path, or the deepest one on the way."""
        return follow(self.root, path) or self.root

    def place(self, key: str = "", within: yaml.Node | None = None) -> Place:
        """Return the position of a key or path in the object or a part of it; the beginning if it is not there."""
        root = within or self.root
        node = next(_keys(root, key), None) or follow(self.root, key) or root
        return Place(node.start_mark.line + 1, node.start_mark.column + 1)


def parse_manifests(content: bytes, name: str) -> list[Manifest]:
    """Parse all objects of a text, also those inside lists; InputError names the text, line and column."""
    try:
        manifests = list(_objects(content, name))
    except InputError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        place, sentence = fault_of(error)
        raise InputError(f"{name}{place}: not valid YAML: {sentence}") from error
    if not manifests:
        raise InputError(f"{name}: contains no Kubernetes object")
    return manifests


def _objects(content: bytes, name: str) -> Iterator[Manifest]:
    loader = yaml.SafeLoader(content)
    try:
        while loader.check_node():
            root = loader.get_node()
            if root is None:
                continue
            if is_alias_bomb(root):
                raise InputError(f"{name}:{place_of(root)}: YAML aliases expand without limit")
            document = loader.construct_document(root)
            items = document.get("items") if isinstance(document, dict) else None
            if isinstance(items, list) and str(document.get("kind", "")).endswith("List"):
                node = next(value for key, value in root.value if key.value == "items")
                yield from (
                    Manifest(item, at) for item, at in zip(items, node.value, strict=True) if isinstance(item, dict)
                )
            elif isinstance(document, dict):
                yield Manifest(document, root)
            elif document is not None:
                actual = "a list" if isinstance(document, list) else "text" if isinstance(document, str) else "a value"
                raise InputError(f"{name}:{place_of(root)}: expected a Kubernetes object, got {actual}")
    finally:
        loader.dispose()


def _keys(node: yaml.Node, key: str) -> Iterator[yaml.Node]:
    """Yield all occurrences of the key, from the top."""
    if not key:
        return
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == key:
                yield name
            yield from _keys(value, key)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _keys(value, key)


def follow(node: yaml.Node, path: str) -> yaml.Node | None:
    """Return the deepest node on a path such as `spec.devices[0].minor`; None if no part of it exists."""
    reached = None
    for step in re.findall(r"[^.\[\]\s]+", path):
        inner: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            inner = next((value for name, value in node.value if name.value == step), None)
        elif isinstance(node, yaml.SequenceNode) and step.isdecimal() and int(step) < len(node.value):
            inner = node.value[int(step)]
        if inner is not None:
            node = reached = inner
    return reached


_MAX_VALUES: Final = 1_000_000  # after expanding aliases
_MAX_GROWTH: Final = 10  # expanded values per written value


def is_alias_bomb(root: yaml.Node) -> bool:
    """Whether expanding its aliases multiplies its size, or it contains itself."""
    sizes: dict[int, int] = {}
    try:
        size = _size(root, sizes)
    except ValueError:
        return True
    return size > max(_MAX_VALUES, _MAX_GROWTH * len(sizes))


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Return the number of expanded values; ValueError if the node contains itself."""
    known = sizes.setdefault(id(node), 0)
    if known:
        return known
    if isinstance(node, yaml.CollectionNode):
        inner = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        for part in inner:
            if sizes.get(id(part)) == 0:
                raise ValueError("it contains itself")
        sizes[id(node)] = 1 + sum(_size(part, sizes) for part in inner)
    else:
        sizes[id(node)] = 1
    return sizes[id(node)]
