"""Kinds and names as arguments, in the forms of kubectl, and their completion from the cluster.

Completion is quiet: a cluster that can't be reached, or does not answer in time, completes nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from click.shell_completion import CompletionItem

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import click

__all__ = [
    "DIRECTIVES",
    "WORKLOADS",
    "Named",
    "Target",
    "complete_files",
    "complete_namespaces",
    "complete_objects",
    "complete_served",
    "kind_and_name",
    "kinds_and_names",
    "kubeconfig_contexts",
    "targets_of",
]

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
DIRECTIVES: Final = {"": 4, "slash": 4 | 2, "file": 0, "dir": 16}
"""what cobra's shell scripts do with completions, by their kind: 4 no files, 2 no space behind, 0 files, 16 folders"""
SECONDS: Final = 2.0
"""after which nothing is completed; a shell that hangs is worse"""
_PLURALS: Final = {"policy": "policies", "usage": "usage", "capacity": "capacity"}
_RESOURCES: Final = {
    "node": "nodes",
    "device": "nodes",
    "pod": "pods",
    "policy": "acceleratorpolicies.linkwise.dev",
    "group": "podgroups.scheduling.x-k8s.io",
    "vcjob": "jobs.batch.volcano.sh",
}
"""where names of a kind come from, if not from the kind of that name"""


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
    targets: list[Named] = []
    for argument in arguments:
        word, slash, name = argument.partition("/")
        if not slash or not name:
            raise InputError(f"{argument}: KIND/NAME required, because other arguments have that form")
        kind = _kind(word, kinds, known, name_missing=False)
        if targets and targets[-1].kind == kind:
            targets[-1] = Named(kind, tuple(dict.fromkeys((*targets[-1].names, name))))
        else:
            targets.append(Named(kind, (name,)))
    return tuple(targets)


def complete_objects(kinds: Sequence[str], *, several: bool = False) -> Callable[..., list[CompletionItem]]:
    """Complete KIND, KIND/NAME and KIND NAME; with `several`, more names after the first."""

    def complete(context: click.Context, parameter: click.Parameter, text: str) -> list[CompletionItem]:
        before = [word for word in context.params.get(parameter.name or "") or () if word]
        return _items(_quietly(lambda: _candidates(kinds, before, text, context.params, several=several)))

    return complete


def complete_served(context: click.Context, parameter: click.Parameter, text: str) -> list[CompletionItem]:
    """Complete any kind that the cluster serves, and names of it."""
    before = [word for word in context.params.get(parameter.name or "") or () if word]
    return _items(_quietly(lambda: _candidates((), before, text, context.params, several=True)))


def complete_namespaces(context: click.Context, parameter: click.Parameter, text: str) -> list[CompletionItem]:
    """Complete namespaces."""
    del parameter
    names = _quietly(lambda: _names("namespaces", context.params))
    return _items(name for name in names if name.startswith(text))


def complete_files(context: click.Context, parameter: click.Parameter, text: str) -> list[CompletionItem]:
    """Leave the completion of files to the shell."""
    del context, parameter
    return [CompletionItem(text, type="file")]


def kubeconfig_contexts(context: click.Context, parameter: click.Parameter, text: str) -> list[CompletionItem]:
    """Complete contexts of the kubeconfig."""
    del parameter

    def contexts() -> list[str]:
        import yaml  # noqa: PLC0415 - only needed here

        path = context.params.get("kubeconfig") or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config"
        files = [Path(part) for part in str(path).split(os.pathsep) if part]
        documents = [yaml.safe_load(file.read_text()) for file in files if file.is_file()]
        return [str(entry["name"]) for document in documents for entry in (document or {}).get("contexts") or ()]

    return _items(name for name in _quietly(contexts) if name.startswith(text))


@dataclass(frozen=True, slots=True)
class Target:
    """One object, or all of a kind."""

    kind: str
    """as the user wrote it"""
    name: str = ""
    """empty for those that a selector matches"""


def targets_of(arguments: Sequence[str], *, selected: bool) -> tuple[Target, ...]:
    """Parse `pod x y`, `pod/x job/y` or, with a selector, `pods` or `pods,jobs`; InputError says what is missing."""
    if not arguments:
        raise InputError("objects required: KIND NAME, KIND/NAME, or KIND with -l")
    if any("/" in argument for argument in arguments):
        if selected:
            raise InputError("a name can't be used together with -l or --all")
        pairs = [argument.partition("/") for argument in arguments]
        wrong = next(("".join(pair) for pair in pairs if not (pair[0] and pair[2])), "")
        if wrong:
            raise InputError(f"{wrong}: KIND/NAME required, because other arguments have that form")
        return tuple(dict.fromkeys(Target(kind, name) for kind, _, name in pairs))
    kind, *names = arguments
    if selected and names:
        raise InputError("a name can't be used together with -l or --all")
    if not selected and not names:
        raise InputError(f"name required: {kind} NAME, or {kind} with -l SELECTOR or --all")
    if selected:
        return tuple(Target(word) for word in dict.fromkeys(kind.split(",")) if word)
    return tuple(dict.fromkeys(Target(kind, name) for name in names))


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


def _items(words: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(word) for word in words]


def _quietly(work: Callable[[], list[str]]) -> list[str]:
    try:
        return work()
    except Exception:  # noqa: BLE001 - a traceback in the middle of a command line helps no user
        return []


def _candidates(
    kinds: Sequence[str], before: Sequence[str], text: str, params: dict[str, Any], *, several: bool
) -> list[str]:
    kind, slash, part = text.partition("/")
    if slash:
        return [f"{kind}/{name}" for name in _names(_resource(kind, kinds), params) if name.startswith(part)]
    if not before:
        words = [_PLURALS.get(one, f"{one}s") if several else one for one in kinds] or _kinds(params)
        return [word for word in words if word.startswith(text)] or _by_short_name(kinds, text)
    if "/" in before[0] or (len(before) > 1 and not several):
        return []
    names = _names(_resource(before[0], kinds), params)
    return [name for name in names if name.startswith(text) and name not in before]


def _names(resource: str, params: dict[str, Any]) -> list[str]:
    from linkwise.kube.client.objects import names_of  # noqa: PLC0415 - imports the client
    from linkwise.kube.client.resources import find_kind  # noqa: PLC0415 - same

    async def work(connection: Any) -> list[str]:  # noqa: ANN401 - a connection
        kind = await find_kind(connection, resource)
        namespace = (params.get("namespace") or connection.namespace) if kind.namespaced else ""
        return await names_of(connection, kind, namespace, "")

    return _ask(params, work) if resource else []


def _ask(params: dict[str, Any], work: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - what the work returns
    """Do something with the cluster of the command line, for a short time."""
    import asyncio  # noqa: PLC0415 - only needed here
    import logging  # noqa: PLC0415 - same

    from linkwise.kube.client.api import connect  # noqa: PLC0415 - imports the client

    logging.disable(logging.CRITICAL)
    kubeconfig = params.get("kubeconfig")

    async def limited() -> Any:  # noqa: ANN401 - what the work returns
        connection = connect(Path(kubeconfig) if kubeconfig else None, params.get("context"))
        try:
            async with asyncio.timeout(SECONDS):
                return await work(connection)
        finally:
            await connection.close()

    return asyncio.run(limited())


def _resource(word: str, kinds: Sequence[str], default: str | None = None) -> str:
    """The resource whose names complete a kind."""
    if not kinds:
        return word
    from linkwise.errors import InputError  # noqa: PLC0415 - same

    try:
        (named,) = kinds_and_names((word,), kinds)
    except (InputError, ValueError):
        return word if default is None else default
    return "" if named.kind in {"usage", "capacity"} else _RESOURCES.get(named.kind, named.kind)


def _kinds(params: dict[str, Any]) -> list[str]:
    from linkwise.kube.client.resources import served_kinds  # noqa: PLC0415 - imports the client

    served = _ask(params, served_kinds)
    return sorted({one.kind.plural for one in served if "list" in one.verbs})


def _by_short_name(kinds: Sequence[str], text: str) -> list[str]:
    """A word that is a kind already, such as `po`, is complete."""
    return [text] if text and _resource(text, kinds, default="") else []
