"""`linkwise up`: a simulated cluster and the service on the local machine."""

from __future__ import annotations

import math
import os
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

import click

from linkwise.vendors.machines import PROFILES

if TYPE_CHECKING:
    from linkwise.config.settings import LogSettings, ServeSettings

_EPILOG: Final = """\b
Examples:
  linkwise up                                     # ten nodes of five kinds
  linkwise up --nodes 5000                        # up to 20,000
  linkwise up --fleet dgx1-v100=8,atlas-800=2     # machines of your choice
  linkwise up --fleet fleet.yaml --nodes 100
  linkwise up --dra                               # devices in ResourceSlices
  linkwise up --kubeconfig trial.kubeconfig &     # for scripts

A fleet is PROFILE=COUNT,... or a YAML file with a map `nodes:` of PROFILE: COUNT; a profile without a count is one
node.

\b
Profiles:
  {profiles}

\b
A suffix sets the sharing mode of an NVIDIA profile:
  dgx1-v100/whole     whole devices (nvidia.com/gpu), the default
  dgx1-v100/share     GiB of device memory (aliyun.com/gpu-mem)
  dgx1-v100/percent   percent of a device (koordinator.sh/gpu)
  dgx1-v100/dra       whole devices in ResourceSlices, by ResourceClaims

--dra does this for all NVIDIA GPUs that are not shared by memory. Their class gpu.nvidia.com serves
nvidia.com/gpu.

--nodes keeps the proportions of the fleet, with at least one node per profile if possible. Nodes are named
after their profile: dgx1-v100-0, dgx1-v100-percent-1. The --kubeconfig file is written once the cluster
is ready.

kubectl works with the built-in API server. Scheduler, kubelets and controllers run next to it; no
containers are started. Volcano Jobs run too: the cluster plays the controllers and the scheduler of
Volcano, without its queue capacities, preemption and job plugins other than env. Everything listens on
127.0.0.1 only, and all files are removed at the end. Ctrl-C stops the cluster; a second one exits
immediately.

Exit codes: 0 stopped by Ctrl-C or SIGTERM; 1 a component failed; 2 invalid arguments or file, port in
use, or file not writable; 130 stopped by a second Ctrl-C.
"""
_PROFILES: Final = fill(", ".join(PROFILES), 68, subsequent_indent="  ")

_PORT: Final = click.IntRange(0, 65535)


@click.command("up", epilog=_EPILOG.replace("{profiles}", _PROFILES))
@click.option("--nodes", type=click.IntRange(1), help="Total number of nodes, in the proportions of the fleet.")
@click.option(
    "--fleet",
    metavar="PROFILE=COUNT,...|FILE",
    help="Machine profiles and their counts; - reads a YAML file from standard input.",
)
@click.option("--dra", is_flag=True, help="Publish NVIDIA GPUs in ResourceSlices instead of by device plugins.")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="File to write the kubeconfig to, removed at the end (default: in a temporary directory).",
)
@click.option(
    "--force", is_flag=True, help="Overwrite an existing --kubeconfig file, even if it is in use; its content is lost."
)
@click.option("--port", type=_PORT, default=0, help="Port of the service (default: any free port).")
@click.option("--api-port", type=_PORT, default=0, help="Port of the API server (default: any free port).")
@click.option(
    "--config", type=click.Path(path_type=Path), help="Settings file of the service, as for `linkwise serve`."
)
@click.option(
    "--speed",
    type=click.FloatRange(0.01, 1000),
    default=1.0,
    help="Speed-up factor for simulated pod run time.",
)
@click.option("--log", type=click.Path(path_type=Path), help="Append the log of the service to this file.")
@click.option("-v", "--verbose", is_flag=True, help="Print the log of the service to standard error.")
def command(**options: Any) -> None:  # noqa: ANN401 - one per flag above
    """Start a cluster to try on this machine: no Kubernetes and no GPU needed.

    An API server, a scheduler and simulated nodes run in this process, next to the scheduler service, which runs as on any
    other cluster. Press Ctrl-C to stop it.
    """
    from linkwise.cli.up.signals import STOPPED, exit_immediately  # noqa: PLC0415 - only needed here

    exit_immediately(STOPPED)  # until there is something to clean up
    from linkwise.cli.inputs.fleet import DEFAULT, MAX_NODES, fleet_of, spread, with_dra  # noqa: PLC0415 - brings yaml

    fleet = fleet_of(options["fleet"]) if options["fleet"] is not None else dict(DEFAULT)
    if (nodes := options["nodes"]) is not None:
        if nodes > MAX_NODES:
            raise click.BadParameter(f"{nodes} exceeds the maximum of {MAX_NODES} nodes", param_hint="--nodes")
        fleet = spread(fleet, nodes)
    if options["dra"]:
        fleet = with_dra(fleet)
    if options["port"] and options["port"] == options["api_port"]:
        raise click.UsageError(f"--port and --api-port are both {options['port']}; they must differ")
    if math.isnan(options["speed"]):
        raise click.BadParameter("nan is not a number", param_hint="--speed")
    from linkwise.cli.up.kubeconfig import check  # noqa: PLC0415 - only needed here

    if options["kubeconfig"]:
        check(options["kubeconfig"], force=options["force"])
    settings = _settings(options["config"], options["port"])
    _start_logging(settings.log, options["log"], verbose=options["verbose"])
    from linkwise.cli.up.running import Up, run  # noqa: PLC0415 - brings the cluster, the server and all policies

    run(Up(fleet, settings, options["api_port"], options["speed"], options["kubeconfig"], options["force"]))


def _settings(config: Path | None, port: int) -> ServeSettings:
    """The service's settings, except that only the flags set where it listens: a file is written for another cluster."""
    from linkwise.config.loading import load  # noqa: PLC0415 - brings PyYAML

    return load(config, os.environ, {"http.host": "127.0.0.1", "http.port": port})


def _start_logging(settings: LogSettings, file: Path | None, *, verbose: bool) -> None:
    """Log to a file, the terminal, both or neither."""
    import logging  # noqa: PLC0415 - --help needs none of it

    from linkwise.assembly.logs import lines_for  # noqa: PLC0415 - same
    from linkwise.errors import InputError  # noqa: PLC0415 - same

    handlers: list[logging.Handler] = [logging.StreamHandler()] if verbose else []
    if file:
        try:
            handlers.append(logging.FileHandler(file, encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{file}: {error.strerror or error}") from error
    for handler in handlers:
        handler.setFormatter(lines_for(settings.format))
    logging.basicConfig(level=settings.level.upper(), handlers=handlers or [logging.NullHandler()], force=True)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
