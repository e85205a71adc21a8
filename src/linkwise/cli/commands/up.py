"""`linkwise up`: a cluster to try, with the service beside it, on this machine alone."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from linkwise.config.settings import LogSettings, ServeSettings

_EPILOG: Final = """\b
Examples:
  linkwise up                                     # ten nodes, five systems
  linkwise up --nodes 5000                        # 20,000 is the most
  linkwise up --fleet dgx1-v100=8,atlas-800=2     # machines of your choice
  linkwise up --fleet fleet.yaml --nodes 100
  linkwise up --kubeconfig trial.kubeconfig &     # for scripts

A fleet is PROFILE=COUNT,... or a YAML file with `nodes:` and a line `PROFILE: COUNT` for each; a profile alone is one
node.

\b
Profiles:
  {profiles}

\b
A word behind an NVIDIA profile says how its devices are handed out:
  dgx1-v100/whole     each to one pod (nvidia.com/gpu), as without a word
  dgx1-v100/share     by GiB of memory (aliyun.com/gpu-mem)
  dgx1-v100/percent   by percent of a card (koordinator.sh/gpu)

--nodes keeps the proportions of the fleet, and at least one node of each profile if it is enough
for that. Nodes are called after their profile: dgx1-v100-0, dgx1-v100-percent-1. The file
of --kubeconfig is there when everything answers.

The API server is one of ours that kubectl understands; scheduler, kubelets and controllers run
beside it, and pods run without containers. Nothing of it reaches beyond 127.0.0.1, and nothing
is left behind: Ctrl-C ends it all, a second one at once.

Exit codes: 0 ended by Ctrl-C or SIGTERM; 1 a part of it failed; 2 a word or a file makes no sense,
a port is taken or a file can't be written; 130 ended by a second Ctrl-C.
"""
_PROFILES: Final = """\
dgx1-v100, dgx1-v100-measured, v100-pcie, a100-bridged, dgx-a100,
  hgx-h100, dgx2-v100, p40-share, atlas-800, atlas-a2, mi300"""

_PORT: Final = click.IntRange(0, 65535)


@click.command("up", epilog=_EPILOG.replace("{profiles}", _PROFILES))
@click.option("--nodes", type=click.IntRange(1), help="So many nodes in all, in the proportions of the fleet.")
@click.option("--fleet", metavar="PROFILE=COUNT,...|FILE", help="Which machines; - is a file on standard input.")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Write the kubeconfig there, until the end; else it is in a temporary folder.",
)
@click.option(
    "--force", is_flag=True, help="Overwrite that file, whoever wrote it and still needs it; what it held is gone."
)
@click.option("--port", type=_PORT, default=0, help="The port of the service; a free one if not given.")
@click.option("--api-port", type=_PORT, default=0, help="The port of the API server; a free one if not given.")
@click.option("--config", type=click.Path(path_type=Path), help="A YAML file with settings, as `linkwise serve` has.")
@click.option(
    "--speed",
    type=click.FloatRange(0.01, 1000),
    default=1.0,
    help="How many times as fast as on the wall time passes for pods that run.",
)
@click.option("--log", type=click.Path(path_type=Path), help="Append what the service says to this file.")
@click.option("-v", "--verbose", is_flag=True, help="Show what the service says on standard error.")
def command(**words: Any) -> None:  # noqa: ANN401 - one a flag, as they are above
    """Start a cluster to try on this machine: no Kubernetes, no GPU, nothing to install.

    An API server, a scheduler and simulated machines run in this process, with the scheduler service beside them as it
    runs beside any cluster. It stays up until Ctrl-C.
    """
    from linkwise.cli.up.signals import ENDED, end_at_once  # noqa: PLC0415 - nobody else needs it

    end_at_once(ENDED)  # until something is there that has to be cleared up
    from linkwise.cli.inputs.fleet import DEFAULT, MAX_NODES, fleet_of, spread  # noqa: PLC0415 - brings yaml

    fleet = fleet_of(words["fleet"]) if words["fleet"] is not None else dict(DEFAULT)
    if (nodes := words["nodes"]) is not None:
        if nodes > MAX_NODES:
            raise click.BadParameter(f"{nodes} nodes are more than {MAX_NODES}, the maximum", param_hint="--nodes")
        fleet = spread(fleet, nodes)
    if words["port"] and words["port"] == words["api_port"]:
        raise click.UsageError(f"--port and --api-port are both {words['port']}; they must differ")
    if math.isnan(words["speed"]):
        raise click.BadParameter("nan is no number", param_hint="--speed")
    from linkwise.cli.up.kubeconfig import check  # noqa: PLC0415 - no other command needs it

    if words["kubeconfig"]:
        check(words["kubeconfig"], force=words["force"])
    settings = _settings(words["config"], words["port"])
    _start_logging(settings.log, words["log"], verbose=words["verbose"])
    from linkwise.cli.up.running import Up, stay_up  # noqa: PLC0415 - brings the cluster, the server and all policies

    stay_up(Up(fleet, settings, words["api_port"], words["speed"], words["kubeconfig"], words["force"]))


def _settings(config: Path | None, port: int) -> ServeSettings:
    """As of the service, but where it listens is said by flags alone: what a file says is meant for another cluster."""
    from linkwise.config.loading import load  # noqa: PLC0415 - brings PyYAML

    return load(config, os.environ, {"http.host": "127.0.0.1", "http.port": port})


def _start_logging(settings: LogSettings, file: Path | None, *, verbose: bool) -> None:
    """To a file, the terminal, both or neither."""
    import logging  # noqa: PLC0415 - --help needs none of it

    from linkwise.errors import InputError  # noqa: PLC0415 - same
    from linkwise.serve.logs import lines_for  # noqa: PLC0415 - same

    kept: list[logging.Handler] = [logging.StreamHandler()] if verbose else []
    if file:
        try:
            kept.append(logging.FileHandler(file, encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{file}: {error.strerror or error}") from error
    for handler in kept:
        handler.setFormatter(lines_for(settings.format))
    logging.basicConfig(level=settings.level.upper(), handlers=kept or [logging.NullHandler()], force=True)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
