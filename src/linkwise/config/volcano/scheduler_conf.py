"""Configuration of Volcano's scheduler (volcano-scheduler.conf) with Linkwise as its extender, with explanatory comments.

Source: seed 003, Affinity Plugin Deployment; the extender plugin of Volcano 1.6 to 1.16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from linkwise.config.scheduler_config import DEFAULT_URL
from linkwise.config.yaml_comments import yaml_with_comments
from linkwise.dialects.registry import is_native, managed_resources
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def _plugin(name: str) -> dict[str, Any]:
    return {"name": name, "enablePreemptable": False} if name in _UNPREEMPTABLE else {"name": name}
