"""`linkwise pick`: which devices of a machine would be chosen, and why."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.topology_source import load_topology
from linkwise.errors import InputError
from linkwise.topology.link_value import LinkGeneration
from linkwise.vendors.profiles import PROFILES

if TYPE_CHECKING:
    from linkwise.model.topology import Topology

EXIT_REFUSED: Final = 1

_EPILOG: Final = """\b
Examples:
  linkwise pick --profile dgx1-v100 --size 2
  linkwise pick --topology machine.yaml --size 4 --available 0,1,2,3,6 --required 0
  linkwise pick --profile dgx1-v100-measured --size 2 --policy bandwidth
  linkwise pick --batch questions.jsonl > answers.jsonl

\b
A machine file is YAML or JSON:
  links: [[X, NV2+PHB], [NV2+PHB, X]]     # kinds as `nvidia-smi topo -m` prints them
  bandwidth: [[750, 48.4], [48.3, 750]]   # GB/s from row to column
  devices: [GPU-aaaa, GPU-bbbb]           # optional

\b
A batch has one question a line; the policy decides what it holds:
  {"policy":"link-affinity","scores":[[0,210],[210,0]],"size":2}
  {"policy":"bandwidth","bandwidth":[[0,48.4],[48.3,0]],"available":[0,1],"required":[0],"size":2}

\b
Exit codes: 0 chosen, 1 refused, 2 the input makes no sense. A batch ends with 1 if a line made
no sense; a refusal is an answer there.
"""


_SPAN: Final = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?")


def _positions(topology: Topology, text: str | None, option: str) -> list[int] | None:
    """Devices as a user lists them: positions, spans of positions, or ids."""
    if text is None:
        return None
    by_id = {device: position for position, device in enumerate(topology.devices)}
    found: list[int] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        if word in by_id:
            found.append(by_id[word])
        elif span := _SPAN.fullmatch(word):
            found += range(int(span[1]), int(span[2] or span[1]) + 1)
        else:
            raise InputError(
                f"{option}: {word!r} is no device of this machine; write positions (0,1 or 0-3) or ids: "
                f"{', '.join(topology.devices)}"
            )
    return found


def _generation(text: str | None) -> LinkGeneration | None:
    if text is None:
        return None
    try:
        words = dict(part.split("=") for part in text.split(","))
        return LinkGeneration(**{key.strip(): int(value) for key, value in words.items()})
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"--generation {text!r}: write it as nvlink=4,pcie=5") from error


@click.command("pick", epilog=_EPILOG)
@click.option("-t", "--topology", "file", metavar="FILE", help="The machine, as YAML or JSON; - is standard input.")
@click.option("--profile", "profile_name", type=click.Choice(list(PROFILES)), help="A machine known by name.")
@click.option("-s", "--size", type=int, help="How many devices.")
@click.option("--available", metavar="LIST", help="Devices to choose from, as 0,1,4-7 or by id. [default: all]")
@click.option("--required", metavar="LIST", help="Devices that must be among the chosen.")
@click.option(
    "--policy",
    type=click.Choice(["link-affinity", "bandwidth"]),
    help="Choose by link kinds or by bandwidth. [default: by what the machine tells]",
)
@click.option(
    "--objective",
    type=click.Choice(["partition", "best-set"]),
    default="partition",
    show_default=True,
    help="By link kinds: the best set of the best partition, or the best set whatever it leaves.",
)
@click.option("--generation", metavar="nvlink=N,pcie=N", help="Weigh link kinds by generation, in GB/s.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, as in a batch.")
@click.option("--batch", metavar="FILE", help="Answer one question a line; - is standard input.")
def command(  # noqa: PLR0913 - one parameter an option
    *,
    file: str | None,
    profile_name: str | None,
    size: int | None,
    available: str | None,
    required: str | None,
    policy: str | None,
    objective: str,
    generation: str | None,
    as_json: bool,
    batch: str | None,
) -> None:
    """Choose devices of one machine, and say why these.

    By link kinds (link-affinity) the best set of the best partition is taken, so that the next ask finds a good set as
    well. By bandwidth the set with the largest bottleneck is taken; what is within 5 % counts as equal, and of equals
    the one that leaves the most good sets.
    """
    if batch is not None:
        others = (file, profile_name, size, available, required, policy, generation, as_json or None)
        if any(value is not None for value in others):
            raise InputError("--batch takes everything from its lines: leave the other options out")
        _run_batch(batch)
        return
    if file is not None and profile_name is not None:
        raise InputError("--topology and --profile both name a machine: give one of them")
    if size is None:
        raise InputError("say how many devices: --size N")
    from linkwise.cli.pick_one import Pick, pick_one  # noqa: PLC0415 - brings rich, which --help does not need

    topology = load_topology(file, profile_name)
    by_links = policy == "link-affinity" or (policy is None and bool(topology.links))
    if not by_links and (generation or objective != "partition"):
        raise InputError("--generation and --objective belong to --policy link-affinity")
    wanted = Pick(
        topology=topology,
        policy="link-affinity" if by_links else "bandwidth",
        size=size,
        available=_positions(topology, available, "--available"),
        required=_positions(topology, required, "--required") or [],
        objective="best-set" if objective == "best-set" else "partition",
        generation=_generation(generation),
    )
    if not pick_one(wanted, as_json=as_json):
        sys.exit(EXIT_REFUSED)


def _run_batch(file: str) -> None:
    from linkwise.cli.batch import answer_lines  # noqa: PLC0415 - brings msgspec, which --help does not need

    try:
        with nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as lines:
            whole = answer_lines(lines, sys.stdout.buffer)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from error
    if not whole:
        sys.exit(EXIT_REFUSED)
