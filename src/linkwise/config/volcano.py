"""Volcano's scheduler configuration with Linkwise as its extender: printed, or converted from one with Huawei's plugin.

A configuration is edited in place, so that actions, tiers, other plugins, their arguments and comments stay as they are. A
file in flow style (JSON) is rewritten. Two forms are read: the configuration itself, and a ConfigMap that contains it.

Source: seed 003, Affinity Plugin Deployment; the extender plugin of Volcano 1.6 to 1.16.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import yaml

from linkwise.config.scheduler_config import DEFAULT_URL
from linkwise.config.schema import refusal
from linkwise.config.yaml_documents import (
    comment_lines,
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
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = [
    "ACTIONS",
    "ALLOCATE",
    "ALLOCATE_ARGUMENTS",
    "CONFIG_MAP",
    "ERROR_CACHE",
    "ERROR_CACHE_NOTE",
    "EXTENDER",
    "KEY",
    "NAMESPACE",
    "Mode",
    "VolcanoFile",
    "config_map_yaml",
    "convert_conf",
    "extender_plugin",
    "scheduler_conf",
]

Mode = Literal["gated", "extender"]

EXTENDER: Final = "extender"
"""name of Volcano's plugin that calls an extender"""
ACTIONS: Final = "enqueue, allocate, backfill"
CONFIG_MAP: Final = "volcano-scheduler-configmap"
NAMESPACE: Final = "volcano-system"
KEY: Final = "volcano-scheduler.conf"
PREFIX: Final = "/volcano"
"""path of the routes of Linkwise for Volcano"""
OLDEST: Final = (1, 6)
BOOKING: Final = (1, 13)
"""first version with allocate and deallocate verbs and managedResources, and that skips gated pods"""

_TIERS: Final = (
    ("priority", "gang", "conformance"),
    ("overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"),
)
"""the plugins of Volcano's own default"""
_UNPREEMPTABLE: Final = frozenset({"gang", "drf"})
"""plugins whose preemptable function Volcano's own default disables"""

_VERBS: Final[Mapping[Mode, tuple[str, ...]]] = {
    # prioritize is called only if more than one node is left: not for a pod that is pinned to its node.
    "gated": ("predicate", "prioritize", "jobEnqueueable", "allocateFunc", "deallocateFunc"),
    "extender": (
        *("predicate", "prioritize", "preemptable", "reclaimable"),
        *("jobEnqueueable", "allocateFunc", "deallocateFunc"),
    ),
}
ALLOCATE: Final = "allocate"
"""name of the action that places pods, and of its arguments in `configurations`"""
ERROR_CACHE: Final = "predicateErrorCacheEnable"
ERROR_CACHE_NOTE: Final = (
    "Linkwise plans a node for each pod of a job. With its error cache, Volcano would skip for all pods of a task the "
    "nodes that did not fit the first one, and no job of several pods would start."
)
ALLOCATE_ARGUMENTS: Final[Mapping[str, Any]] = {"name": ALLOCATE, "arguments": {ERROR_CACHE: False}}
"""entry of `configurations`"""
_SINCE: Final[Mapping[str, tuple[int, int]]] = {"allocateFunc": BOOKING, "deallocateFunc": BOOKING}
_TIMEOUT: Final[Mapping[Mode, str]] = {"gated": "1s", "extender": "5s"}

_HEAD: Final[Mapping[Mode, str]] = {
    "gated": (
        "Gated mode: Linkwise assigns node and devices while a pod is gated, and Volcano binds it there. It needs the "
        "admission webhook of Linkwise."
    ),
    "extender": (
        "Extender-only mode: Volcano asks Linkwise about every node. Run its scheduler with "
        "--percentage-nodes-to-find=100, or it samples the nodes of clusters of more than 100 and may miss the best one."
    ),
}
_TIMEOUT_NOTE: Final[Mapping[Mode, str]] = {
    "gated": "One small request per pod.",
    "extender": "The prioritize request contains all feasible nodes with their pods; Volcano's default is 1s.",
}
_IGNORABLE_NOTE: Final = "Never true: while Linkwise is down, Volcano would place pods without devices."
_MANAGED_NOTE: Final = (
    "Only pods that request one of these are sent to Linkwise. It must be a list: any other type ends the scheduler."
)
_VERBS_NOTE: Final = (
    "onSessionOpenVerb stays unset: if that call failed, Volcano would place pods without Linkwise in that cycle. "
    "jobReadyVerb stays unset: while Linkwise is down, every job would count as ready."
)
_OLD_NOTE: Final = (
    "Volcano {version} has no managedResources and no allocate and deallocate verbs (since 1.13): every pod is sent to "
    "Linkwise, and devices are assigned when the bound pod is observed."
)
# rule 003.config: topology910 is the seed's name of the plugin, volcano-npu_VERSION_PLATFORM that of Huawei's later releases.
_REPLACED: Final = re.compile(r"topology910|volcano-npu([-_].*)?")
_VOTERS: Final = frozenset({"overcommit", "proportion", "capacity", "sla", "resourcequota"})
"""plugins that vote on enqueueing a job; a vote to admit it in one tier ends the vote"""
_NO_ACTIONS: Final = "Added: the file had no actions, which Volcano needs; these are its defaults."
_NO_ENQUEUE: Final = (
    "The actions have no enqueue, so Volcano does not ask Linkwise about job shapes: invalid jobs are refused by the "
    "admission webhook, otherwise their pods stay pending."
)


@dataclass(frozen=True, slots=True)
class VolcanoFile:
    """Options of the file."""

    mode: Mode = "gated"
    url: str = DEFAULT_URL
    version: tuple[int, int] = (1, 14)
    name: str = CONFIG_MAP
    namespace: str = NAMESPACE

    def __post_init__(self) -> None:
        """Refuse a version without what the mode needs."""
        if self.version < OLDEST:
            raise InputError(
                f"--volcano-version: {self.release} has no extender plugin that is supported; use 1.6 or later"
            )
        if self.mode == "gated" and self.version < BOOKING:
            raise InputError(
                f"--volcano-version: gated mode needs Volcano 1.13 or later, which skips gated pods, got {self.release}; "
                "use --mode extender"
            )

    @property
    def release(self) -> str:
        """The version as text, such as 1.14."""
        return ".".join(map(str, self.version))

    @property
    def head(self) -> str:
        """Comment on the complete file."""
        return _HEAD[self.mode]


def scheduler_conf(wanted: VolcanoFile) -> str:
    """The file as YAML text: Volcano's own default with the extender in the last tier."""
    tiers: list[dict[str, Any]] = [{"plugins": [_plugin(name) for name in names]} for names in _TIERS]
    plugin, notes = extender_plugin(wanted)
    path = f"tiers[{len(tiers) - 1}].plugins[{len(tiers[-1]['plugins'])}]"
    tiers[-1]["plugins"].append(plugin)
    comments = {f"{path}.{key}" if key else path: text for key, text in notes.items()}
    document = {"actions": ACTIONS, "tiers": tiers, "configurations": [ALLOCATE_ARGUMENTS]}
    comments["configurations[0].arguments"] = ERROR_CACHE_NOTE
    return yaml_with_comments(document, comments, wanted.head)


def config_map_yaml(conf: str, wanted: VolcanoFile) -> str:
    """A ConfigMap with the file in it, for kubectl apply."""
    lines = [
        "apiVersion: v1",
        "kind: ConfigMap",
        "metadata:",
        f"  name: {wanted.name}",
        f"  namespace: {wanted.namespace}",
        "data:",
        f"  {KEY}: |",
        *(f"    {line}".rstrip() for line in conf.splitlines()),
    ]
    return "\n".join(lines) + "\n"


def extender_plugin(wanted: VolcanoFile) -> tuple[dict[str, Any], dict[str, str]]:
    """The extender as an entry of `plugins`, with comments by path in it."""
    url = wanted.url.rstrip("/")
    arguments: dict[str, Any] = {
        "extender.urlPrefix": url if url.endswith(PREFIX) else url + PREFIX,
        "extender.httpTimeout": _TIMEOUT[wanted.mode],
        "extender.ignorable": False,
    }
    verbs = [verb for verb in _VERBS[wanted.mode] if wanted.version >= _SINCE.get(verb, OLDEST)]
    arguments |= {f"extender.{verb}Verb": verb for verb in verbs}
    notes = {
        "arguments.extender.httpTimeout": _TIMEOUT_NOTE[wanted.mode],
        "arguments.extender.ignorable": _IGNORABLE_NOTE,
        "arguments.extender.predicateVerb": _VERBS_NOTE,
    }
    if wanted.version < BOOKING:
        return {"name": EXTENDER, "arguments": arguments}, {**notes, "": _OLD_NOTE.format(version=wanted.release)}
    # rule 003.config: a list, since Volcano ends with any other type.
    resources = [name for names in managed_resources().values() for name in names if not is_native(name)]
    arguments["extender.managedResources"] = resources
    return {"name": EXTENDER, "arguments": arguments}, {**notes, "arguments.extender.managedResources": _MANAGED_NOTE}


@dataclass(slots=True)
class _Conf:
    """A configuration, as lines of the file that contains it."""

    name: str
    """of the file, for messages"""
    lines: list[str]
    """lines of the file up to the end of the configuration; those before it are empty"""
    first: int = 0
    """index of the first line of the configuration"""
    problems: list[str] = field(default_factory=list)

    def report(self, node: yaml.Node, path: str, sentence: str) -> None:
        """Keep a problem with its place."""
        self.problems.append(f"{self.name}:{place_of(node)}: {path}: {sentence}")


@dataclass(frozen=True, slots=True)
class _Plugin:
    """One entry of `plugins`."""

    tier: int
    node: yaml.Node
    name: str


def convert_conf(file: Path, wanted: VolcanoFile, *, config_map: bool = False) -> str:
    """The converted file in its original form; InputError lists every problem with its location.

    Args:
        file: a configuration, or a ConfigMap with one; `-` is standard input
        wanted: options of the extender
        config_map: print a ConfigMap also if the file is a configuration
    """
    name = "standard input" if str(file) == "-" else str(file)
    content = content_of(file)
    root = root_of(content, name)
    if root is None:
        raise InputError(f"{name}: the file is empty")
    lines = content.decode("utf-8-sig").splitlines()
    if not isinstance(root, yaml.MappingNode):
        raise InputError(f"{name}:{place_of(root)}: expected a scheduler configuration with tiers, or a ConfigMap")
    if "tiers" in _keys(root):
        new = "\n".join(_convert(_Conf(name, lines), wanted)) + "\n"
        return config_map_yaml(new, wanted) if config_map else new
    return _convert_config_map(name, lines, root, wanted)


def _plugin(name: str) -> dict[str, Any]:
    return {"name": name, "enablePreemptable": False} if name in _UNPREEMPTABLE else {"name": name}


def _keys(node: yaml.MappingNode) -> dict[str, yaml.Node]:
    return {name: value for name, _, value in pairs(node)}


def _convert(conf: _Conf, wanted: VolcanoFile) -> list[str]:
    """The lines of a configuration, without those before it."""
    root = root_of("\n".join(conf.lines).encode(), conf.name)
    if not isinstance(root, yaml.MappingNode):
        raise InputError(f"{conf.name}:{conf.first + 1}:1: expected a scheduler configuration with tiers")
    tiers = _tiers(conf, root)
    plugins = [plugin for number, tier in enumerate(tiers) for plugin in _plugins(conf, number, tier)]
    actions = _actions(conf, root)
    for plugin in plugins:
        if plugin.name == EXTENDER:
            conf.report(plugin.node, f"tiers[{plugin.tier}].plugins", _another(plugin.node))
    cached = _caches_errors(conf, root)
    if conf.problems:
        raise refusal(conf.problems)
    old = [plugin for plugin in plugins if _REPLACED.fullmatch(plugin.name)]
    head = "\n".join(_head(plugins, old, actions, len(tiers), wanted))
    edited = _edited(conf, root, tiers, old, wanted) if not cached or _can_append(conf, root) else None
    if edited is None:
        return _rewritten(conf, root, old, wanted, head)
    edited += _appended(conf, root) if cached else []
    lines, indent = edited[conf.first :], " " * root.start_mark.column
    added = [*comment_lines(_NO_ACTIONS, indent), f'{indent}actions: "{ACTIONS}"'] if not actions else []
    at = root.start_mark.line - conf.first
    return [*comment_lines(head, indent), *lines[:at], *added, *lines[at:]]


def _tiers(conf: _Conf, root: yaml.MappingNode) -> list[yaml.Node]:
    for key, place, line in duplicate_keys(root):
        conf.report(place, key, f"duplicate key, first set in line {line}")
    tiers = _keys(root).get("tiers")
    if isinstance(tiers, yaml.SequenceNode) and tiers.value:
        return list(tiers.value)
    conf.report(tiers or root, "tiers", "expected a list of tiers, each with plugins")
    return []


def _plugins(conf: _Conf, number: int, tier: yaml.Node) -> Iterator[_Plugin]:
    path = f"tiers[{number}].plugins"
    plugins = _keys(tier).get("plugins") if isinstance(tier, yaml.MappingNode) else None
    if not isinstance(plugins, yaml.SequenceNode):
        conf.report(plugins or tier, path, "expected a list of plugins")
        return
    for index, item in enumerate(plugins.value):
        name = _keys(item).get("name") if isinstance(item, yaml.MappingNode) else None
        if isinstance(name, yaml.ScalarNode) and name.value:
            yield _Plugin(number, item, name.value)
        else:
            conf.report(item, f"{path}[{index}].name", "required field is missing")


def _actions(conf: _Conf, root: yaml.MappingNode) -> str:
    """The actions; empty if the file has none."""
    node = _keys(root).get("actions")
    if node is None:
        return ""
    if not isinstance(node, yaml.ScalarNode) or is_null(node) or not node.value.strip():
        conf.report(node, "actions", f'expected text, such as "{ACTIONS}"')
        return ""
    return str(node.value)


def _another(node: yaml.Node) -> str:
    arguments = _keys(node).get("arguments") if isinstance(node, yaml.MappingNode) else None
    url = _keys(arguments).get("extender.urlPrefix") if isinstance(arguments, yaml.MappingNode) else None
    where = f" at {url.value}" if isinstance(url, yaml.ScalarNode) else ""
    return (
        f"there already is an extender{where}, and Volcano supports only one; remove this plugin and run the command "
        "again, or keep it and use Linkwise through kube-scheduler"
    )


def _caches_errors(conf: _Conf, root: yaml.MappingNode) -> bool:
    """Whether the action allocate would cache errors, which is so by default; one that is enabled in the file is reported."""
    configurations = _keys(root).get("configurations")
    for item in configurations.value if isinstance(configurations, yaml.SequenceNode) else ():
        keys = _keys(item) if isinstance(item, yaml.MappingNode) else {}
        arguments = keys.get("arguments")
        if "name" not in keys or keys["name"].value != ALLOCATE or not isinstance(arguments, yaml.MappingNode):
            continue
        value = _keys(arguments).get(ERROR_CACHE)
        if value is not None and str(value.value).lower() == "false":
            return False
        conf.report(
            value or arguments,
            f"configurations.{ALLOCATE}",
            f"Linkwise needs {ERROR_CACHE}: false here; set it and run the command again",
        )
    return True


def _head(
    plugins: Sequence[_Plugin], old: Sequence[_Plugin], actions: str, tiers: int, wanted: VolcanoFile
) -> Iterator[str]:
    """Paragraphs of the comment at the top."""
    names = ", ".join(dict.fromkeys(plugin.name for plugin in old))
    change = f"{names} is replaced by extender" if old else "extender is added"
    yield f"Converted: {change} in the last tier, by which Volcano calls Linkwise. All else is unchanged."
    yield wanted.head
    if actions and "enqueue" not in [action.strip() for action in actions.split(",")]:
        yield _NO_ENQUEUE
    earlier = [plugin for plugin in plugins if plugin.name in _VOTERS and plugin.tier < tiers - 1]
    if earlier:
        yield (
            f"{', '.join(plugin.name for plugin in earlier)} in an earlier tier may admit a job before Linkwise is asked "
            "about its shape: the admission webhook refuses invalid jobs, otherwise their pods stay pending."
        )


def _edited(
    conf: _Conf, root: yaml.MappingNode, tiers: Sequence[yaml.Node], old: Sequence[_Plugin], wanted: VolcanoFile
) -> list[str] | None:
    """The lines with the plugins replaced; None if the file is not written in lines."""
    last = _items(tiers[-1])
    if root.flow_style or not last or not all(_dash(conf, item) for tier in tiers for item in _items(tier)):
        return None
    removed = {id(plugin.node) for plugin in old}
    lines: list[str | None] = list(conf.lines)
    for plugin in old:
        for number in range(plugin.node.start_mark.line, _last_line(plugin.node) + 1):
            lines[number] = None
    for tier in tiers[:-1]:
        if all(id(item) in removed for item in _items(tier)):
            key = next(place for name, place, _ in pairs(tier) if name == "plugins")  # type: ignore[arg-type]
            number = key.start_mark.line
            lines[number] = re.sub(r"plugins:", "plugins: []", conf.lines[number], count=1)
    indent = " " * (len(_dash(conf, last[-1])) - 1)
    at = _last_line(last[-1]) + 1
    new = [*lines[:at], *(f"{indent}{line}" for line in _extender_lines(wanted)), *lines[at:]]
    return [line for line in new if line is not None]


def _items(tier: yaml.Node) -> list[yaml.Node]:
    plugins = _keys(tier).get("plugins") if isinstance(tier, yaml.MappingNode) else None
    return list(plugins.value) if isinstance(plugins, yaml.SequenceNode) else []


def _dash(conf: _Conf, item: yaml.Node) -> str:
    """The line of an item up to its dash; empty if the dash is elsewhere."""
    before = conf.lines[item.start_mark.line][: item.start_mark.column].rstrip()
    return before if before.strip() == "-" else ""


def _last_line(node: yaml.Node) -> int:
    """The last line of a node; the end mark of a block is behind the comments that follow."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return max(_last_line(part) for pair in node.value for part in pair)
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
        return max(_last_line(item) for item in node.value)
    block = isinstance(node, yaml.ScalarNode) and node.style in {"|", ">"}
    return int(node.end_mark.line) - 1 if block else int(node.end_mark.line)


def _extender_lines(wanted: VolcanoFile) -> list[str]:
    plugin, notes = extender_plugin(wanted)
    comments = {f"plugins[0].{key}" if key else "plugins[0]": text for key, text in notes.items()}
    text = yaml_with_comments({"plugins": [plugin]}, comments)
    return [line.removeprefix("  ") for line in text.splitlines()[1:]]


def _can_append(conf: _Conf, root: yaml.MappingNode) -> bool:
    """Whether `configurations` is missing, or a list in lines at the end of the file."""
    configurations = _keys(root).get("configurations")
    if configurations is None:
        return True
    items = configurations.value if isinstance(configurations, yaml.SequenceNode) else []
    return (
        bool(items)
        and all(_dash(conf, item) for item in items)
        and _keys(root)[root.value[-1][0].value] is configurations
    )


def _rewritten(
    conf: _Conf, root: yaml.MappingNode, old: Sequence[_Plugin], wanted: VolcanoFile, head: str
) -> list[str]:
    """The configuration as block YAML."""
    try:
        document: Any = plain(root)
    except ValueError as error:
        raise InputError(f"{conf.name}:{place_of(root)}: {error}") from error
    replaced = {plugin.name for plugin in old}
    for tier in document["tiers"]:
        tier["plugins"] = [plugin for plugin in tier["plugins"] if plugin["name"] not in replaced]
    plugin, notes = extender_plugin(wanted)
    path = f"tiers[{len(document['tiers']) - 1}].plugins[{len(document['tiers'][-1]['plugins'])}]"
    document["tiers"][-1]["plugins"].append(plugin)
    comments = {f"{path}.{key}" if key else path: text for key, text in notes.items()}
    others = [entry for entry in document.get("configurations") or [] if entry.get("name") != ALLOCATE]
    document["configurations"] = [*others, ALLOCATE_ARGUMENTS]
    comments[f"configurations[{len(others)}].arguments"] = ERROR_CACHE_NOTE
    if "actions" not in document:
        document = {"actions": ACTIONS, **document}
        comments["actions"] = _NO_ACTIONS
    indent = " " * root.start_mark.column if not root.flow_style else ""
    return [indent + line for line in yaml_with_comments(document, comments, head).splitlines()]


def _appended(conf: _Conf, root: yaml.MappingNode) -> list[str]:
    """The last lines: the arguments of the action allocate."""
    configurations = _keys(root).get("configurations")
    indent = (
        " " * root.start_mark.column
        if configurations is None
        else " " * (len(_dash(conf, configurations.value[0])) - 1)
    )
    text = yaml_with_comments(
        {"configurations": [ALLOCATE_ARGUMENTS]}, {"configurations[0].arguments": ERROR_CACHE_NOTE}
    )
    head, *rest = text.splitlines()
    if configurations is None:
        return [indent + line for line in (head, *rest)]
    return [indent + line.removeprefix("  ") for line in rest]


def _convert_config_map(name: str, lines: Sequence[str], root: yaml.MappingNode, wanted: VolcanoFile) -> str:
    """The ConfigMap with its configuration replaced."""
    key, scalar = _conf_of(name, root)
    start, end = scalar.start_mark, scalar.end_mark
    if scalar.style == "|":
        first, last = start.line + 1, start.line + 1 + len(scalar.value.splitlines())
        # The lines keep their indentation and their numbers, so that messages name their place in the file.
        inner = _Conf(name, [""] * first + list(lines[first:last]), first)
        return "\n".join([*lines[:first], *_convert(inner, wanted), *lines[last:]]) + "\n"
    conf = _Conf(f"{name}:{place_of(scalar)}: {key}", str(scalar.value).splitlines())
    new = [line.rstrip() for line in _convert(conf, wanted)]
    before, after = lines[start.line][: start.column], lines[end.line][end.column :] if end.line < len(lines) else ""
    if root.flow_style:
        text = json.dumps("\n".join([*new, ""]))
        return "\n".join([*lines[: start.line], before + text + after, *lines[end.line + 1 :]]) + "\n"
    indent = " " * (len(before) - len(before.lstrip()) + 2)
    # Folded scalars end before the line of their end mark.
    rest = lines[end.line + 1 :] if scalar.style != ">" else lines[end.line :]
    return "\n".join([*lines[: start.line], f"{before}|", *(indent + line for line in new), *rest]) + "\n"


def _conf_of(name: str, root: yaml.MappingNode) -> tuple[str, yaml.ScalarNode]:
    """The key and the text of the configuration in a ConfigMap."""
    keys = _keys(root)
    kind = keys["kind"].value if "kind" in keys else ""
    if kind != "ConfigMap":
        raise InputError(f"{name}:{place_of(root)}: expected a scheduler configuration with tiers, or a ConfigMap")
    data = keys.get("data")
    found = {
        key: value
        for key, value in (_keys(data) if isinstance(data, yaml.MappingNode) else {}).items()
        if key.endswith(".conf") and isinstance(value, yaml.ScalarNode)
    }
    if len(found) > 1 and KEY in found:
        found = {KEY: found[KEY]}
    if len(found) != 1:
        raise InputError(f"{name}:{place_of(data or root)}: data: expected one scheduler configuration, such as {KEY}")
    ((key, scalar),) = found.items()
    return key, scalar
