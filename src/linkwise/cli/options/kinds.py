"""Kinds and names as arguments, in the forms of kubectl."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["WORKLOADS", "Named", "kind_and_name", "kinds_and_names"]

_ALIASES: Final = {
    "no": "node",
    "capacitie": "capacity",
    "po": "pod",
    "dev": "device",
    "pg": "group",
    "podgroup": "group",
    "policie": "policy",
    "acceleratorpolicy": "policy",
    "acceleratorpolicie": "policy",
    "accpol": "policy",
    "deploy": "deployment",
    "sts": "statefulset",
    "ds": "daemonset",
    "rs": "replicaset",
    "vj": "vcjob",
    "lws": "leaderworkerset",
    "rc": "replicationcontroller",
    "trainjob": "jobset",
}
"""short names, as in kubectl; a TrainJob creates a JobSet of its name, and its pods name only that"""


WORKLOADS: Final = (
    *("job", "deployment", "statefulset", "daemonset", "replicaset", "replicationcontroller", "vcjob", "jobset"),
    *("leaderworkerset", "pytorchjob", "tfjob", "xgboostjob", "paddlejob", "jaxjob", "mxjob", "mpijob", "raycluster"),
)
"""kinds whose pods can be explained together, as `dialects.groups.workload_names` names them"""


_RUN_BY_OTHERS: Final = {
    "rayjob": "a RayJob runs on a RayCluster, raycluster/NAME with the name in its status.rayClusterName",
    "rayservice": "a RayService runs on a RayCluster, raycluster/NAME with the name in its status.activeServiceStatus.rayClusterName",
    "cronjob": "a CronJob creates Jobs, job/NAME",
}
"""kinds whose pods do not name them"""


@dataclass(frozen=True, slots=True)
class Named:
    """Objects of one kind: those of the names, or all."""

    kind: str
    names: tuple[str, ...] = ()


def kind_and_name(arguments: Sequence[str], kinds: Sequence[str]) -> tuple[str, str]:
    """Parse `pod/x` or `pod x`; InputError lists the valid kinds."""
    known = _known(kinds)
    if not arguments:
        raise InputError(f"resource type required: {known}, for example {kinds[0]}/NAME")
    kind, slash, name = arguments[0].partition("/")
    rest = list(arguments[1:])
    if slash and rest:
        raise InputError(f"{arguments[0]} {rest[0]}: only one object can be given")
    if not slash and rest:
        name = rest.pop(0)
    if rest:
        raise InputError(f"{rest[0]}: only one object can be given")
    kind = _kind(kind, kinds, known, name_missing=not name)
    if not name:
        raise InputError(f"name of the {kind} required: {kind}/NAME")
    return kind, name


def kinds_and_names(arguments: Sequence[str], kinds: Sequence[str]) -> tuple[Named, ...]:
    """Parse `pods`, `pods,nodes`, `pods x y` or `pod/x node/y` as kubectl does; InputError lists the valid kinds."""
    known = _known(kinds)
    if not arguments:
        raise InputError(f"resource type required: {known}")
    first, *names = arguments
    if not any("/" in argument for argument in arguments):
        listed = dict.fromkeys(_kind(word, kinds, known, name_missing=False) for word in first.split(","))
        if names and len(listed) > 1:
            raise InputError(f"{first} {names[0]}: names need one resource type, or KIND/NAME for each")
        return tuple(Named(kind, tuple(dict.fromkeys(names))) for kind in listed)
    found: list[Named] = []
    for argument in arguments:
        word, slash, name = argument.partition("/")
        if not slash or not name:
            raise InputError(f"{argument}: KIND/NAME required, because other arguments have that form")
        kind = _kind(word, kinds, known, name_missing=False)
        if found and found[-1].kind == kind:
            found[-1] = Named(kind, tuple(dict.fromkeys((*found[-1].names, name))))
        else:
            found.append(Named(kind, (name,)))
    return tuple(found)


def _known(kinds: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))


def _kind(text: str, kinds: Sequence[str], known: str, *, name_missing: bool) -> str:
    word = text.lower()
    alias = _ALIASES.get(word) or _ALIASES.get(word.removesuffix("s"), "")
    kind = next((kind for kind in kinds if word in {kind, f"{kind}s"}), alias)
    if kind in kinds:
        return kind
    singular = word.removesuffix("s")
    if singular in _RUN_BY_OTHERS and "raycluster" in kinds:
        raise InputError(f'unknown resource type "{text}": {_RUN_BY_OTHERS[singular]}')
    from difflib import get_close_matches  # noqa: PLC0415 - only needed for a typo

    near = get_close_matches(word, kinds, n=1)
    if near:
        raise InputError(f'unknown resource type "{text}"; did you mean {near[0]}?')
    hint = f"; for a {kinds[0]} of that name use {kinds[0]}/{text}" if name_missing else ""
    raise InputError(f'unknown resource type "{text}"; use {known}{hint}')
