"""`linkwise agent`: the node agent, and the measurement of bandwidth between its devices."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from linkwise.cli.options.io import json_flag
from linkwise.errors import InputError

_EPILOG: Final = """\b
Examples:
  linkwise agent --kubeconfig ~/.kube/config   # on a node, as root
  linkwise agent --driver simulated --source dgx1-v100 --plugin never
  linkwise agent --plugin never                # publish, allocate nothing
  linkwise agent --mode dra                    # serve ResourceClaims
  linkwise manifests rbac --agent | kubectl apply -f -
  linkwise agent measure --run                 # measure bandwidth

In a pod no flag is needed: NODE_NAME names the node, and the agent uses the pod's service account.
Devices are served even if the API server can't be reached. The label gpushare=true on the node
selects shares of memory (aliyun.com/gpu-mem) instead of whole devices (nvidia.com/gpu).

Routes: /livez, /readyz, /metrics; with agent.flags also /docker/cli and
/docker/cli/json.

Exit codes: 0 stopped by a signal; 1 the named kubeconfig or driver can't be used; 2 invalid arguments,
settings or files.
"""

_MEASURE: Final = """\b
Examples:
  nvbandwidth -t device_to_device_memcpy_write_ce > measured.txt
  linkwise agent measure --from measured.txt --dry-run
  linkwise agent measure --from measured.txt
  linkwise agent measure --from measured.txt --devices 0,1,2,3
  linkwise agent measure --run --limit 300     # beside the agent, as root
  linkwise agent measure --run --tool ./p2pBandwidthLatencyTest --devices 0,1

Rows belong to devices by the bus ids that the test prints. Without them the order is that of the bus
ids, if all devices are of one model; otherwise give the value of CUDA_VISIBLE_DEVICES as --devices.

Exit codes: 0 measured; 1 the test failed or was stopped, or the agent refused; 2 invalid arguments or output.
"""


@click.group("agent", epilog=_EPILOG, invoke_without_command=True)
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Path to the kubeconfig file, as for kubectl.")
@click.option("--context", metavar="NAME", help="The kubeconfig context to use; default: the current context.")
@click.option("--node", metavar="NAME", help="Name of this node; default: NODE_NAME, else the host name.")
@click.option("--driver", metavar="NAME", help="How devices are discovered: a driver, or auto (default) to try all.")
@click.option("--source", metavar="SOURCE", help="Folder of recorded outputs, or machine profile to simulate.")
@click.option("--plugin", metavar="WHEN", help="auto, or never to publish devices only.")
@click.option("--mode", metavar="MODE", help="auto, whole, share or dra.")
@click.option("--kubelet", metavar="FOLDER", help="Root folder of the kubelet.")
@click.option("--host", help="The address to serve metrics and probes on.")
@click.option("--port", type=int, help="The port to serve metrics and probes on; 0 picks a free port.")
@click.option("--config", type=click.Path(path_type=Path), help="Path to a YAML file with settings.")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
@click.pass_context
def command(
    current: click.Context, /, kubeconfig: Path | None, context: str | None, config: Path | None, **flags: object
) -> None:
    """Run the agent of this node.

    The agent discovers the node's devices and their links, publishes them as a DeviceInventory, labels and an
    annotation, and serves them to the kubelet as a device plugin: a container gets exactly the devices that the
    scheduler chose for it. Where another device plugin serves the same devices, the agent only publishes them and
    follows what the kubelet allocates.
    """
    log_level = flags.pop("log_level")
    settings = {f"agent.{name}": value for name, value in flags.items()} | {"log.level": log_level}
    if current.invoked_subcommand:
        current.obj = config, settings
        return
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # gRPC logs every closed connection otherwise
    from linkwise.config.loading import load  # noqa: PLC0415 - imports PyYAML

    try:
        from linkwise.assembly.agent import run_agent  # noqa: PLC0415 - imports gRPC and all policies
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed; install the agent with: pip install 'linkwise[agent]'"
        ) from error

    run_agent(load(config, os.environ, settings), kubeconfig, context)


@command.command("measure", epilog=_MEASURE, short_help="Measure the bandwidth between the devices of this node.")
@click.option("--from", "file", metavar="FILE", help="Import the output of a test; - reads standard input.")
@click.option("--run", "run", is_flag=True, help="Run a test on idle devices, which the agent holds meanwhile.")
@click.option("--tool", metavar="PATH", help="nvbandwidth or p2pBandwidthLatencyTest; default: the first in PATH.")
@click.option("--devices", metavar="LIST", help="UUIDs or indices: the devices to measure, or those of the rows.")
@click.option(
    "--limit", type=click.FloatRange(1, 3600), default=600, show_default=True, help="Seconds until a test is killed."
)
@click.option("--dry-run", is_flag=True, help="Change and run nothing; print what would be stored or run.")
@click.option("--node", metavar="NAME", help="Name of this node; default: NODE_NAME, else the host name.")
@click.option("--driver", metavar="NAME", help="How devices are discovered, as for the agent.")
@click.option("--source", metavar="SOURCE", help="What the driver reads, as for the agent.")
@click.option("--kubelet", metavar="FOLDER", help="Root folder of the kubelet, as for the agent.")
@click.option("--config", type=click.Path(path_type=Path), help="Path to a YAML file with settings.")
@json_flag("One JSON object.")
@click.pass_obj
def measure(  # noqa: PLR0913 - the flags of the command
    parent: tuple[Path | None, dict[str, object]],
    /,
    *,
    file: str | None,
    run: bool,
    tool: str | None,
    devices: str | None,
    limit: float,
    dry_run: bool,
    config: Path | None,
    as_json: bool,
    **flags: object,
) -> None:
    """Measure the bandwidth between the devices of this node, and keep it for the agent.

    Each value is kept with the UUIDs of its two devices, the test and the time. The agent publishes it in the
    DeviceInventory of the node within one interval. Values whose two directions differ by more than half are flagged as
    suspect.

    A test runs only on idle devices. The agent holds them: the scheduler places no pod on them, and if a pod needs one all
    the same, the test is killed before its container starts.
    """
    if run == (file is not None):
        raise click.UsageError("Use either --from FILE or --run.")
    if file is not None and tool is not None:
        raise click.UsageError("--tool can only be used with --run.")
    from linkwise.cli.reports.measure import measure as measure_node  # noqa: PLC0415 - imports rich and all drivers
    from linkwise.config.loading import load  # noqa: PLC0415 - imports PyYAML

    own = {f"agent.{name}": value for name, value in flags.items() if value is not None}
    settings = load(config or parent[0], os.environ, {**parent[1], **own}).agent
    named = tuple(devices.replace(",", " ").split()) if devices else ()
    if devices is not None and not named:
        raise click.UsageError("--devices is empty.")
    measure_node(settings, file, tool or "", named, limit, dry_run=dry_run, as_json=as_json)
