"""Completion of kinds and names, from the cluster of the command line that is being completed.

It is quiet: a cluster that can't be reached, or does not answer in time, completes nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import click

__all__ = [
    "DIRECTIVES",
    "complete_files",
    "complete_namespaces",
    "complete_objects",
    "complete_served",
    "kubeconfig_contexts",
]


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

        given = context.params.get("kubeconfig") or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config"
        files = [Path(part) for part in str(given).split(os.pathsep) if part]
        documents = [yaml.safe_load(file.read_text()) for file in files if file.is_file()]
        return [str(entry["name"]) for document in documents for entry in (document or {}).get("contexts") or ()]

    return _items(name for name in _quietly(contexts) if name.startswith(text))


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


def _by_short_name(kinds: Sequence[str], text: str) -> list[str]:
    """A word that is a kind already, such as `po`, is complete."""
    return [text] if text and _resource(text, kinds, default="") else []


def _resource(word: str, kinds: Sequence[str], default: str | None = None) -> str:
    """The resource whose names complete a kind."""
    if not kinds:
        return word
    from linkwise.cli.options.kinds import kinds_and_names  # noqa: PLC0415 - imported by this package
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


def _names(resource: str, params: dict[str, Any]) -> list[str]:
    from linkwise.kube.client.delete import names_of  # noqa: PLC0415 - imports the client
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
