"""`linkwise explain`: why a pod is where it is, or waits; where a group stands; what a node could take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.cluster import EXIT_CODES, cluster_flags, kind_and_name, namespace_flag
from linkwise.cli.options.output import form_flag

if TYPE_CHECKING:
    from pathlib import Path

KINDS: Final = ("pod", "group", "node")

_EPILOG: Final = f"""\b
Examples:
  linkwise explain pod/train
  linkwise explain pod train -n research
  linkwise explain group/llm              # pods that are placed as one
  linkwise explain node/gpu-7
  linkwise explain pod/train -o json | jq .data.remedies

A pod that waits: what speaks against the nodes, and what would have to change. A pod that is placed:
why there, and what came second. The answer is worked out here, from what the cluster shows now; what
schedulers were offered a moment ago is known to the service alone (its route /debug/explain).

{EXIT_CODES}
"""


@click.command("explain", epilog=_EPILOG)
@click.argument("what", nargs=-1, metavar="KIND/NAME")
@namespace_flag
@form_flag("json", "yaml")
@cluster_flags
def command(
    what: tuple[str, ...], namespace: str | None, form: str | None, kubeconfig: Path | None, context: str | None
) -> None:
    """Say why a pod waits or has its devices, where a group stands, or what a node could take.

    Nothing is changed. The sentences are those of the service.
    """
    kind, name = kind_and_name(what, KINDS)
    from linkwise.assembly.cluster_reader import read_cluster  # noqa: PLC0415 - brings the client and all policies
    from linkwise.cli.render.explanation import explain_thing, show_lines  # noqa: PLC0415 - brings rich

    seen = read_cluster(kubeconfig, context)
    show_lines(explain_thing(seen, kind, name, namespace or seen.namespace), form)
