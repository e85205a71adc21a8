"""Flags and words that commands about a cluster share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Function = TypeVar("Function", bound=Callable[..., Any])

__all__ = ["EXIT_CODES", "NotThereError", "cluster_flags", "kind_and_name", "namespace_flag"]

EXIT_CODES: Final = """Exit codes: 0 done; 1 the cluster can't be reached, does not allow it, or has no such thing; 2 the
words make no sense."""

_KINDS: Final = {
    "no": "node",
    "po": "pod",
    "dev": "device",
    "pg": "group",
    "podgroup": "group",
}
"""other words for a kind, as kubectl's short names"""


class NotThereError(click.ClickException):
    """The cluster has no such thing; the command ends with 1."""

    def show(self, file: Any = None) -> None:  # noqa: ANN401 - as click has it
        """One sentence, as of every mistake."""
        click.echo(f"linkwise: {self.message}", file=file, err=file is None)


def cluster_flags(function: Function) -> Function:
    """Which cluster is meant."""
    for flag in (
        click.option("--context", metavar="NAME", help="The context of the kubeconfig; its current one if not given."),
        click.option(
            "--kubeconfig",
            type=click.Path(path_type=Path),
            help="The file that names the cluster; else $KUBECONFIG, ~/.kube/config, or the pod's own account.",
        ),
    ):
        function = flag(function)
    return function


def namespace_flag(function: Function) -> Function:
    """Whose pods are meant."""
    return click.option("-n", "--namespace", metavar="NS", help="The namespace; that of the context if not given.")(
        function
    )


def kind_and_name(words: Sequence[str], kinds: Sequence[str], *, whole: bool = True) -> tuple[str, str]:
    """`pod/x`, `pod x` or, if `whole` is not wanted, `pods` alone; InputError says what may be asked for."""
    known = f"{', '.join(kinds[:-1])} or {kinds[-1]}"
    if not words:
        raise InputError(f"name what you ask for: {known}, such as {kinds[0]}/NAME")
    kind, slash, name = words[0].partition("/")
    rest = list(words[1:])
    if slash and rest:
        raise InputError(f"{words[0]} {rest[0]}: one thing at a time, please")
    if not slash and rest:
        name = rest.pop(0)
    if rest:
        raise InputError(f"{rest[0]}: one thing at a time, please")
    kind = _kind(kind, kinds, known, alone=whole and not name)
    if (slash or whole) and not name:
        raise InputError(f"which {kind}? Write {kind}/NAME")
    return kind, name


def _kind(given: str, kinds: Sequence[str], known: str, *, alone: bool) -> str:
    word = given.lower()
    found = next((kind for kind in kinds if word in {kind, f"{kind}s"}), _KINDS.get(word.removesuffix("s"), ""))
    if found in kinds:
        return found
    from difflib import get_close_matches  # noqa: PLC0415 - only a typing mistake needs it

    near = get_close_matches(word, kinds, n=1)
    if near:
        raise InputError(f"{given!r} is no kind of thing: {known}; did you mean {near[0]}?")
    hint = f"; for a {kinds[0]} of that name write {kinds[0]}/{given}" if alone else ""
    raise InputError(f"{given!r} is no kind of thing: {known}{hint}")
