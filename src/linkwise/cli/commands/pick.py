"""`linkwise pick`: which devices of a machine would be chosen, and why."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, get_args

import click

from linkwise.cli.inputs.topology import load_topology
from linkwise.cli.options.devices import read_devices, read_generation, read_room
from linkwise.cli.options.output import json_flag
from linkwise.cli.options.profiles import ProfileName
from linkwise.errors import InputError
from linkwise.policies.ring_profiles import RING_PROFILES
from linkwise.topology.canonical import inferred_links
from linkwise.topology.partition import Objective
from linkwise.vendors.machines import PROFILES

EXIT_REFUSED: Final = 1
POLICIES: Final = ("link-affinity", "bandwidth", "whole-device", "ring-affinity", "memory-share")

_EPILOG: Final = """\b
Examples:
  linkwise pick --profile dgx1-v100 --size 2
  linkwise pick -t machine.yaml -s 4 --available 0-3,6 --required 0
  nvidia-smi topo -m | linkwise pick --topology - --size 4
  linkwise pick --profile dgx1-v100-measured --size 2
  linkwise pick --profile ascend-910 --size 2 --available 0,1,4 --faulty 7
  linkwise pick --room 0=12207,1=8138,2=4069,3=16276 --share 8138
  linkwise pick --batch questions.jsonl > answers.jsonl

\b
A machine file is YAML or JSON:
  links: [[X, NV2+PHB], [NV2+PHB, X]]     # as `nvidia-smi topo -m` has them
  bandwidth: [[750, 48.4], [48.3, 750]]   # GB/s from row to column
  devices: [GPU-aaaa, GPU-bbbb]           # optional

\b
A batch has one question a line; the policy decides what it holds:
  {"policy":"link-affinity","scores":[[0,210],[210,0]],"size":2}
  {"policy":"bandwidth","bandwidth":[[0,48],[48,0]],"required":[0],"size":2}
  {"policy":"whole-device","available":[1,4,6],"size":2}
  {"policy":"ring-affinity","profile":"ascend-910","size":2,"idle":[0,1,4]}
  {"policy":"memory-share","room":{"0":12207,"1":8138},"share":8138}

Exit codes: 0 chosen, 1 refused, 2 the input makes no sense. A batch ends with 1 if a line made
no sense; a refusal is an answer there.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The options as the user gave them."""

    file: str | None
    profile: str | None
    size: int | None
    available: str | None
    required: str | None
    faulty: str | None
    room: str | None
    share: int | None
    policy: str | None
    objective: Objective | None
    generation: str | None
    as_json: bool

    def only(self, *names: str, what: str) -> None:
        """Refuse options that mean nothing here, so that none is ignored silently."""
        for name in self.__slots__:
            if name not in {*names, "policy", "as_json"} and getattr(self, name) is not None:
                option = "topology" if name == "file" else name
                raise InputError(f"--{option} means nothing {what}: leave it out")


@click.command("pick", epilog=_EPILOG)
@click.option(
    "-t",
    "--topology",
    "file",
    metavar="FILE",
    help="The machine: what a topology tool printed, or YAML or JSON; - is standard input.",
)
@click.option(
    "--profile",
    type=ProfileName(),
    metavar="NAME",
    help="A machine known by name; a wrong one lists all.",
)
@click.option("-s", "--size", type=int, help="How many devices.")
@click.option("--available", metavar="LIST", help="Devices to choose from, as 0,1,4-7 or by id. [default: all]")
@click.option("--required", metavar="LIST", help="Devices that must be among the chosen.")
@click.option("--faulty", metavar="LIST", help="Devices that do not work (ring-affinity).")
@click.option("--room", metavar="0=N,1=N", help="What is left of each device (memory-share).")
@click.option("--share", type=int, help="How much of one device (memory-share).")
@click.option("--policy", type=click.Choice(POLICIES), help="The rules to choose by. [default: by what is given]")
@click.option(
    "--objective",
    type=click.Choice(get_args(Objective)),
    help="By link kinds: the best set of the best partition, or the best set whatever it leaves. [default: partition]",
)
@click.option("--generation", metavar="nvlink=N,pcie=N", help="Weigh link kinds by generation, in GB/s.")
@json_flag("One JSON object, as in a batch.")
@click.option("--batch", metavar="FILE", help="Answer one question a line; - is standard input.")
def command(batch: str | None, **options: Any) -> None:  # noqa: ANN401 - typed by Given
    """Choose devices of one machine, and say why these.

    By link kinds (link-affinity) the best set of the best partition is taken, so that the next ask finds a good set as
    well. By bandwidth the set with the largest bottleneck is taken; what is within 5 % counts as equal, and of equals
    the one that leaves the most good sets. By rings (ring-affinity) devices lie as the hardware demands. By room
    (memory-share) the fullest device that still fits is taken.
    """
    given = Given(**options)
    if batch is not None:
        given.only(what="beside --batch, which takes everything from its lines")
        chosen = _run_batch(batch)
    else:
        chosen = _WAYS[_policy(given)](given)
    if not chosen:
        sys.exit(EXIT_REFUSED)


def _policy(given: Given) -> str:
    """The policy asked for, or the one that what was given speaks of."""
    if given.policy is not None:
        return given.policy
    if given.room is not None or given.share is not None:
        return "memory-share"
    return "ring-affinity" if _hardware(given) else "links"


def _hardware(given: Given) -> str:
    """The hardware profile by which the named machine's devices form groups; empty if they form none."""
    if given.profile in PROFILES:
        return PROFILES[given.profile].hardware
    return given.profile if given.profile in RING_PROFILES else ""


def _by_links(given: Given) -> bool:
    """By link kinds where the machine tells any, else by bandwidth."""
    from linkwise.cli.pick.by_links import Pick, pick_one  # noqa: PLC0415 - brings rich, which --help does not need

    given.only("file", "profile", "size", "available", "required", "objective", "generation", what="for linked devices")
    if given.file is not None and given.profile is not None:
        raise InputError("--topology and --profile both name a machine: give one of them")
    topology = load_topology(given.file, given.profile)
    if not topology.links and not topology.bandwidth:
        raise InputError("; ".join(topology.warnings) or "nothing is known of the links of this machine")
    if given.policy == "link-affinity" and not topology.links:
        note = "link kinds are inferred from bandwidth"
        inferred = inferred_links(topology.bandwidth)
        topology = replace(topology, links=inferred, warnings=(*topology.warnings, note))
    by_links = given.policy == "link-affinity" or (given.policy is None and bool(topology.links))
    if not by_links and (given.generation or given.objective):
        raise InputError("--generation and --objective belong to --policy link-affinity")
    wanted = Pick(
        topology=topology,
        policy="link-affinity" if by_links else "bandwidth",
        size=_size(given),
        available=read_devices(given.available, topology.devices, "--available"),
        required=read_devices(given.required, topology.devices, "--required") or [],
        objective=given.objective or "partition",
        generation=read_generation(given.generation),
    )
    return pick_one(wanted, as_json=given.as_json)


def _by_rings(given: Given) -> bool:
    from linkwise.cli.pick.by_rings import pick_in_rings, ring_line  # noqa: PLC0415 - brings rich

    given.only("profile", "size", "available", "faulty", what="for ring-affinity")
    idle, faulty = (
        read_devices(text, (), option)
        for text, option in ((given.available, "--available"), (given.faulty, "--faulty"))
    )
    hardware = _hardware(given)
    if given.profile and not hardware:
        raise InputError(f"--profile {given.profile}: its devices form no groups; try {', '.join(RING_PROFILES)}")
    return pick_in_rings(ring_line(hardware, _size(given), idle, faulty or []), as_json=given.as_json)


def _by_room(given: Given) -> bool:
    from linkwise.cli.pick.by_rings import pick_by_room  # noqa: PLC0415 - brings rich

    given.only("room", "share", what="for memory-share")
    if given.room is None or given.share is None:
        raise InputError("say what is left of each device and how much is wanted: --room 0=12207,1=8138 --share 8138")
    return pick_by_room(read_room(given.room), given.share, as_json=given.as_json)


def _by_count(given: Given) -> bool:
    from linkwise.cli.pick.by_rings import pick_by_count  # noqa: PLC0415 - brings rich

    given.only("size", "available", "required", what="for whole-device")
    if given.available is None:
        raise InputError("say which devices are free: --available 0,1,4-7")
    free, required = (
        read_devices(text, (), option) or []
        for text, option in ((given.available, "--available"), (given.required, "--required"))
    )
    return pick_by_count(_size(given), free, required, as_json=given.as_json)


def _size(given: Given) -> int:
    if given.size is None:
        raise InputError("say how many devices: --size N")
    return given.size


def _run_batch(file: str) -> bool:
    from linkwise.cli.pick.batch import answer_lines  # noqa: PLC0415 - brings msgspec, which --help does not need

    with _lines(file) as lines:
        return answer_lines(lines, sys.stdout.buffer)


def _lines(file: str) -> AbstractContextManager[BinaryIO]:
    if file == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from error


_WAYS: Final = {
    "links": _by_links,
    "link-affinity": _by_links,
    "bandwidth": _by_links,
    "whole-device": _by_count,
    "ring-affinity": _by_rings,
    "memory-share": _by_room,
}
