"""`linkwise top`: prints what nodes and pods use of their devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import EXIT_CODES, cluster_flags, kind_and_name, namespace_flag, service_flag
from linkwise.cli.options.output import form_flag
from linkwise.engine.selectors import label_requirements
from linkwise.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

KINDS: Final = ("node", "pod")
SORTS: Final = ("memory", "utilization")

_EPILOG: Final = f"""\b
Examples:
  linkwise top nodes
  linkwise top nodes -l gpushare=true --sort-by utilization
  linkwise top pods -A -o wide            # with nodes and shares
  linkwise top pods trainer-0
  linkwise top pods --no-headers | sort -k3 -h

\b
nodes    memory in use on all devices of a node, and their average utilization
pods     the same for a pod, in percent of the memory that it was allocated

Agents publish a summary of their readings at most every 30 seconds (agent.usage); their metrics have every reading.
Values that are not known are printed as <unknown>, with the reason on standard error.

If you have rights in single namespaces only, pods of one namespace are listed by the service, which is asked through the
API server with your token.

{EXIT_CODES}
"""


@click.command("top", epilog=_EPILOG)
@click.argument("what", nargs=-1, metavar="KIND [NAME]")
@namespace_flag
@click.option("-A", "--all-namespaces", is_flag=True, help="List pods of all namespaces.")
@click.option("-l", "--selector", default="", metavar="SELECTOR", help="Label selector, such as app=web,tier!=test.")
@click.option("--no-headers", is_flag=True, help="Print no headers.")
@click.option("--sort-by", type=click.Choice(SORTS), help="Print the largest first. [default: by name]")
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
    selector: str,
    sort_by: str | None,
    service: str | None,
    all_namespaces: bool,
    no_headers: bool,
) -> None:
    """Print memory and utilization of devices, by node or by pod.

    KIND is nodes or pods. This command is read-only.
    """
    kind, name = kind_and_name(what, KINDS, name_required=False)
    if namespace is not None and all_namespaces:
        raise InputError("-n and -A can't be used together")
    if name and (selector or all_namespaces):
        raise InputError("a name can't be used together with -l or -A")
    requirements = label_requirements(selector)
    from linkwise.assembly.cluster_reader import read_cluster  # noqa: PLC0415 - imports the client and all policies
    from linkwise.cli.reports.tenant import tenant_of  # noqa: PLC0415 - imports rich
    from linkwise.cli.reports.top import Wanted, usage_of, usage_of_tenant  # noqa: PLC0415 - same
    from linkwise.kube.errors import ForbiddenError  # noqa: PLC0415 - same

    wanted = Wanted(kind, name, namespace, selector, requirements, form, sort_by, headers=not no_headers)
    for_tenants = kind == "pod" and not all_namespaces
    tenant = tenant_of(service, kubeconfig, context)
    try:
        reader = None if service and for_tenants else read_cluster(kubeconfig, context)
    except ForbiddenError as error:
        if not for_tenants:
            raise
        tenant = tenant.because(error)
        reader = None
    if reader is None:
        usage_of_tenant(tenant, wanted)
    else:
        usage_of(reader, wanted, everywhere=all_namespaces)
