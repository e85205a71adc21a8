"""`linkwise serve`: the scheduler service."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

_EPILOG: Final = """\b
Examples:
  linkwise serve --kubeconfig ~/.kube/config
  linkwise serve --config linkwise.yaml --port 8080
  linkwise config scheduler > scheduler.yaml     # for kube-scheduler
  linkwise manifests rbac | kubectl apply -f -   # its permissions

In a pod no flag is needed: the service uses the pod's service account. PORT and LOG_LEVEL are read
from the environment, as by gpushare's extender; `linkwise config check` prints every setting and
where its value comes from.

Routes: /filter /prioritize /bind /preempt, the same under /gpushare-scheduler, /livez, /readyz,
/metrics, /debug/snapshot, /debug/leader, /debug/explain/NAMESPACE/POD.

Several replicas elect a leader by a Lease, by default linkwise in the namespace linkwise-system, or
in that of the pod; LINKWISE_LEADER_ENABLED=false for a single one.

Exit codes: 0 stopped by a signal; 1 no cluster is configured, list or watch is forbidden, there is
no namespace or permission for the Lease, another replica has taken the Lease, or etcd was restored
from a backup (an unreachable API server is retried); 2 invalid arguments, settings or files.
"""


@click.command("serve", epilog=_EPILOG)
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Path to the kubeconfig file, as for kubectl.")
@click.option("--context", metavar="NAME", help="The kubeconfig context to use; default: the current context.")
@click.option("--host", help="The address to listen on.")
@click.option("--port", type=int, help="The port to listen on; 0 picks a free port.")
@click.option("--config", type=click.Path(path_type=Path), help="Path to a YAML file with settings.")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
def command(  # noqa: PLR0913, PLR0917 - one parameter per flag
    kubeconfig: Path | None,
    context: str | None,
    host: str | None,
    port: int | None,
    config: Path | None,
    log_level: str | None,
) -> None:
    """Run the scheduler extender for one cluster.

    The service watches nodes, pods and device inventories, chooses nodes and devices for pods that request
    accelerators, and binds each pod with a single write that contains its node and its devices. On SIGTERM it completes
    the binds in flight and stops; a second SIGTERM stops it immediately.
    """
    from linkwise.assembly.service import serve  # noqa: PLC0415 - imports the server, the client and all policies
    from linkwise.config.loading import load  # noqa: PLC0415 - imports PyYAML

    flags = {"http.host": host, "http.port": port, "log.level": log_level}
    serve(load(config, os.environ, flags), kubeconfig, context)
