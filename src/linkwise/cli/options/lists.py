"""Options of the commands that show objects of a cluster, with the names and meanings of kubectl's; one implementation for all."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from linkwise.cli.options.cluster import cluster_flags, namespace_flag, service_flag
from linkwise.cli.options.io import form_flag
from linkwise.engine.selectors import label_requirements
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from linkwise.model.views import SelectorRequirement

    Function = TypeVar("Function", bound=Callable[..., Any])

__all__ = ["ListFlags", "ObjectFlags", "list_flags", "object_flags"]


@dataclass(frozen=True, slots=True)
class ListFlags:
    """What to list, from where, and how to print it."""

    namespace: str | None
    """None for that of the context"""
    all_namespaces: bool
    selector: str
    form: str | None
    no_headers: bool
    watch: bool
    service: str | None
    kubeconfig: Path | None
    context: str | None

    def __post_init__(self) -> None:
        """Reject options that contradict each other, and invalid selectors."""
        if self.namespace is not None and self.all_namespaces:
            raise InputError("-n and -A can't be used together")
        label_requirements(self.selector)

    @property
    def requirements(self) -> tuple[SelectorRequirement, ...]:
        """The label selector."""
        return label_requirements(self.selector)

    def check_names(self, names: tuple[str, ...]) -> None:
        """Raise InputError if names are given together with an option that selects several objects."""
        if names and (self.selector or self.all_namespaces):
            raise InputError("a name can't be used together with -l or -A")


@dataclass(frozen=True, slots=True)
class ObjectFlags:
    """Where one object is looked up, and how it is printed."""

    namespace: str | None
    """None for that of the context"""
    form: str | None
    service: str | None
    kubeconfig: Path | None
    context: str | None


def list_flags(*forms: str) -> Callable[[Function], Function]:
    """Add the options of a list; the command gets them as one argument, `flags`."""
    return _collected(
        ListFlags,
        namespace_flag,
        click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces."),
        click.option(*("-l", "--selector"), default="", metavar="SELECTOR", help="Labels, such as app=web,tier!=test."),
        form_flag(*forms),
        click.option("--no-headers", is_flag=True, help="Print no headers."),
        click.option("-w", "--watch", is_flag=True, help="Print changes too, until Ctrl-C."),
        service_flag,
        cluster_flags,
    )


def object_flags(*forms: str) -> Callable[[Function], Function]:
    """Add the options of a command that shows one object; the command gets them as one argument, `flags`."""
    return _collected(ObjectFlags, namespace_flag, form_flag(*forms), service_flag, cluster_flags)


def _collected(kind: type[ListFlags | ObjectFlags], *options: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """Add options, and pass their values to the command as one value of that kind."""

    def decorate(function: Function) -> Function:
        @wraps(function)
        def collected(**values: Any) -> Any:  # noqa: ANN401 - what click passes
            own = {field.name: values.pop(field.name) for field in fields(kind)}
            return function(flags=kind(**own), **values)

        command: Any = collected
        for option in reversed(options):  # the one that is applied last stands first in the help
            command = option(command)
        decorated: Function = command
        return decorated

    return decorate
