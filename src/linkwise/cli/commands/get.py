"""`linkwise get`: nodes, pods, devices or groups of a cluster, a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import EXIT_CODES, cluster_flags, kind_and_name, namespace_flag
from linkwise.cli.options.output import form_flag
from linkwise.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

KINDS: Final = ("node", "pod", "device", "group")

_EPILOG: Final = f"""\b
Examples:
  linkwise get nodes
  linkwise get pods -A                    # all namespaces
  linkwise get devices gpu-7 -o wide      # those of one node, with ids
  linkwise get groups
  linkwise get pods -o json | jq '.[] | select(.state == "waiting") | .name'

\b
nodes    how each hands out devices, how many are idle, how they are linked
pods     those that ask for devices: what they have, or why they wait
devices  health, what is taken of each, and who has it; NAME is a node
groups   pods that are placed as one: how many are bound of how many

Why it waits is worked out for the first 100 pods; `linkwise explain pod/NAME` says more.

{EXIT_CODES}
"""


@click.command("get", epilog=_EPILOG)
@click.argument("what", nargs=-1, metavar="KIND [NAME]")
@namespace_flag
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Pods and groups of all namespaces.")
@form_flag("json", "yaml", "wide")
@cluster_flags
def command(  # noqa: PLR0913 - one a flag
    what: tuple[str, ...],
    namespace: str | None,
    form: str | None,
    kubeconfig: Path | None,
    context: str | None,
    *,
    everywhere: bool,
) -> None:
    """Show nodes, pods, devices or groups of a cluster as placing sees them.

    KIND is nodes, pods, devices or groups. Nothing is changed. Whatever may be read is enough: the service need not run.
    """
    kind, name = kind_and_name(what, KINDS, whole=False)
    if namespace is not None and everywhere:
        raise InputError("-n and -A say different things: give one of them")
    from linkwise.assembly.cluster_reader import read_cluster  # noqa: PLC0415 - brings the client and all policies
    from linkwise.cli.get.show import Wanted, show  # noqa: PLC0415 - brings rich

    seen = read_cluster(kubeconfig, context)
    show(seen, Wanted(kind, name, None if everywhere else namespace or seen.namespace), form)
