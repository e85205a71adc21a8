"""Options and arguments shared by the commands that talk to a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from linkwise.cli.options.completion import complete_namespaces, kubeconfig_contexts

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = TypeVar("Function", bound=Callable[..., Any])

__all__ = [
    "EXIT_CODES",
    "cluster_flags",
    "namespace_flag",
    "service_flag",
]

EXIT_CODES: Final = """Exit codes: 0 success; 1 the cluster can't be reached, permission denied, or not found; 2 invalid
arguments."""


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
