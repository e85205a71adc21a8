"""`linkwise agent`: the node agent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from linkwise.errors import InputError

_EPILOG: Final = """\b
Examples:
  linkwise agent --kubeconfig ~/.kube/config   # on a node, as root
  linkwise agent --driver simulated --source dgx1-v100 --plugin never
  linkwise agent --plugin never                # publish, allocate nothing
  linkwise manifests rbac --agent | kubectl apply -f -

In a pod no flag is needed: NODE_NAME names the node, and the agent uses the pod's service account.
Devices are served even if the API server can't be reached. The label gpushare=true on the node
selects shares of memory (aliyun.com/gpu-mem) instead of whole devices (nvidia.com/gpu).

Routes: /livez, /readyz, /metrics; with agent.flags also /docker/cli and
/docker/cli/json.

Exit codes: 0 stopped by a signal; 1 the named kubeconfig or driver can't be used; 2 invalid arguments,
settings or files.
"""


@click.command("agent", epilog=_EPILOG)
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Path to the kubeconfig file, as for kubectl.")
@click.option("--context", metavar="NAME", help="The kubeconfig context to use; default: the current context.")
@click.option("--node", metavar="NAME", help="Name of this node; default: NODE_NAME, else the host name.")
@click.option(
    "--driver",
    metavar="NAME",
    help="auto, nvml, nvidia-smi, dcmi, npu-smi, amdsmi, amd-smi, rocm-smi, recorded or simulated.",
)
@click.option("--source", metavar="SOURCE", help="Folder of recorded outputs, or machine profile to simulate.")
@click.option("--plugin", metavar="WHEN", help="auto, or never to publish devices only.")
@click.option("--mode", metavar="MODE", help="auto, whole or share.")
@click.option("--kubelet", metavar="FOLDER", help="Root folder of the kubelet.")
@click.option("--host", help="The address to serve metrics and probes on.")
@click.option("--port", type=int, help="The port to serve metrics and probes on; 0 picks a free port.")
@click.option("--config", type=click.Path(path_type=Path), help="Path to a YAML file with settings.")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
def command(kubeconfig: Path | None, context: str | None, config: Path | None, **flags: object) -> None:
    """Run the agent of this node.

    The agent discovers the node's devices and their links, publishes them as a DeviceInventory, labels and an
    annotation, and serves them to the kubelet as a device plugin: a container gets exactly the devices that the
    scheduler chose for it. Where another device plugin serves the same devices, the agent only publishes them and
    follows what the kubelet allocates.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # gRPC logs every closed connection otherwise
    from linkwise.config.loading import load  # noqa: PLC0415 - imports PyYAML

    try:
        from linkwise.assembly.agent import run_agent  # noqa: PLC0415 - imports gRPC and all policies
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed; install the agent with: pip install 'linkwise[agent]'"
        ) from error

    log_level = flags.pop("log_level")
    settings = {f"agent.{name}": value for name, value in flags.items()} | {"log.level": log_level}
    run_agent(load(config, os.environ, settings), kubeconfig, context)
