"""The pages on running the service, followed step by step: accounts, roles, files and the pod as they are printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from support.doc_commands import run_blocks
from support.e2e.api_client import ApiError
from support.e2e.config_files import kubeconfig
from support.e2e.node_objects import machine, node
from support.e2e.processes import free_ports, wait_for
from support.e2e.scheduler import Scheduler, Serve
from support.e2e.service import Placing, grant, printed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.own_cluster import OwnCluster

SYSTEM: Final = "linkwise-system"


def on_page(root: Path, page: str, start: str) -> str:
    """The YAML of a page that begins so."""
    text = (root / "docs/how-to" / page).read_text("utf-8")
    (found,) = re.findall(rf"```yaml\n({re.escape(start)}.*?)```", text, re.DOTALL)
    return str(found)


@contextmanager
def applied(cluster: Cluster, manifest: str) -> Iterator[None]:
    cluster.kubectl("apply", "--filename", "-", stdin=manifest)
    yield
    cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "--filename", "-", stdin=manifest)


def account(cluster: OwnCluster, name: str) -> Path:
    """The file by which a service account reaches the cluster."""
    token = cluster.kubectl("create", "token", name, "--namespace", SYSTEM).strip()
    return kubeconfig(cluster.folder / f"account-{name}.kubeconfig", cluster.server, token, cluster.certificate)


def see(cluster: Cluster, serve: Serve, *things: Raw) -> Placing:
    """Tell of nodes, and wait until the service knows; the scheduler serves no name that a probe could give."""
    placing = Placing(cluster, serve)
    cluster.create(things)
    placing.seen(things)
    return placing


def test_the_steps_of_the_pages_lead_to_a_placed_pod(root: Path, own_cluster: OwnCluster, tmp_path: Path) -> None:
    cluster = own_cluster
    wait_until_deleted(cluster)
    cluster.kubectl("create", "namespace", SYSTEM)
    cluster.kubectl("apply", "--server-side", "--filename", "-", stdin=printed("manifests", "crd"))
    rights = on_page(root, "scheduler-config.md", "# scheduler-rbac.yaml\n")
    with applied(cluster, printed("manifests", "rbac")), applied(cluster, rights):
        serve = Serve(
            account(cluster, "linkwise"),
            cluster.folder,
            name="serve-page",
            environment={"LINKWISE_LEADER_ENABLED": "true"},
        )
        way = account(cluster, "linkwise-scheduler")
        scheduler = Scheduler(cluster.programs, tmp_path, way)
        try:
            serve.start()
            scheduler.run(printed("config", "scheduler", "--url", serve.url, "--kubeconfig", str(way)))
            see(cluster, serve, *machine("n1", "nvlink"))
            cluster.apply(on_page(root, "run-the-service.md", "apiVersion: v1\nkind: Pod\n"))
            assert len(grant(cluster.wait_bound("default", "train", 30)).devices) == 2
            assert "n1" in Placing(cluster, serve).explain("default", "train")
            assert " 403 " not in serve.process.log.read_text()
            assert "forbidden" not in scheduler.process.log.read_text()
        finally:
            scheduler.stop()
            serve.stop()


def test_the_scheduler_of_the_page_runs_beside_the_service_as_a_kube_scheduler(
    root: Path, cluster: Cluster, serve: Callable[..., Serve], shipped: str
) -> None:
    cluster.grant_printed("linkwise", shipped)
    made = serve()
    made.start()
    page = (root / "docs/how-to/run-the-service.md").read_text("utf-8")
    (words,) = re.findall(r"^linkwise (config scheduler .*) > scheduler.yaml$", page, re.MULTILINE)
    way = {"http://127.0.0.1:39999": made.url, "SCHEDULER-FILE": str(cluster.kubeconfig("scheduler"))}
    cluster.scheduler.run(printed(*(way.get(word, word) for word in words.split())))
    see(cluster, made, *machine("n1", "nvlink"))
    cluster.apply(on_page(root, "run-the-service.md", "apiVersion: v1\nkind: Pod\n"))
    assert len(grant(cluster.wait_bound("default", "train", 30)).devices) == 2


def test_with_every_pod_a_scheduler_asks_about_pods_without_devices_too(
    cluster: Cluster, namespace: str, serve: Callable[..., Serve], shipped: str
) -> None:
    cluster.grant_printed("linkwise", shipped)
    made = serve(configuration={"placing": {"every_pod": True}})
    made.start()
    way = ["--url", made.url, "--kubeconfig", str(cluster.kubeconfig("scheduler")), "--no-leader-elect"]
    cluster.scheduler.run(printed("config", "scheduler", "--every-pod", *way))
    placing = see(cluster, made, node("plain"))
    placing.create(namespace, "coordinator", {"cpu": 1}, scheduler="linkwise-scheduler")
    assert cluster.wait_bound(namespace, "coordinator")["spec"]["nodeName"] == "plain"
    wait_for(lambda: placing.metric('linkwise_binds_total{outcome="written"}') == 1, 5, "it is bound by the service")


def shell(cluster: OwnCluster, script: str) -> subprocess.CompletedProcess[str]:
    """Run a block of a page as the administrator."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{cluster.programs}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": programs, "KUBECONFIG": str(cluster.kubeconfig("admin"))}
    command = ["/bin/bash", "-euo", "pipefail", "-c", script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def wait_until_deleted(cluster: OwnCluster) -> None:
    """Each test creates the namespace, as its page says, and the one before may have left it to the garbage collector."""
    wait_for(lambda: not cluster.api.answers(f"/api/v1/namespaces/{SYSTEM}"), 60, f"namespace {SYSTEM} is gone")


def test_the_webhook_is_installed_outside_the_cluster_as_its_page_says(root: Path, own_cluster: OwnCluster) -> None:
    cluster, page = own_cluster, (root / "docs/reference/webhook.md").read_text("utf-8")
    (port,) = free_ports(1)
    user = cluster.kubeconfig("linkwise")
    filled = page.replace("9443", str(port)).replace("ADDRESS", "127.0.0.1").replace("NAME", "linkwise")
    install, attempt, remove = [block.text for block in run_blocks(filled) if block.run.startswith("tests/e2e")]
    *steps, start = install.strip().splitlines()
    assert start == "linkwise serve --config linkwise.yaml --kubeconfig FILE"
    (settings,) = (text for text in re.findall(r"```yaml\n(.*?)```", filled, re.DOTALL) if "names:" in text)
    (refusal,) = re.findall(r"```text\n(Error from server.*?)```", filled, re.DOTALL)
    configuration = yaml.safe_load(settings)
    configuration["webhook"]["port"] = port
    elected = {"LINKWISE_LEADER_ENABLED": "true"}
    serve = Serve(user, cluster.folder, name="serve-webhook", configuration=configuration, environment=elected)
    spaces = f"/api/v1/namespaces/{SYSTEM}"
    wait_until_deleted(cluster)
    try:
        for step in steps:
            done = shell(cluster, step)
            assert done.returncode == 0, f"{step}\n{done.stderr}"
        serve.start()
        wait_for(lambda: shell(cluster, attempt).stderr == refusal, 30, f"kubectl prints {refusal}")
        assert cluster.api.get(f"{spaces}/secrets/linkwise-webhook")["data"].keys() >= {"ca.crt", "tls.crt"}
        assert cluster.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/linkwise")
        assert " 403 " not in serve.process.log.read_text()
    finally:
        serve.stop()
        done = shell(cluster, remove)
        cluster.kubectl("delete", "--filename", "-", stdin=printed("manifests", "rbac", "--user", "linkwise"))
    assert done.returncode == 0, done.stderr
    with pytest.raises(ApiError, match="404"):
        cluster.api.get(f"{spaces}/secrets/linkwise-webhook")
    assert "created (server dry run)" in shell(cluster, attempt).stdout
