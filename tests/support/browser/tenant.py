"""A user with rights in one namespace of the cluster of `linkwise up`, and its `linkwise page`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.embedded.up_process import TriedCluster

__all__ = ["page_of_tenant"]


@contextmanager
def page_of_tenant(running: TriedCluster, namespace: str, folder: Path) -> Iterator[str]:
    """Run `linkwise page` for a service account that may read one namespace; the address that it prints."""
    kubeconfig = _kubeconfig(running, namespace, folder)
    process = subprocess.Popen(
        [sys.executable, "-m", "linkwise", "page", "--no-browser"],
        env={**running.environment, "KUBECONFIG": str(kubeconfig), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process.stdout.readline().split()[-1] if process.stdout else ""
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


def _kubeconfig(running: TriedCluster, namespace: str, folder: Path) -> Path:
    """Write the kubeconfig of a service account that is made for it."""
    rbac, account = "rbac.authorization.k8s.io", {"name": "reader", "namespace": namespace}
    api = running.api()
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    api.create(
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": account,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "ServiceAccount", **account}],
        }
    )
    asked: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = api.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/reader/token", asked)
    config = yaml.safe_load(running.kubeconfig.read_text("utf-8"))
    config["users"][0]["user"] = {"token": made["status"]["token"]}
    config["contexts"][0]["context"]["namespace"] = namespace
    file = folder / "reader.kubeconfig"
    file.write_text(json.dumps(config), "utf-8")
    return file
