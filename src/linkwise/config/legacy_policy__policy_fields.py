"""An old scheduler policy file as values: kind Policy, which kube-scheduler read until 1.22.

Source: seed 004, its scheduler-policy-config.json.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import yaml

from linkwise.config.schema__given import refusal
from linkwise.config.validation import hint, said
from linkwise.config.yaml_tree import content_of, is_nothing, pairs, place_of, plain, root_of, twice

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["OldExtender", "PolicyFile", "read_policy"]

_TOP: Final = {
    "kind": str,
    "apiVersion": str,
    "metadata": dict,
    "extenders": list,
    "predicates": list,
    "priorities": list,
    "hardPodAffinitySymmetricWeight": int,
    "alwaysCheckAllPredicates": bool,
}
_EXTENDER: Final = {
    "urlPrefix": str,
    "filterVerb": str,
    "preemptVerb": str,
    "prioritizeVerb": str,
    "bindVerb": str,
    "weight": int,
    "enableHttps": bool,
    "enableHTTPS": bool,
    "tlsConfig": dict,
    "httpTimeout": int,
    "nodeCacheCapable": bool,
    "managedResources": list,
    "ignorable": bool,
}
_RESOURCE: Final = {"name": str, "ignoredByScheduler": bool}
_NAMED: Final = {"name": str, "weight": int, "argument": dict}
_WORDS: Final[Mapping[type, str]] = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}
_KINDS: Final = {"KubeSchedulerConfiguration": "it is a KubeSchedulerConfiguration already"}


@dataclass(frozen=True, slots=True)
class OldExtender:
    """One entry of `extenders`, with its keys as they stand."""

    keys: Mapping[str, Any]
    resources: Mapping[str, bool]
    """names of managedResources, and whether kube-scheduler ignores them"""


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """What a policy file says."""

    extenders: tuple[OldExtender, ...]
    predicates: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ()
    others: Mapping[str, Any] = field(default_factory=dict)
    """other keys at the top"""


def read_policy(file: Path) -> PolicyFile:
    """The policy of a file in JSON or YAML; InputError names every place where something is wrong."""
    name = "standard input" if str(file) == "-" else str(file)
    root = root_of(content_of(file), name)
    reading = _Reading(name)
    found = reading.policy(root) if root is not None else None
    if found is None and not reading.problems:
        reading.problems.append(f"{name}: it is empty")
    if reading.problems or found is None:
        raise refusal(reading.problems)
    return found


class _Reading:
    """Goes through the file and notes whatever makes no sense."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[str] = []

    def policy(self, root: yaml.Node) -> PolicyFile | None:
        top = self._fields(root, "the file", {"kind": str}, strict=False)
        if top.get("kind", "") != "Policy":
            told = _KINDS.get(top.get("kind", ""), "expected Policy, as kube-scheduler read it until 1.22")
            self._wrong(_at(root, "kind"), "kind", told)
            return None
        top = self._fields(root, "", _TOP)
        extenders = tuple(
            self._extender(node, f"extenders[{number}]") for number, node in enumerate(_items(root, "extenders"))
        )
        if not extenders and not self.problems:
            self._wrong(_at(root, "extenders"), "extenders", "there is none to convert")
        others = ("hardPodAffinitySymmetricWeight", "alwaysCheckAllPredicates")
        return PolicyFile(
            extenders,
            self._names(root, "predicates"),
            self._names(root, "priorities"),
            {key: top[key] for key in others if key in top},
        )

    def _extender(self, node: yaml.Node, path: str) -> OldExtender:
        keys = self._fields(node, path, _EXTENDER)
        url, place = keys.get("urlPrefix"), _at(node, "urlPrefix")
        if isinstance(node, yaml.MappingNode) and (place is node or is_nothing(place)):
            self._wrong(place, f"{path}.urlPrefix", "it is missing")
        elif url is not None and not url.startswith(("http://", "https://")):
            self._wrong(place, f"{path}.urlPrefix", f"expected a URL with http://, got {said(url)}")
        resources: dict[str, bool] = {}
        for number, item in enumerate(_items(node, "managedResources")):
            inner = f"{path}.managedResources[{number}]"
            entry = self._fields(item, inner, _RESOURCE)
            if not entry.get("name"):
                self._wrong(item, f"{inner}.name", "it is missing")
            elif entry["name"] in resources:
                self._wrong(_at(item, "name"), f"{inner}.name", f"{entry['name']} stands there twice")
            resources[entry.get("name", "")] = entry.get("ignoredByScheduler", False)
        return OldExtender(keys, resources)

    def _names(self, root: yaml.Node, key: str) -> tuple[str, ...]:
        found = [
            self._fields(node, f"{key}[{number}]", _NAMED).get("name", "?")
            for number, node in enumerate(_items(root, key))
        ]
        return tuple(found)

    def _fields(self, node: yaml.Node, path: str, known: Mapping[str, type], *, strict: bool = True) -> dict[str, Any]:
        """The values of the keys that may be there, each of its type."""
        if not isinstance(node, yaml.MappingNode):
            self._wrong(node, path, f"expected an object, got {_said(node)}")
            return {}
        start = f"{path}." if path and strict else ""
        for key, place, line in twice(node) if strict else ():
            self._wrong(place, f"{start}{key}", f"it stands there twice, first in line {line}")
        found = {}
        for key, place, inner in pairs(node):
            if key in known:
                found[key] = self._typed(inner, f"{start}{key}", known[key])
            elif strict:
                self._wrong(place, f"{start}{key}", f"no such key{hint(key, known)}")
        return {key: value for key, value in found.items() if value is not None}

    def _typed(self, node: yaml.Node, path: str, expected: type) -> Any:  # noqa: ANN401 - JSON
        try:
            value = plain(node)
        except ValueError as error:
            self._wrong(node, path, str(error))
            return None
        if type(value) is expected or value is None:
            return value
        self._wrong(node, path, f"expected {_WORDS[expected]}, got {said(value)}")
        return None

    def _wrong(self, node: yaml.Node, path: str, sentence: str) -> None:
        self.problems.append(f"{self.file}:{place_of(node)}: {path}: {sentence}")


def _at(node: yaml.Node, key: str) -> yaml.Node:
    """The value of a key, or the node itself where the key is missing."""
    found = (value for name, _, value in pairs(node) if name == key) if isinstance(node, yaml.MappingNode) else ()
    return next(iter(found), node)


def _items(node: yaml.Node, key: str) -> list[yaml.Node]:
    found = _at(node, key)
    return list(found.value) if isinstance(found, yaml.SequenceNode) else []


def _said(node: yaml.Node) -> str:
    return "a list" if isinstance(node, yaml.SequenceNode) else said(node.value)
