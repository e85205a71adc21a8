"""Conversion of a scheduler policy file (kind Policy, until Kubernetes 1.22) to a KubeSchedulerConfiguration.

Comments in the result say what was kept, changed and dropped, and why. Linkwise serves the routes of gpushare's extender,
so its URL is kept. Source: seed 004, its scheduler-policy-config.json.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import yaml

from linkwise.config.scheduler_config import (
    EVERY_POD_NOTE,
    NOTES,
    VERBS,
    every_resource,
    profile_notes,
    skeleton,
    tls_notes,
    weight_note,
)
from linkwise.config.schema import describe, hint, refusal
from linkwise.config.yaml_documents import (
    content_of,
    duplicate_keys,
    is_null,
    pairs,
    place_of,
    plain,
    root_of,
    yaml_with_comments,
)
from linkwise.dialects.registry import is_native, managed_resources
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from linkwise.config.scheduler_config import SchedulerFile

__all__ = ["OldExtender", "PolicyFile", "convert_policy", "read_policy"]

GPUSHARE: Final = "/gpushare-scheduler"
_NANOSECONDS: Final = 10**9
_HEAD: Final = """\
Converted from a scheduler policy file, which kube-scheduler does not support since 1.23.
The policy was for the cluster's own scheduler; this file is for a second one next to it: kube-scheduler \
--config=THIS-FILE
"""
_BY_NAME: Final = (
    "Pods must set the schedulerName of this scheduler; with --default-scheduler, pods without one are scheduled too."
)
_KEPT: Final = "Kept. `linkwise config scheduler` without a policy file lists every resource that Linkwise schedules."
_NONE: Final = (
    "Added: the policy had none, so every pod was sent to the extender. All resources that Linkwise schedules are listed; "
    "use --every-pod to send every pod as before."
)
_NONE_LEFT: Final = (
    "Changed: kube-scheduler rejects all that the policy had, and without any, every pod would be sent to Linkwise. All "
    "resources that Linkwise schedules are listed; use --every-pod to send every pod."
)
_LAST: Final = "Moved to the end: Linkwise leaves few nodes, so other extenders must filter before it."
_DROPPED: Final = {
    "predicates": "Replaced by plugins; the default plugins are all enabled.",
    "priorities": "Replaced by plugins, with the default weights.",
}


def convert_policy(policy: PolicyFile, wanted: SchedulerFile, *, url: str = "") -> str:
    """The new file as YAML text; `url` overrides the URL of the policy.

    Raises:
        InputError: it is ambiguous which extender Linkwise replaces.
    """
    # rule 004.policy-file: URL, timeout and resources are kept; settings that could lose devices are changed, with a note.
    ours = _find_replaced(policy)
    resources = [name for name in ours.resources if name in _managed() and not is_native(name)]
    document = skeleton(wanted, resources or [entry["name"] for entry in every_resource()[0]])
    notes = {**profile_notes(wanted)}
    _keep_affinity(policy, document, notes)
    extenders, head = [], [*_HEAD.splitlines(), *([] if wanted.default_scheduler else [_BY_NAME]), *_dropped(policy)]
    for number, old in enumerate(sorted(policy.extenders, key=lambda old: old is ours)):
        path = f"extenders[{number}]"
        extender, comments = _linkwise_extender(old, wanted, url) if old is ours else _other_extender(old)
        if old is ours and ours is not policy.extenders[-1]:
            comments[""] = "\n".join(filter(None, (_LAST, comments.get(""))))
        extenders.append(extender)
        notes |= {f"{path}.{key}" if key else path: text for key, text in comments.items()}
    notes |= {key: text for key, text in NOTES.items() if not key.startswith("extenders")}
    document["extenders"] = extenders
    return yaml_with_comments(document, notes, "\n".join(head))


def _find_replaced(policy: PolicyFile) -> OldExtender:
    """The extender that Linkwise replaces: gpushare's by path, the one with a managed resource of ours, or the only one."""
    by_route = [old for old in policy.extenders if _path(old).rstrip("/").endswith(GPUSHARE)]
    by_resource = [old for old in policy.extenders if _managed() & set(old.resources)]
    for candidates in (by_route, by_resource, policy.extenders):
        if len(candidates) == 1:
            return candidates[0]
    raise InputError(
        f"extenders: it is ambiguous which of the {len(policy.extenders)} extenders Linkwise replaces; keep gpushare's, "
        f"with the path {GPUSHARE} or a resource such as aliyun.com/gpu-mem"
    )


def _linkwise_extender(old: OldExtender, wanted: SchedulerFile, url: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The extender as Linkwise needs it, with comments by key."""
    notes = {key.removeprefix("extenders[0]."): text for key, text in NOTES.items() if key.startswith("extenders[0].")}
    keys = old.keys
    timeout, notes["httpTimeout"] = _timeout(keys, notes["httpTimeout"])
    extender: dict[str, Any] = {
        "urlPrefix": (url or _with_tls(keys["urlPrefix"], wanted)).rstrip("/"),
        **VERBS,
        "weight": wanted.weight,
        **(wanted.tls.to_extender() if wanted.tls else _https(keys)),
        "httpTimeout": timeout,
        "nodeCacheCapable": True,
        "ignorable": False,
    }
    _check_verified(extender)
    notes["urlPrefix"] = f"Changed from {keys['urlPrefix']} by --url." if url else _url_note(extender["urlPrefix"])
    if not url and extender["urlPrefix"] != keys["urlPrefix"].rstrip("/"):
        notes["urlPrefix"] += " Changed: http was replaced by https, for --ca-file."
    if wanted.tls:
        notes |= tls_notes(wanted.tls)
    notes |= {"filterVerb": _verbs_note(keys), "weight": weight_note(wanted.weight)}
    for key, needed in (("nodeCacheCapable", True), ("ignorable", False)):
        if keys.get(key, False) is not needed:
            notes[key] = f"Changed: it was {str(keys.get(key, False)).lower()}. {notes[key]}"
    if wanted.every_pod:
        return extender, notes | {"": EVERY_POD_NOTE}
    extender["managedResources"], comments = _resources(old.resources)
    return extender, notes | comments


def _other_extender(old: OldExtender) -> tuple[dict[str, Any], dict[str, str]]:
    """Another extender, unchanged, with the current keys."""
    plain = ("urlPrefix", "filterVerb", "prioritizeVerb", "preemptVerb", "weight", "nodeCacheCapable", "ignorable")
    extender = {key: old.keys[key] for key in plain if key in old.keys} | _https(old.keys)
    if "httpTimeout" in old.keys:
        extender["httpTimeout"] = _timeout(old.keys, "")[0]
    if old.resources:
        extender["managedResources"] = [
            {"name": name, "ignoredByScheduler": ignored} for name, ignored in old.resources.items()
        ]
    notes = {"": "Another extender, kept unchanged."}
    if old.keys.get("bindVerb"):
        notes[""] = (
            f"Another extender, without its bindVerb {old.keys['bindVerb']}: only one extender may bind, and that is"
            " Linkwise."
        )
    return extender, notes


def _url_note(url: str) -> str:
    parts = urlsplit(url)
    text = "Kept: Linkwise serves the routes of gpushare's extender."
    if not parts.path.rstrip("/").endswith(GPUSHARE):
        text = f"Kept. Linkwise serves the root path and {GPUSHARE}: change the path if it is another."
    if parts.hostname in {"127.0.0.1", "localhost", "::1"}:
        text += (
            " A NodePort may not be reachable on the loopback address: if calls fail, set the address of the node with "
            "--url."
        )
    return text


def _verbs_note(keys: Mapping[str, Any]) -> str:
    changed = [f"{verb} was {keys[verb]}" for verb in VERBS if keys.get(verb) and keys[verb] != VERBS[verb]]
    added = [verb for verb in VERBS if not keys.get(verb)]
    notes = [f"Changed: {', '.join(changed)}."] if changed else []
    notes += [f"Added: {', '.join(added)}, with a weight."] if added else []
    return " ".join(notes)


def _timeout(keys: Mapping[str, Any], note: str) -> tuple[str, str]:
    """HttpTimeout as a duration; policy files have nanoseconds."""
    nanoseconds = keys.get("httpTimeout", 0)
    if nanoseconds <= 0:
        return "5s", note
    seconds = f"{nanoseconds / _NANOSECONDS:g}"
    return f"{seconds}s" if re.fullmatch(r"[0-9.]+", seconds) else f"{nanoseconds}ns", f"Kept. {note}".strip()


def _https(keys: Mapping[str, Any]) -> dict[str, Any]:
    https: dict[str, Any] = {"enableHTTPS": True} if keys.get("enableHttps") or keys.get("enableHTTPS") else {}
    return https | ({"tlsConfig": keys["tlsConfig"]} if keys.get("tlsConfig") else {})


def _with_tls(url: str, wanted: SchedulerFile) -> str:
    return f"https://{url.removeprefix('http://')}" if wanted.tls and url.startswith("http://") else url


def _check_verified(extender: Mapping[str, Any]) -> None:
    """Refuse HTTPS by which kube-scheduler would not verify the service."""
    config = extender.get("tlsConfig", {})
    verified = (config.get("caFile") or config.get("caData")) and not config.get("insecure")
    if extender.get("enableHTTPS") and not verified:
        raise InputError(
            "the extender that Linkwise replaces has HTTPS without an authority, so that kube-scheduler would not verify the"
            " service; set --ca-file, --cert-file and --key-file"
        )


def _resources(old: Mapping[str, bool]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """managedResources, never empty, with comments by key."""
    managed = [{"name": name, "ignoredByScheduler": False} for name in old if not is_native(name)]
    notes, lines = dict[str, str](), [_KEPT]
    if not managed:
        managed, notes = every_resource()
        lines = [_NONE_LEFT if old else _NONE, notes["managedResources"]]
    if ignored := [name for name in old if old[name]]:
        lines.append(
            f"Changed: ignoredByScheduler was true for {', '.join(ignored)}, so kube-scheduler could not preempt for it."
        )
    if native := [name for name in old if is_native(name)]:
        lines.append(f"Left out: {', '.join(native)}, which kube-scheduler rejects.")
    if unknown := [name for name in old if name not in _managed()]:
        lines.append(f"Linkwise does not schedule {', '.join(unknown)}: only kube-scheduler accounts for these.")
    return managed, notes | {"managedResources": "\n".join(lines)}


def _keep_affinity(policy: PolicyFile, document: dict[str, Any], notes: dict[str, str]) -> None:
    """Convert hardPodAffinitySymmetricWeight, the only top-level setting with an equivalent."""
    weight = policy.others.get("hardPodAffinitySymmetricWeight")
    if weight is None:
        return
    configs = document["profiles"][0]["pluginConfig"]
    notes[f"profiles[0].pluginConfig[{len(configs)}]"] = "Kept: it was hardPodAffinitySymmetricWeight."
    args = {"apiVersion": document["apiVersion"], "kind": "InterPodAffinityArgs", "hardPodAffinityWeight": weight}
    configs.append({"name": "InterPodAffinity", "args": args})


def _dropped(policy: PolicyFile) -> list[str]:
    dropped = {"predicates": policy.predicates, "priorities": policy.priorities}
    lines = [f"Dropped {key}: {', '.join(names)}. {_DROPPED[key]}" for key, names in dropped.items() if names]
    if "alwaysCheckAllPredicates" in policy.others:
        lines.append("Dropped alwaysCheckAllPredicates: it has no equivalent.")
    return lines


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
_TYPE_NAMES: Final[Mapping[type, str]] = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}
_KINDS: Final = {"KubeSchedulerConfiguration": "the file already is a KubeSchedulerConfiguration"}


@dataclass(frozen=True, slots=True)
class OldExtender:
    """One entry of `extenders`, with its keys unchanged."""

    keys: Mapping[str, Any]
    resources: Mapping[str, bool]
    """names of managedResources, and whether kube-scheduler ignores them"""


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A scheduler policy."""

    extenders: tuple[OldExtender, ...]
    predicates: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ()
    others: Mapping[str, Any] = field(default_factory=dict)
    """other top-level keys"""


def read_policy(file: Path) -> PolicyFile:
    """Read a policy in JSON or YAML; InputError has every problem with its place."""
    name = "standard input" if str(file) == "-" else str(file)
    root = root_of(content_of(file), name)
    reader = _PolicyReader(name)
    policy = reader.policy(root) if root is not None else None
    if policy is None and not reader.problems:
        reader.problems.append(f"{name}: the file is empty")
    if reader.problems or policy is None:
        raise refusal(reader.problems)
    return policy


class _PolicyReader:
    """Validates a policy and collects all problems."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[str] = []

    def policy(self, root: yaml.Node) -> PolicyFile | None:
        top = self._fields(root, "the file", {"kind": str}, strict=False)
        if top.get("kind", "") != "Policy":
            problem = _KINDS.get(top.get("kind", ""), "expected Policy, as supported by kube-scheduler until 1.22")
            self._report(_at(root, "kind"), "kind", problem)
            return None
        top = self._fields(root, "", _TOP)
        extenders = tuple(
            self._extender(node, f"extenders[{number}]") for number, node in enumerate(_items(root, "extenders"))
        )
        if not extenders and not self.problems:
            self._report(_at(root, "extenders"), "extenders", "there is no extender to convert")
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
        if isinstance(node, yaml.MappingNode) and (place is node or is_null(place)):
            self._report(place, f"{path}.urlPrefix", "required field is missing")
        elif url is not None and not url.startswith(("http://", "https://")):
            self._report(place, f"{path}.urlPrefix", f"expected a URL with http://, got {describe(url)}")
        resources: dict[str, bool] = {}
        for number, item in enumerate(_items(node, "managedResources")):
            inner = f"{path}.managedResources[{number}]"
            entry = self._fields(item, inner, _RESOURCE)
            if not entry.get("name"):
                self._report(item, f"{inner}.name", "required field is missing")
            elif entry["name"] in resources:
                self._report(_at(item, "name"), f"{inner}.name", f"{entry['name']} is listed twice")
            resources[entry.get("name", "")] = entry.get("ignoredByScheduler", False)
        return OldExtender(keys, resources)

    def _names(self, root: yaml.Node, key: str) -> tuple[str, ...]:
        return tuple(
            self._fields(node, f"{key}[{number}]", _NAMED).get("name", "?")
            for number, node in enumerate(_items(root, key))
        )

    def _fields(self, node: yaml.Node, path: str, known: Mapping[str, type], *, strict: bool = True) -> dict[str, Any]:
        """The values of the known keys, checked by type."""
        if not isinstance(node, yaml.MappingNode):
            self._report(node, path, f"expected an object, got {_describe_node(node)}")
            return {}
        start = f"{path}." if path and strict else ""
        for key, place, line in duplicate_keys(node) if strict else ():
            self._report(place, f"{start}{key}", f"duplicate key, first set in line {line}")
        values = {}
        for key, place, inner in pairs(node):
            if key in known:
                values[key] = self._typed(inner, f"{start}{key}", known[key])
            elif strict:
                self._report(place, f"{start}{key}", f"unknown key{hint(key, known)}")
        return {key: value for key, value in values.items() if value is not None}

    def _typed(self, node: yaml.Node, path: str, expected: type) -> Any:  # noqa: ANN401 - JSON
        try:
            value = plain(node)
        except ValueError as error:
            self._report(node, path, str(error))
            return None
        if type(value) is expected or value is None:
            return value
        self._report(node, path, f"expected {_TYPE_NAMES[expected]}, got {describe(value)}")
        return None

    def _report(self, node: yaml.Node, path: str, sentence: str) -> None:
        self.problems.append(f"{self.file}:{place_of(node)}: {path}: {sentence}")


def _at(node: yaml.Node, key: str) -> yaml.Node:
    """The value of a key, or the node itself if the key is missing."""
    values = (value for name, _, value in pairs(node) if name == key) if isinstance(node, yaml.MappingNode) else ()
    return next(iter(values), node)


def _items(node: yaml.Node, key: str) -> list[yaml.Node]:
    value = _at(node, key)
    return list(value.value) if isinstance(value, yaml.SequenceNode) else []


def _describe_node(node: yaml.Node) -> str:
    return "a list" if isinstance(node, yaml.SequenceNode) else describe(node.value)


def _managed() -> frozenset[str]:
    """Return every resource that Linkwise schedules."""
    return frozenset(name for names in managed_resources().values() for name in names)
