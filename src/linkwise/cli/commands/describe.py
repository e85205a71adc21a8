"""`linkwise describe`: a node, a pod or a group of a cluster in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import EXIT_CODES, cluster_flags, kind_and_name, namespace_flag

if TYPE_CHECKING:
    from pathlib import Path

KINDS: Final = ("node", "pod", "group")

_EPILOG: Final = f"""\b
Examples:
  linkwise describe node gpu-7
  linkwise describe pod train -n research
  linkwise describe group/llm

In the table of links a star marks devices of the pod that is asked about, a minus those that are
taken or do not work; the brighter a pair, the faster. In the picture of a group a letter is a member,
`.` a free device, `x` one that is taken, `!` one that does not work.

`linkwise get nodes -o json` and `linkwise explain pod/NAME -o json` have the same as data.

{EXIT_CODES}
"""


@click.command("describe", epilog=_EPILOG)
@click.argument("what", nargs=-1, metavar="KIND NAME")
@namespace_flag
@cluster_flags
def command(what: tuple[str, ...], namespace: str | None, kubeconfig: Path | None, context: str | None) -> None:
    """Show all that is known of a node, a pod or a group: links, who has what, and why.

    Nothing is changed. Whatever may be read is enough: the service need not run.
    """
    kind, name = kind_and_name(what, KINDS)
    from linkwise.assembly.cluster_reader import read_cluster  # noqa: PLC0415 - brings the client and all policies
    from linkwise.cli.reports.describe import describe  # noqa: PLC0415 - brings rich

    seen = read_cluster(kubeconfig, context)
    describe(seen, kind, name, namespace or seen.namespace)
