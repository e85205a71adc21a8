"""Body of `linkwise get` and `linkwise top`: prints tables; a watch goes on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NoReturn

import click

from linkwise.assembly.cluster_reader import read_cluster
from linkwise.cli.render.rows import Printer
from linkwise.cli.reports.answers import NO_SERVICE, answers_of, sections_of
from linkwise.errors import ClusterError
from linkwise.kube.errors import ForbiddenError
from linkwise.views.table import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from linkwise.assembly.service_client import Detail
    from linkwise.cli.options.kinds import Named
    from linkwise.cli.options.lists import ListFlags
    from linkwise.views.cluster import ClusterView
    from linkwise.views.table import Section

__all__ = ["list_objects"]

_DETAILS: Final[Mapping[str, Detail]] = {"json": "documents", "yaml": "documents", "wide": "wide"}
"""what the service adds to a table, by output format"""
POLL_SECONDS: Final = 2.0
"""between two questions to the service, which has no watch"""


def list_objects(named: Sequence[Named], flags: ListFlags, *, suffix: str = "", sort_by: str | None = None) -> None:
    """Print the objects, and with a watch their changes; `suffix` makes the kinds those of a table about them."""

    def selections(default: str) -> list[Selection]:
        return [
            Selection(f"{one.kind}{suffix}", one.names, _namespace(one, flags, default), flags.selector, sort_by or "")
            for one in named
        ]

    answers = answers_of(flags.service, flags.kubeconfig, flags.context)
    printer = Printer(flags.form, headers=not flags.no_headers)

    def asked() -> list[Section]:
        return answers.sections(selections, _DETAILS.get(flags.form or "", ""))

    if flags.watch and flags.service in {None, NO_SERVICE}:
        _watch(flags, lambda cluster: sections_of(cluster, selections), printer)
    printer.print(asked())
    if flags.watch:
        _poll(lambda: printer.print_changes(asked()))


def _watch(flags: ListFlags, sections: Callable[[ClusterView], list[Section]], printer: Printer) -> None:
    """Print the cluster and its changes until Ctrl-C; return if the user may not read the cluster: the service may answer."""
    from linkwise.cli.reports.watching import watch_cluster  # noqa: PLC0415 - imports the planner

    try:
        cluster = read_cluster(flags.kubeconfig, flags.context)
    except ForbiddenError:
        return
    printer.print(sections(cluster))
    watch_cluster(flags.kubeconfig, flags.context, lambda seen: printer.print_changes(sections(seen)))


def _namespace(one: Named, flags: ListFlags, default: str) -> str | None:
    """Return the namespace; usage is that of all namespaces unless one is named."""
    everywhere = flags.all_namespaces or (one.kind == "usage" and flags.namespace is None)
    return None if everywhere else flags.namespace or default


def _poll(show: Callable[[], None]) -> NoReturn:
    """Call `show` every few seconds; an error of the cluster is reported once, and the next attempt may succeed."""
    problem = ""
    while True:
        time.sleep(POLL_SECONDS)
        try:
            show()
            problem = ""
        except ClusterError as error:
            if str(error) != problem:
                problem = str(error)
                click.echo(f"note: {problem}", err=True)
