"""Cluster options: arguments of the commands that talk to a cluster, with names of objects validated at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from linkwise.cli.options.kinds import complete_namespaces, kubeconfig_contexts
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = TypeVar("Function", bound=Callable[..., Any])

__all__ = [
    "EXIT_CODES",
    "cluster_flags",
    "name_option",
    "namespace_flag",
    "namespace_name",
    "namespace_option",
    "object_name",
    "service_flag",
]

EXIT_CODES: Final = """Exit codes: 0 success; 1 the cluster can't be reached, permission denied, or not found; 2 invalid
arguments."""
_DEFAULT_NAMESPACE: Final = "linkwise-system"
_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NAMESPACE: Final = re.compile(_LABEL)
_MAX_NAME, _MAX_NAMESPACE = 253, 63  # characters
_Command = TypeVar("_Command", bound="Callable[..., Any]")


def cluster_flags(function: Function) -> Function:
    """Add --kubeconfig and --context."""
    for flag in (
        click.option(
            "--context",
            metavar="NAME",
            help="Kubeconfig context. [default: the current context]",
            shell_complete=kubeconfig_contexts,
        ),
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
        help="Ask the service there: a URL, such as that of a port-forward, or NAMESPACE/NAME:PORT of its Service; "
        "`none` reads the cluster instead. "
        "[default: linkwise-system/linkwise:tenants, and the cluster itself if there is no service]",
    )(function)


def namespace_flag(function: Function) -> Function:
    """Add --namespace."""
    return click.option(
        *("-n", "--namespace"),
        metavar="NS",
        help="Namespace. [default: that of the context]",
        shell_complete=complete_namespaces,
    )(function)


def name_option(default: str, help_text: str) -> Callable[[_Command], _Command]:
    """Add --name; InputError if it is not a valid object name."""
    return click.option("--name", default=default, show_default=True, callback=object_name, help=help_text)


def namespace_option(help_text: str) -> Callable[[_Command], _Command]:
    """Add --namespace; InputError if it is not a valid namespace."""
    return click.option(
        "--namespace", default=_DEFAULT_NAMESPACE, show_default=True, callback=namespace_name, help=help_text
    )


def object_name(context: click.Context, option: click.Parameter, value: str) -> str:
    """The value of an option; InputError if it is not a valid object name."""
    del context
    if len(value) > _MAX_NAME or not _NAME.fullmatch(value):
        raise InputError(
            f"{option.opts[0]}: {value!r} is not a valid object name: use lowercase letters, digits, - and ."
        )
    return value


def namespace_name(context: click.Context, option: click.Parameter, value: str) -> str:
    """The value of an option; InputError if it is not a valid namespace."""
    del context
    if len(value) > _MAX_NAMESPACE or not _NAMESPACE.fullmatch(value):
        raise InputError(f"{option.opts[0]}: {value!r} is not a valid namespace: use lowercase letters, digits and -")
    return value
