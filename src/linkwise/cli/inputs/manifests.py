"""Loads manifests: every object with its pod templates and the position of each key.

Rejects YAML alias bombs, which are small on disk and exhaust memory when expanded.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from linkwise.cli.options.files import file_name
from linkwise.config.yaml_tree import fault_of, place_of
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "NODE_KINDS",
    "WITHOUT_PODS",
    "Manifest",
    "Place",
    "PodTemplate",
    "is_alias_bomb",
    "load_manifests",
    "pod_templates",
]

NODE_KINDS: Final = ("Device", "DeviceInventory")
WITHOUT_PODS: Final = frozenset(
    (
        *("Service", "ServiceAccount", "ConfigMap", "Secret", "Namespace", "Role", "RoleBinding", "ClusterRole"),
        *("ClusterRoleBinding", "PersistentVolumeClaim", "PodGroup", "Queue", "Ingress", "NetworkPolicy"),
    )
)
"""common kinds that create no pods and need no note"""

# Path of the pod template by kind; `replicas` or `parallelism` is beside `template`.
TEMPLATES: Final = {
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """A line and a column, counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file."""

    document: dict[str, Any]
    root: yaml.Node

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return str(self.document.get("kind", ""))

    @property
    def name(self) -> str:
        """The name of the object."""
        meta = self.document.get("metadata")
        return str(meta.get("name") or meta.get("generateName") or "") if isinstance(meta, dict) else ""

    def place(self, key: str = "", within: yaml.Node | None = None) -> Place:
        """Return the position of a key or path in the object or a part of it; the beginning if it is not there."""
        root = within or self.root
        node = next(_keys(root, key), None) or _follow(self.root, key) or root
        return Place(node.start_mark.line + 1, node.start_mark.column + 1)


def load_manifests(file: str) -> list[Manifest]:
    """Load all objects of a file (`-` for standard input), also those inside lists; InputError names file, line and column."""
    name = file_name(file)
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        manifests = list(_objects(content, name))
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from error
    except InputError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        place, sentence = fault_of(error)
        raise InputError(f"{name}{place}: not valid YAML: {sentence}") from error
    if not manifests:
        raise InputError(f"{name}: contains no Kubernetes object")
    return manifests


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """A pod template of an object."""

    name: str
    count: int
    document: dict[str, Any]
    """the pod as Kubernetes would create it"""
    root: yaml.Node
    """the part of the manifest that defines it"""


def pod_templates(manifest: Manifest) -> Iterator[PodTemplate]:
    """Yield the pod templates of an object."""
    document = manifest.document
    if manifest.kind == "Pod":
        yield PodTemplate(manifest.name, 1, document, manifest.root)
    elif manifest.kind == "Job" and "volcano" in str(document.get("apiVersion", "")):
        yield from _volcano_tasks(manifest)
    elif manifest.kind in TEMPLATES:
        template = _at(document, *TEMPLATES[manifest.kind])
        spec = _at(document, *TEMPLATES[manifest.kind][:-1])
        replicas = spec.get("replicas", spec.get("parallelism")) if isinstance(spec, dict) else None
        pod = _templated(document, template, manifest.name)
        yield PodTemplate(manifest.name, _count(replicas), pod, manifest.root)


def _volcano_tasks(manifest: Manifest) -> Iterator[PodTemplate]:
    """Yield the tasks of a Volcano Job, with the group annotations that its controller sets on every pod."""
    document = manifest.document
    minimum = _at(document, "spec", "minAvailable")
    group = {"scheduling.k8s.io/group-name": manifest.name}
    group |= {"scheduling.volcano.sh/group-min-member": str(minimum)} if isinstance(minimum, int) else {}
    for number, task in enumerate(_list(_at(document, "spec", "tasks"))):
        name = f"{manifest.name}-{task.get('name', '')}".rstrip("-")
        pod = _templated(document, task.get("template"), name)
        own = pod["metadata"].get("annotations")
        pod["metadata"]["annotations"] = {**group, **(own if isinstance(own, dict) else {})}
        root = _follow(manifest.root, f"spec.tasks[{number}]") or manifest.root
        yield PodTemplate(name, _count(task.get("replicas")), pod, root)


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


def _follow(node: yaml.Node, path: str) -> yaml.Node | None:
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


def _templated(owner: dict[str, Any], template: object, name: str) -> dict[str, Any]:
    """Return the pod of a template with the name and namespace of its owner."""
    pod = dict(template) if isinstance(template, dict) else {}
    meta = pod.get("metadata")
    own = _at(owner, "metadata")
    namespace = own.get("namespace") if isinstance(own, dict) else None
    pod["metadata"] = {
        **({"namespace": namespace} if namespace else {}),
        **(meta if isinstance(meta, dict) else {}),
        "name": name,
    }
    return pod


def _at(document: object, *path: str) -> Any:  # noqa: ANN401 - raw YAML
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _list(value: object) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _count(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 1


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
