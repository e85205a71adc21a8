"""Options and arguments shared by the commands that talk to a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Function = TypeVar("Function", bound=Callable[..., Any])

__all__ = ["EXIT_CODES", "cluster_flags", "kind_and_name", "namespace_flag", "service_flag"]

EXIT_CODES: Final = """Exit codes: 0 success; 1 the cluster can't be reached, permission denied, or not found; 2 invalid
arguments."""

_ALIASES: Final = {
    "no": "node",
    "po": "pod",
    "dev": "device",
    "pg": "group",
    "podgroup": "group",
    "policie": "policy",
    "acceleratorpolicy": "policy",
    "acceleratorpolicie": "policy",
    "accpol": "policy",
}
"""short names, as in kubectl"""


def cluster_flags(function: Function) -> Function:
    """Add --kubeconfig and --context."""
    for flag in (
        click.option("--context", metavar="NAME", help="Kubeconfig context. [default: the current context]"),
        click.option(
            "--kubeconfig",
            type=click.Path(path_type=Path),
            help="Kubeconfig file. [default: $KUBECONFIG, ~/.kube/config, or the pod's service account]",
        ),
    ):
        function = flag(function)
    return function


def service_flag(function: Function) -> Function:
    """Add --service."""
    return click.option(
        "--service",
        metavar="ADDRESS",
        help="Ask the service there: a URL, such as that of a port-forward, or NAMESPACE/NAME:PORT of its Service. "
        "[default: linkwise-system/linkwise:39999, if your rights do not cover the cluster]",
    )(function)


def namespace_flag(function: Function) -> Function:
    """Add --namespace."""
    return click.option("-n", "--namespace", metavar="NS", help="Namespace. [default: that of the context]")(function)


def kind_and_name(arguments: Sequence[str], kinds: Sequence[str], *, name_required: bool = True) -> tuple[str, str]:
    """Parse `pod/x`, `pod x` or, unless the name is required, `pods`; InputError lists the valid kinds."""
    known = " or ".join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))
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
    kind = _kind(kind, kinds, known, name_missing=name_required and not name)
    if (slash or name_required) and not name:
        raise InputError(f"name of the {kind} required: {kind}/NAME")
    return kind, name


def _kind(text: str, kinds: Sequence[str], known: str, *, name_missing: bool) -> str:
    word = text.lower()
    kind = next((kind for kind in kinds if word in {kind, f"{kind}s"}), _ALIASES.get(word.removesuffix("s"), ""))
    if kind in kinds:
        return kind
    from difflib import get_close_matches  # noqa: PLC0415 - only needed for a typo

    near = get_close_matches(word, kinds, n=1)
    if near:
        raise InputError(f'unknown resource type "{text}"; did you mean {near[0]}?')
    hint = f"; for a {kinds[0]} of that name use {kinds[0]}/{text}" if name_missing else ""
    raise InputError(f'unknown resource type "{text}"; use {known}{hint}')
