"""Body of `linkwise get`: reads the cluster, or asks the service if rights do not suffice, and prints; a watch goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.assembly.cluster_reader import read_cluster
from linkwise.cli.get.show import Selection, section_of
from linkwise.cli.render.rows import Printer
from linkwise.cli.reports.tenant import tenant_of, tenant_section
from linkwise.cli.reports.watching import poll, watch_cluster
from linkwise.kube.errors import ForbiddenError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.assembly.cluster_reader import ClusterReader
    from linkwise.cli.options.kinds import Named
    from linkwise.cli.options.lists import ListFlags
    from linkwise.cli.render.rows import Section
    from linkwise.cli.reports.tenant import Tenant

__all__ = ["list_objects", "print_lists"]

FOR_TENANTS: Final = frozenset({"pod", "group", "usage"})
"""kinds that the service lists for users with rights in one namespace"""


def list_objects(named: Sequence[Named], flags: ListFlags) -> None:
    """Print the objects, and with a watch their changes."""

    def sections(reader: ClusterReader) -> list[Section]:
        return [section_of(reader, _selection(one, flags, reader.namespace)) for one in named]

    def as_tenant(tenant: Tenant) -> list[Section]:
        return [tenant_section(tenant, _selection(one, flags, ""), flags.selector) for one in named]

    for_tenants = all(one.kind in FOR_TENANTS for one in named) and not flags.all_namespaces
    print_lists(sections, as_tenant if for_tenants else None, flags)


def _selection(one: Named, flags: ListFlags, default: str) -> Selection:
    """Return what is selected; usage is that of all namespaces unless one is named, or the user may read only one."""
    everywhere = flags.all_namespaces or (one.kind == "usage" and flags.namespace is None and default)
    return Selection(one.kind, one.names, None if everywhere else flags.namespace or default, flags.requirements)


def print_lists(
    sections: Callable[[ClusterReader], list[Section]],
    as_tenant: Callable[[Tenant], list[Section]] | None,
    flags: ListFlags,
) -> None:
    """Print sections of a cluster, or as a tenant if the user's rights do not suffice; with a watch, then their changes."""
    tenant = tenant_of(flags.service, flags.kubeconfig, flags.context)
    printer = Printer(flags.form, headers=not flags.no_headers)
    try:
        reader = None if flags.service and as_tenant else read_cluster(flags.kubeconfig, flags.context)
    except ForbiddenError as error:
        if as_tenant is None:
            raise
        tenant, reader = tenant.because(error), None
    if reader is not None:
        printer.print(sections(reader))
        if flags.watch:
            watch_cluster(flags.kubeconfig, flags.context, lambda seen: printer.print_changes(sections(seen)))
    elif as_tenant is not None:
        ask = as_tenant
        printer.print(ask(tenant))
        if flags.watch:
            poll(lambda: printer.print_changes(ask(tenant)))
