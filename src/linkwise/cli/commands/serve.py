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
  linkwise config scheduler > scheduler.yaml     # who calls it
  linkwise manifests rbac | kubectl apply -f -   # what it may do

In a cluster no flag is needed: the service account of the pod is used. PORT and LOG_LEVEL are read
from the environment as gpushare's extender reads them; `linkwise config check` shows every setting
and where its value comes from.

Routes: /filter /prioritize /bind /preempt, the same under /gpushare-scheduler, /livez, /readyz,
/metrics, /debug/snapshot, /debug/explain/NAMESPACE/POD.

Exit codes: 0 stopped by a signal; 1 no cluster is named, it may not be followed, or its data were
restored from a backup (one that does not answer is waited for); 2 a setting or a file makes no
sense.
"""


@click.command("serve", epilog=_EPILOG)
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="The file that names the cluster, as for kubectl.")
@click.option("--context", metavar="NAME", help="The context of that file; its current one if not given.")
@click.option("--host", help="The address to listen on.")
@click.option("--port", type=int, help="The port to listen on; 0 takes a free one.")
@click.option("--config", type=click.Path(path_type=Path), help="A YAML file with settings.")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
def command(  # noqa: PLR0913, PLR0917 - one a flag
    kubeconfig: Path | None,
    context: str | None,
    host: str | None,
    port: int | None,
    config: Path | None,
    log_level: str | None,
) -> None:
    """Answer kube-scheduler's extender calls for one cluster.

    The service follows nodes, pods and inventories, chooses nodes and devices for pods that ask for accelerators, and
    binds each pod in one write that holds its node and its devices. It stops on SIGTERM after the binds that are under
    way, and at once on a second one.
    """
    from linkwise.assembly.service import serve  # noqa: PLC0415 - brings the server, the client and all policies
    from linkwise.config.loading import load  # noqa: PLC0415 - brings PyYAML

    flags = {"http.host": host, "http.port": port, "log.level": log_level}
    serve(load(config, os.environ, flags), kubeconfig, context)
