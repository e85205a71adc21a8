"""`linkwise get`: lists nodes, pods, devices, groups or access policies of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import EXIT_CODES, cluster_flags, kind_and_name, namespace_flag, service_flag
from linkwise.cli.options.output import form_flag
from linkwise.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

KINDS: Final = ("node", "pod", "device", "group", "policy")

_EPILOG: Final = f"""\b
Examples:
  linkwise get nodes
  linkwise get pods -A                    # all namespaces
  linkwise get devices gpu-7 -o wide      # devices of one node, with IDs
  linkwise get groups
  linkwise get pods -o json | jq '.items[] | select(.node == "").name'

\b
nodes     sharing mode, idle devices and links of each node
pods      pods that request devices: what they have, or why they are pending
devices   health and usage of each device; NAME is the name of a node
groups    pods that are scheduled together: bound members out of all
policies  AcceleratorPolicies: who may use and share which devices

The reason is computed for the first 100 pods; `linkwise explain pod/NAME` shows all details.
In JSON and YAML a list is in `items`; one object, named by NAME, is printed alone.

If you have rights in single namespaces only, pods and groups of one namespace are listed by the service, which is
asked through the API server with your token. If it can't be asked, pods are listed with what it has published on
them.

{EXIT_CODES}
"""


@click.command("get", epilog=_EPILOG)
@click.argument("what", nargs=-1, metavar="KIND [NAME]")
@namespace_flag
@click.option("-A", "--all-namespaces", is_flag=True, help="List pods and groups of all namespaces.")
@form_flag("json", "yaml", "wide")
@service_flag
@cluster_flags
def command(  # noqa: PLR0913 - one per flag
    what: tuple[str, ...],
    namespace: str | None,
    form: str | None,
    kubeconfig: Path | None,
    context: str | None,
    *,
    service: str | None,
    all_namespaces: bool,
) -> None:
    """List nodes, pods, devices, groups or access policies of a cluster as the scheduler sees them.

    KIND is nodes, pods, devices, groups or policies. This command is read-only and does not need the service to be running, unless you have
    rights in single namespaces only.
    """
    kind, name = kind_and_name(what, KINDS, name_required=False)
    if namespace is not None and all_namespaces:
        raise InputError("-n and -A can't be used together")
    from linkwise.assembly.cluster_reader import read_cluster  # noqa: PLC0415 - imports the client and all policies
    from linkwise.cli.get.show import Selection, show  # noqa: PLC0415 - imports rich
    from linkwise.cli.reports.tenant import list_as_tenant, tenant_of  # noqa: PLC0415 - same
    from linkwise.kube.errors import ForbiddenError  # noqa: PLC0415 - same

    for_tenants = kind in {"pod", "group"} and not all_namespaces
    tenant = tenant_of(service, kubeconfig, context)
    try:
        reader = None if service and for_tenants else read_cluster(kubeconfig, context)
    except ForbiddenError as error:
        if not for_tenants:
            raise
        tenant = tenant.because(error)
        reader = None
    if reader is None:
        list_as_tenant(tenant, kind, name, namespace, form)
        return
    show(reader, Selection(kind, name, None if all_namespaces else namespace or reader.namespace), form)
