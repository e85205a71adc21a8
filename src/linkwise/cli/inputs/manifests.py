"""Manifests as users write them: every object with the pods it would make, and where each key stands.

YAML that is small on the disk and has no end in memory: aliases of aliases of aliases.
"""
# Joined from manifests, swollen: one docstring for all.

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

__all__ = ["Manifest", "Place", "PodTemplate", "load_manifests", "pod_templates", "swollen"]

# Where the template of a kind's pods is found; its replicas stand beside `template` or a level above.
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
    """A line and a column, as editors count them."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file."""

    document: dict[str, Any]
    root: yaml.Node

    @property
    def kind(self) -> str:
        """What it is."""
        return str(self.document.get("kind", ""))

    @property
    def name(self) -> str:
        """What it is called."""
        meta = self.document.get("metadata")
        return str(meta.get("name") or meta.get("generateName") or "") if isinstance(meta, dict) else ""

    def place(self, key: str = "", within: yaml.Node | None = None) -> Place:
        """Where a key or a path stands in the object or a part of it; its beginning if it stands nowhere."""
        root = within or self.root
        found = next(_keys(root, key), None) or _follow(self.root, key) or root
        return Place(found.start_mark.line + 1, found.start_mark.column + 1)


def load_manifests(file: str) -> list[Manifest]:
    """All objects of a file, `-` for standard input; lists are opened. InputError names file, line and column."""
    name = file_name(file)
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        found = list(_objects(content, name))
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from error
    except InputError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        place, sentence = fault_of(error)
        raise InputError(f"{name}{place}: no YAML: {sentence}") from error
    if not found:
        raise InputError(f"{name}: no Kubernetes object in it")
    return found


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """The pods that an object would make."""

    name: str
    count: int
    document: dict[str, Any]
    """the pod as Kubernetes would have it"""
    root: yaml.Node
    """the part of the manifest that says so"""


def pod_templates(manifest: Manifest) -> Iterator[PodTemplate]:
    """The pods of an object, a template for each kind of them."""
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
    """The tasks of a Volcano job; its controller names the group and its minimum on every pod."""
    document = manifest.document
    least = _at(document, "spec", "minAvailable")
    words = {"scheduling.k8s.io/group-name": manifest.name}
    words |= {"scheduling.volcano.sh/group-min-member": str(least)} if isinstance(least, int) else {}
    for number, task in enumerate(_list(_at(document, "spec", "tasks"))):
        name = f"{manifest.name}-{task.get('name', '')}".rstrip("-")
        pod = _templated(document, task.get("template"), name)
        own = pod["metadata"].get("annotations")
        pod["metadata"]["annotations"] = {**words, **(own if isinstance(own, dict) else {})}
        root = _follow(manifest.root, f"spec.tasks[{number}]") or manifest.root
        yield PodTemplate(name, _count(task.get("replicas")), pod, root)


def _objects(content: bytes, name: str) -> Iterator[Manifest]:
    loader = yaml.SafeLoader(content)
    try:
        while loader.check_node():
            root = loader.get_node()
            if root is None:
                continue
            if swollen(root):
                raise InputError(f"{name}:{place_of(root)}: its aliases repeat each other without end")
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
                told = "a list" if isinstance(document, list) else "text" if isinstance(document, str) else "a value"
                raise InputError(f"{name}:{place_of(root)}: no Kubernetes object, but {told}")
    finally:
        loader.dispose()


def _keys(node: yaml.Node, key: str) -> Iterator[yaml.Node]:
    """All places where the key stands in a mapping, from the top."""
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
    """The deepest place that a path such as `spec.devices[0].minor` leads to; None if it leads nowhere."""
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
    """A pod of the template, named after its owner and in the owner's namespace."""
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
