"""`linkwise topo`: shows the links between the devices of a machine, or writes them on a node of a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.inputs.topology import load_source
from linkwise.cli.options.cluster import cluster_flags
from linkwise.cli.options.io import json_flag
from linkwise.cli.options.machines import ProfileName
from linkwise.errors import InputError
from linkwise.vendors.machines import PROFILES
from linkwise.vendors.registry import VENDORS

if TYPE_CHECKING:
    from linkwise.model.topology import Topology

EXIT_INCOMPLETE: Final = 3
NODE: Final = "node/"

_EPILOG: Final = """\b
Examples:
  nvidia-smi topo -m | linkwise topo
  linkwise topo pasted.txt --svg links.svg
  linkwise topo --profile dgx1-v100
  npu-smi info -t topo | linkwise topo --json
  linkwise topo node/gpu-7                 # a node of a cluster

\b
A node without the node agent (`linkwise agent`) gets its links from you:
  nvidia-smi topo -m | linkwise topo --annotate node/gpu-7
  ssh gpu-7 nvidia-smi topo -m | linkwise topo --annotate node/gpu-7 --dry-run
  linkwise topo --profile hgx-h100 --annotate node/gpu-8

\b
Supported tool outputs, also truncated or pasted ones:
{texts}
  machine files in YAML or JSON

Exit codes: 0 success, 2 invalid input, or links that do not match the node, 3 incomplete input (missing data
is reported, and nothing is annotated). For a node also 1: the cluster can't be reached, permission denied, or
node not found.
"""


def _texts() -> str:
    """The commands whose output is read, vendor by vendor; readers of error messages alone are left out."""
    lines = []
    for vendor in VENDORS.values():
        kinds = [reader.kind for reader in vendor.readers]
        tables = [kind for kind in kinds if " " in kind or not any(other.startswith(f"{kind} ") for other in kinds)]
        lines.append(fill(", ".join(tables), 76, initial_indent="  ", subsequent_indent="  "))
    return "\n".join(lines)


@click.command("topo", epilog=_EPILOG.replace("{texts}", _texts()))
@click.argument("file", required=False, metavar="[FILE|node/NAME]")
@click.option(
    "--profile",
    type=ProfileName(list(PROFILES)),
    metavar="NAME",
    help="Machine profile; an unknown name lists all profiles.",
)
@json_flag("Print one JSON object.")
@click.option("--svg", metavar="FILE", help="Draw the links as SVG; - writes to standard output.")
@click.option(
    "--annotate",
    metavar="node/NAME",
    help="Write the links on a node that runs no agent, as the annotation linkwise.dev/gpu-topology.",
)
@click.option(
    "--dry-run", "dry", is_flag=True, help="With --annotate: check, print the annotation, and change nothing."
)
@cluster_flags
def command(  # noqa: PLR0913 - one per flag
    file: str | None,
    profile: str | None,
    kubeconfig: Path | None,
    context: str | None,
    *,
    as_json: bool,
    svg: str | None,
    annotate: str | None,
    dry: bool,
) -> None:
    """Show the links of a machine: the link matrix, bandwidth, rings, and suspicious values.

    FILE is the output of a topology tool or a machine file; the default is standard input. node/NAME is a node of the
    cluster in the current kubeconfig context.

    --annotate writes the links on a node instead of printing them, for nodes without the node agent. The number of
    devices must be that of the node.
    """
    target = _target(annotate, as_json=as_json, svg=svg, dry=dry)
    if file is not None and profile is not None:
        raise InputError("FILE and --profile can't be used together")
    if svg == "-" and as_json:
        raise InputError("--svg - and --json both write to standard output: write the SVG to a file")
    if file and file.startswith(NODE) and not Path(file).exists():
        from linkwise.cli.reports.node_links import node_source  # noqa: PLC0415 - imports the client and all policies

        source = node_source(file.removeprefix(NODE), kubeconfig, context)
    else:
        source = load_source(file or (None if profile else "-"), profile)
    topology = source.topology
    if target:
        _annotate(target, topology, kubeconfig, context, dry=dry)
        return
    if svg is not None:
        _draw(topology, profile or (file if file and file.startswith(NODE) else ""), svg)
    if as_json:
        from linkwise.cli.reports.topology import topology_json  # noqa: PLC0415 - imports msgspec

        click.echo(topology_json(source))
    elif svg != "-":
        from linkwise.cli.reports.topology import show_topology  # noqa: PLC0415 - imports rich

        show_topology(source)
    if topology.problems:
        sys.exit(EXIT_INCOMPLETE)


def _target(annotate: str | None, *, as_json: bool, svg: str | None, dry: bool) -> str:
    """The name of the node to annotate; empty without --annotate."""
    if annotate is None:
        if dry:
            raise InputError("--dry-run is for --annotate: nothing else is written")
        return ""
    if as_json or svg is not None:
        raise InputError("--annotate prints no links: use --json and --svg without it")
    if not annotate.startswith(NODE) or annotate == NODE:
        raise InputError(f"--annotate {annotate}: expected node/NAME")
    return annotate.removeprefix(NODE)


def _annotate(name: str, topology: Topology, kubeconfig: Path | None, context: str | None, *, dry: bool) -> None:
    if topology.problems:
        click.echo(f"linkwise: incomplete, node {name} is not annotated: {'; '.join(topology.problems)}", err=True)
        sys.exit(EXIT_INCOMPLETE)
    if not topology.links:
        raise InputError(
            "no link kinds, which the annotation needs: use a link table such as that of nvidia-smi topo -m"
        )
    from linkwise.cli.reports.node_links import annotate  # noqa: PLC0415 - imports the client and all policies

    annotate(name, topology, kubeconfig, context, dry=dry)


def _draw(topology: Topology, title: str, file: str) -> None:
    from linkwise.cli.render.svg import drawing  # noqa: PLC0415 - only needed for SVG

    picture = drawing(topology, title)
    if file == "-":
        click.echo(picture, nl=False)
        return
    try:
        Path(file).write_text(picture, "utf-8")
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from error
