"""An old scheduler policy file made into a KubeSchedulerConfiguration: what is kept, what is changed, and why.

Source: seed 004, its scheduler-policy-config.json. The routes of gpushare's extender stay, so its URL does.

An old scheduler policy file as values: kind Policy, which kube-scheduler read until 1.22.

Source: seed 004, its scheduler-policy-config.json.
"""
# Joined from policy_conversion, policy_fields: one docstring for all.

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import yaml

from linkwise.config.scheduler_config import NOTES, VERBS, every_resource, profile_notes, skeleton, weight_note
from linkwise.config.schema import refusal
from linkwise.config.validation import hint, said
from linkwise.config.yaml_comments import commented
from linkwise.config.yaml_tree import content_of, is_nothing, pairs, place_of, plain, root_of, twice
from linkwise.dialects.registry import RESOURCES, is_native
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from linkwise.config.scheduler_config import SchedulerFile

__all__ = ["OldExtender", "PolicyFile", "converted", "read_policy"]

GPUSHARE: Final = "/gpushare-scheduler"
_OURS: Final = frozenset(name for names in RESOURCES.values() for name in names)
_NANOSECONDS: Final = 10**9
_HEAD: Final = """\
Made of a scheduler policy file, which kube-scheduler does not read since 1.23.
The policy was that of the cluster's own scheduler; this file is for a second one beside it: kube-scheduler \
--config=THIS-FILE
"""
_BY_NAME: Final = "By default pods must name this scheduler; --default-scheduler serves those that name none as well."
_KEPT: Final = "Kept. `linkwise config scheduler` without a policy file lists all that Linkwise can place."
_NONE: Final = (
    "Added: there were none, so every pod was sent to the extender. All that Linkwise can place is listed; --every-pod "
    "sends every pod again."
)
_NONE_LEFT: Final = (
    "Changed: none of those that were there can stay, and without any every pod would be sent to Linkwise. All that it "
    "can place is listed; --every-pod sends every pod."
)
_LAST: Final = "Moved to the end: Linkwise leaves few nodes, so that other extenders choose before it."
_DROPPED: Final = {
    "predicates": "Plugins do their work, and the usual ones are all enabled.",
    "priorities": "Plugins do their work, with the usual weights.",
}


def converted(policy: PolicyFile, wanted: SchedulerFile, *, url: str = "") -> str:
    """The new file as text; a URL that is given goes before that of the policy.

    Raises:
        InputError: it can't be told which extender Linkwise takes the place of.
    """
    # rule 004.policy-file: the URL, timeout and resources are kept; what would lose devices is changed, and said.
    ours = _replaced(policy)
    resources = [name for name in ours.resources if name in _OURS and not is_native(name)]
    document = skeleton(wanted, resources or [entry["name"] for entry in every_resource()[0]])
    notes = {**profile_notes(wanted)}
    _keep_affinity(policy, document, notes)
    extenders, head = [], [*_HEAD.splitlines(), *([] if wanted.default_scheduler else [_BY_NAME]), *_dropped(policy)]
    for number, old in enumerate(sorted(policy.extenders, key=lambda old: old is ours)):
        path = f"extenders[{number}]"
        made, told = _ours(old, wanted, url) if old is ours else _theirs(old)
        if old is ours and ours is not policy.extenders[-1]:
            told[""] = "\n".join(filter(None, (_LAST, told.get(""))))
        extenders.append(made)
        notes |= {f"{path}.{key}" if key else path: text for key, text in told.items()}
    notes |= {key: text for key, text in NOTES.items() if not key.startswith("extenders")}
    document["extenders"] = extenders
    return commented(document, notes, "\n".join(head))


def _replaced(policy: PolicyFile) -> OldExtender:
    """The extender that Linkwise takes the place of: the one of gpushare, of our resources, or the only one."""
    by_route = [old for old in policy.extenders if _path(old).rstrip("/").endswith(GPUSHARE)]
    by_resource = [old for old in policy.extenders if _OURS & set(old.resources)]
    for found in (by_route, by_resource, policy.extenders):
        if len(found) == 1:
            return found[0]
    raise InputError(
        f"extenders: of {len(policy.extenders)} it can't be told which one Linkwise takes the place of; leave that of "
        f"gpushare, with the path {GPUSHARE} or a resource such as aliyun.com/gpu-mem"
    )


def _ours(old: OldExtender, wanted: SchedulerFile, url: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The extender as Linkwise needs it, and notes by key."""
    notes = {key.removeprefix("extenders[0]."): text for key, text in NOTES.items() if key.startswith("extenders[0].")}
    keys = old.keys
    timeout, notes["httpTimeout"] = _timeout(keys, notes["httpTimeout"])
    made: dict[str, Any] = {
        "urlPrefix": (url or keys["urlPrefix"]).rstrip("/"),
        **VERBS,
        "weight": wanted.weight,
        **_https(keys),
        "httpTimeout": timeout,
        "nodeCacheCapable": True,
        "ignorable": False,
    }
    notes["urlPrefix"] = f"Changed from {keys['urlPrefix']} by --url." if url else _url_note(made["urlPrefix"])
    notes |= {"filterVerb": _verbs_note(keys), "weight": weight_note(wanted.weight)}
    for key, needed in (("nodeCacheCapable", True), ("ignorable", False)):
        if keys.get(key, False) is not needed:
            notes[key] = f"Changed: it was {str(keys.get(key, False)).lower()}. {notes[key]}"
    if wanted.every_pod:
        return made, notes | {"": "No managedResources: every pod of this scheduler is sent to Linkwise."}
    made["managedResources"], told = _resources(old.resources)
    return made, notes | told


def _theirs(old: OldExtender) -> tuple[dict[str, Any], dict[str, str]]:
    """Another extender, as it is, in the keys of today."""
    plain = ("urlPrefix", "filterVerb", "prioritizeVerb", "preemptVerb", "weight", "nodeCacheCapable", "ignorable")
    made = {key: old.keys[key] for key in plain if key in old.keys} | _https(old.keys)
    if "httpTimeout" in old.keys:
        made["httpTimeout"] = _timeout(old.keys, "")[0]
    if old.resources:
        made["managedResources"] = [
            {"name": name, "ignoredByScheduler": ignored} for name, ignored in old.resources.items()
        ]
    notes = {"": "Another extender, kept as it is."}
    if old.keys.get("bindVerb"):
        notes[""] = (
            f"Another extender, without its bindVerb {old.keys['bindVerb']}: only one may bind, and Linkwise does."
        )
    return made, notes


def _url_note(url: str) -> str:
    parts = urlsplit(url)
    text = "Kept: Linkwise answers under the routes of gpushare's extender."
    if not parts.path.rstrip("/").endswith(GPUSHARE):
        text = f"Kept. Linkwise answers at the root and under {GPUSHARE}: change the path if it is another."
    if parts.hostname in {"127.0.0.1", "localhost", "::1"}:
        text += (
            " A NodePort may be closed on the loopback address though the node's own address works: if calls fail, give "
            "an address with --url."
        )
    return text


def _verbs_note(keys: Mapping[str, Any]) -> str:
    changed = [f"{verb} was {keys[verb]}" for verb in VERBS if keys.get(verb) and keys[verb] != VERBS[verb]]
    added = [verb for verb in VERBS if not keys.get(verb)]
    told = [f"Changed: {', '.join(changed)}."] if changed else []
    told += [f"Added: {', '.join(added)}, with a weight."] if added else []
    return " ".join(told)


def _timeout(keys: Mapping[str, Any], note: str) -> tuple[str, str]:
    """Old files count nanoseconds."""
    found = keys.get("httpTimeout", 0)
    if found <= 0:
        return "5s", note
    seconds = found / _NANOSECONDS
    return f"{seconds:g}s" if re.fullmatch(r"[0-9.]+", f"{seconds:g}") else f"{found}ns", f"Kept. {note}".strip()


def _https(keys: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"enableHTTPS": True} if keys.get("enableHttps") or keys.get("enableHTTPS") else {}
    return found | ({"tlsConfig": keys["tlsConfig"]} if keys.get("tlsConfig") else {})


def _resources(old: Mapping[str, bool]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """managedResources, which is never empty unasked, and the notes on it by key."""
    managed = [{"name": name, "ignoredByScheduler": False} for name in old if not is_native(name)]
    notes, told = dict[str, str](), [_KEPT]
    if not managed:
        managed, notes = every_resource()
        told = [_NONE_LEFT if old else _NONE, notes["managedResources"]]
    if ignored := [name for name in old if old[name]]:
        told.append(
            f"Changed: ignoredByScheduler was true for {', '.join(ignored)}; then kube-scheduler could not preempt by it."
        )
    if native := [name for name in old if is_native(name)]:
        told.append(f"Left out: {', '.join(native)}, which kube-scheduler refuses.")
    if strange := [name for name in old if name not in _OURS]:
        told.append(f"Linkwise does not place {', '.join(strange)}: such pods go by kube-scheduler's count alone.")
    return managed, notes | {"managedResources": "\n".join(told)}


def _keep_affinity(policy: PolicyFile, document: dict[str, Any], notes: dict[str, str]) -> None:
    """The one setting at the top that has a place today."""
    weight = policy.others.get("hardPodAffinitySymmetricWeight")
    if weight is None:
        return
    configs = document["profiles"][0]["pluginConfig"]
    notes[f"profiles[0].pluginConfig[{len(configs)}]"] = "Kept: it was hardPodAffinitySymmetricWeight."
    args = {"apiVersion": document["apiVersion"], "kind": "InterPodAffinityArgs", "hardPodAffinityWeight": weight}
    configs.append({"name": "InterPodAffinity", "args": args})


def _dropped(policy: PolicyFile) -> list[str]:
    found = {"predicates": policy.predicates, "priorities": policy.priorities}
    told = [f"Dropped {key}: {', '.join(names)}. {_DROPPED[key]}" for key, names in found.items() if names]
    if "alwaysCheckAllPredicates" in policy.others:
        told.append("Dropped alwaysCheckAllPredicates: there is nothing like it today.")
    return told


def _path(old: OldExtender) -> str:
    return urlsplit(str(old.keys.get("urlPrefix", ""))).path


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
