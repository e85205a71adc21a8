"""`linkwise pick`: chooses devices on one machine and explains the choice."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, get_args

import click

from linkwise.assembly.plugins import POLICIES as PLUGIN_POLICIES, load_plugins
from linkwise.cli.inputs.topology import load_topology
from linkwise.cli.options.io import json_flag
from linkwise.cli.options.machines import ProfileName, read_devices, read_free_memory, read_generation
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
  links: [[X, NV2+PHB], [NV2+PHB, X]]     # as in `nvidia-smi topo -m`
  bandwidth: [[750, 48.4], [48.3, 750]]   # GB/s from row to column
  devices: [GPU-aaaa, GPU-bbbb]           # optional

\b
A batch file has one request per line; its fields depend on the policy:
  {"policy":"link-affinity","scores":[[0,210],[210,0]],"size":2}
  {"policy":"bandwidth","bandwidth":[[0,48],[48,0]],"required":[0],"size":2}
  {"policy":"whole-device","available":[1,4,6],"size":2}
  {"policy":"ring-affinity","profile":"ascend-910","size":2,"idle":[0,1,4]}
  {"policy":"memory-share","room":{"0":12207,"1":8138},"share":8138}

Exit codes: 0 devices chosen, 1 request refused, 2 invalid input. A batch exits with 1 if a line is invalid;
a refusal is a valid answer there.
"""


def _policies() -> tuple[str, ...]:
    """The policies by name; the registry is imported only if a plug-in adds to them."""
    if not any(plugin.group == PLUGIN_POLICIES for plugin in load_plugins()):
        return POLICIES
    from linkwise.policies.registry import added_policies  # noqa: PLC0415 - brings all policies

    return (*POLICIES, *(policy.name for policy in added_policies()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The parsed options."""

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

    def allow_only(self, *names: str, context: str) -> None:
        """Raise InputError for other options that are set, so that none is silently ignored."""
        for name in self.__slots__:
            if name not in {*names, "policy", "as_json"} and getattr(self, name) is not None:
                option = "topology" if name == "file" else name
                raise InputError(f"--{option} can't be used {context}")


@click.command("pick", epilog=_EPILOG)
@click.option(
    "-t",
    "--topology",
    "file",
    metavar="FILE",
    help="Machine: output of a topology tool, or a YAML or JSON file; - reads standard input.",
)
@click.option(
    "--profile",
    type=ProfileName(),
    metavar="NAME",
    help="Machine profile; an unknown name lists all profiles.",
)
@click.option("-s", "--size", type=int, help="Number of devices.")
@click.option("--available", metavar="LIST", help="Free devices, as 0,1,4-7 or by ID. [default: all]")
@click.option("--required", metavar="LIST", help="Devices that must be part of the choice.")
@click.option("--faulty", metavar="LIST", help="Unhealthy devices (ring-affinity).")
@click.option("--room", metavar="0=N,1=N", help="Free memory of each device (memory-share).")
@click.option("--share", type=int, help="Requested memory on one device (memory-share).")
@click.option("--policy", type=click.Choice(_policies()), help="Policy. [default: depends on the other options]")
@click.option(
    "--objective",
    type=click.Choice(get_args(Objective)),
    help="For link-affinity: the best set of the best partition, or the best single set. [default: partition]",
)
@click.option("--generation", metavar="nvlink=N,pcie=N", help="Weigh links by the bandwidth of their generation.")
@json_flag("Print one JSON object, as in a batch.")
@click.option("--batch", metavar="FILE", help="Answer one request per line of FILE; - reads standard input.")
def command(batch: str | None, **values: Any) -> None:  # noqa: ANN401 - typed by Options
    """Choose devices on one machine and explain the choice.

    link-affinity takes the best set of the best partition, so that the next request finds a good set as well. bandwidth
    takes the set whose slowest pair is fastest; sets within 5% are equal, and of those it takes the one that leaves the
    most good sets. ring-affinity takes only layouts that the hardware supports. memory-share takes the fullest device
    that still fits.
    """
    options = Options(**values)
    if batch is not None:
        options.allow_only(context="with --batch")
        chosen = _run_batch(batch)
    else:
        chosen = _PICKERS.get(_policy(options), _by_plugin)(options)
    if not chosen:
        sys.exit(EXIT_REFUSED)


def _policy(options: Options) -> str:
    """Return the requested policy, or the one that the other options imply."""
    if options.policy is not None:
        return options.policy
    if options.room is not None or options.share is not None:
        return "memory-share"
    return "ring-affinity" if _hardware(options) else "links"


def _hardware(options: Options) -> str:
    """Return the hardware profile of the machine profile; empty if its devices form no rings."""
    if options.profile is not None and options.profile in PROFILES:
        return PROFILES[options.profile].hardware
    return options.profile if options.profile in RING_PROFILES else ""


def _by_links(options: Options) -> bool:
    """Choose by link kinds if the machine has any, else by bandwidth."""
    from linkwise.cli.pick.by_links import PickRequest, pick_one  # noqa: PLC0415 - imports rich, which --help does not need

    options.allow_only(
        "file",
        "profile",
        "size",
        "available",
        "required",
        "objective",
        "generation",
        context="with link-affinity or bandwidth",
    )
    if options.file is not None and options.profile is not None:
        raise InputError("--topology and --profile can't be used together")
    topology = load_topology(options.file, options.profile)
    if not topology.links and not topology.bandwidth:
        raise InputError("; ".join(topology.warnings) or "no link data for this machine")
    if options.policy == "link-affinity" and not topology.links:
        note = "link kinds are inferred from bandwidth"
        inferred = inferred_links(topology.bandwidth)
        topology = replace(topology, links=inferred, warnings=(*topology.warnings, note))
    by_links = options.policy == "link-affinity" or (options.policy is None and bool(topology.links))
    if not by_links and (options.generation or options.objective):
        raise InputError("--generation and --objective require --policy link-affinity")
    request = PickRequest(
        topology=topology,
        policy="link-affinity" if by_links else "bandwidth",
        size=_size(options),
        available=read_devices(options.available, topology.devices, "--available"),
        required=read_devices(options.required, topology.devices, "--required") or [],
        objective=options.objective or "partition",
        generation=read_generation(options.generation),
    )
    return pick_one(request, as_json=options.as_json)


def _by_rings(options: Options) -> bool:
    from linkwise.cli.pick.by_policy import pick_in_rings, ring_line  # noqa: PLC0415 - imports rich

    options.allow_only("profile", "size", "available", "faulty", context="with ring-affinity")
    idle, faulty = (
        read_devices(text, (), option)
        for text, option in ((options.available, "--available"), (options.faulty, "--faulty"))
    )
    hardware = _hardware(options)
    if options.profile and not hardware:
        raise InputError(
            f"--profile {options.profile}: its devices form no rings; use one of {', '.join(RING_PROFILES)}"
        )
    return pick_in_rings(ring_line(hardware, _size(options), idle, faulty or []), as_json=options.as_json)


def _by_free_memory(options: Options) -> bool:
    from linkwise.cli.pick.by_policy import pick_by_free_memory  # noqa: PLC0415 - imports rich

    options.allow_only("room", "share", context="with memory-share")
    if options.room is None or options.share is None:
        raise InputError(
            "memory-share requires the free memory of each device and the requested memory: --room 0=12207,1=8138 --share 8138"
        )
    return pick_by_free_memory(read_free_memory(options.room), options.share, as_json=options.as_json)


def _by_count(options: Options) -> bool:
    from linkwise.cli.pick.by_policy import pick_by_count  # noqa: PLC0415 - imports rich

    options.allow_only("size", "available", "required", context="with whole-device")
    if options.available is None:
        raise InputError("whole-device requires the free devices: --available 0,1,4-7")
    free, required = (
        read_devices(text, (), option) or []
        for text, option in ((options.available, "--available"), (options.required, "--required"))
    )
    return pick_by_count(_size(options), free, required, as_json=options.as_json)


def _by_plugin(options: Options) -> bool:
    from linkwise.cli.pick.by_policy import pick_by_policy  # noqa: PLC0415 - imports rich and all policies

    options.allow_only("file", "profile", "size", "available", "required", context=f"with {options.policy}")
    topology = load_topology(options.file, options.profile)
    return pick_by_policy(
        _policy(options),
        topology,
        _size(options),
        available=read_devices(options.available, topology.devices, "--available"),
        required=read_devices(options.required, topology.devices, "--required") or [],
        as_json=options.as_json,
    )


def _size(options: Options) -> int:
    if options.size is None:
        raise InputError("number of devices required: --size N")
    return options.size


def _run_batch(file: str) -> bool:
    from linkwise.cli.pick.batch import answer_lines  # noqa: PLC0415 - imports msgspec, which --help does not need

    with _lines(file) as lines:
        return answer_lines(lines, sys.stdout.buffer)


def _lines(file: str) -> AbstractContextManager[BinaryIO]:
    if file == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from error


_PICKERS: Final = {
    "links": _by_links,
    "link-affinity": _by_links,
    "bandwidth": _by_links,
    "whole-device": _by_count,
    "ring-affinity": _by_rings,
    "memory-share": _by_free_memory,
}
