"""A real Kubernetes for the tests of this folder, started once: `make e2e` asks for it, `make test` does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.e2e.agent import GPU, MEMORY, Agent, agent_role
from support.e2e.external_cluster import GivenCluster
from support.e2e.lossy_proxy import Line
from support.e2e.own_cluster import OwnCluster
from support.e2e.real_node.machine import demanded_machine
from support.e2e.real_node.node import RealNode, running_node
from support.e2e.scheduler import Serve
from support.e2e.service import Placing, printed, running_service
from support.e2e.volcano_placing import VolcanoPlacing, running_volcano
from support.e2e.webhook import WebhookService, running_webhook
from support.nvml_stub.machine import dgx1_v100, two_pcie

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from linkwise.config.volcano import Mode
    from support.e2e.cluster import Cluster
    from support.e2e.real_node.machine import Machine
    from support.e2e.volcano import Volcano

collect_ignore_glob = [] if os.environ.get("LINKWISE_E2E") else ["*"]


def ended(number: int, _frame: object) -> None:
    """Leave as after Ctrl-C, so that fixtures end what they have started."""
    pytest.exit(f"ended by {signal.Signals(number).name}", returncode=128 + number)


def built(root: Path, module: str) -> Path:
    """The folder with the programs of a module of scripts/kubernetes.py."""
    command = [sys.executable, str(root / "scripts/kubernetes.py"), "build", module]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="session")
def image_archive(root: Path) -> Path:
    """The container image of this checkout as an OCI archive."""
    if os.geteuid() != 0:
        pytest.skip("only root can assemble a root file system")
    command = [sys.executable, str(root / "scripts/oci_image.py"), "--cached", "--install"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="session")
def programs(root: Path) -> Path:
    return built(root, "kubernetes")


@pytest.fixture(scope="session")
def container_programs(root: Path) -> Path:
    return built(root, "containerd")


@pytest.fixture(scope="session")
def volcano_programs(root: Path) -> Path:
    return built(root, "volcano")


@pytest.fixture(scope="session")
def helm_programs(root: Path) -> Path:
    return built(root, "helm")


@pytest.fixture(scope="session")
def kubeconform_programs(root: Path) -> Path:
    return built(root, "kubeconform")


@pytest.fixture(scope="session")
def actionlint_programs(root: Path) -> Path:
    return built(root, "actionlint")


@pytest.fixture(scope="session")
def prometheus_definitions(root: Path) -> Path:
    """The folder with the CRDs of the Prometheus Operator."""
    return built(root, "prometheus-operator").parent / "manifests"


@pytest.fixture(scope="session")
def kubernetes(programs: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster of this run; tests take `cluster`, which is empty, unless they share what they make."""
    before = {number: signal.signal(number, ended) for number in (signal.SIGTERM, signal.SIGHUP)}
    theirs, folder = os.environ.get("LINKWISE_E2E_KUBECONFIG"), tmp_path_factory.mktemp("cluster")
    made = GivenCluster(programs, folder, Path(theirs)) if theirs else OwnCluster(programs, folder)
    try:
        made.start()
        made.install(root / "deploy/crds/deviceinventories.linkwise.dev.yaml")
        made.install(root / "deploy/crds/acceleratorpolicies.linkwise.dev.yaml")
        yield made
    finally:
        made.close()
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.fixture
def cluster(kubernetes: Cluster) -> Iterator[Cluster]:
    """The cluster, with nothing in it; what a test makes is removed after it."""
    yield kubernetes
    kubernetes.clear()


@pytest.fixture
def own_cluster(cluster: Cluster) -> OwnCluster:
    """The same, where its components may be killed."""
    if not isinstance(cluster, OwnCluster):
        pytest.skip("this needs a cluster of our own: leave out KUBECONFIG")
    return cluster


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    """A namespace of the test's own."""
    return cluster.namespace()


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Namespaces for a real node; `make e2e` demands them, any other value of LINKWISE_E2E than 1 does not."""
    if os.environ.get("LINKWISE_E2E_KUBECONFIG"):
        pytest.skip("this needs a cluster of our own: leave out KUBECONFIG")
    with demanded_machine(tmp_path_factory.mktemp("machine")) as made:
        yield made


@pytest.fixture
def real_node(own_cluster: OwnCluster, machine: Machine, container_programs: Path) -> Iterator[RealNode]:
    """A node of the cluster with a real kubelet and containerd, new for every test.

    `pod = container_pod(namespace, "train", {"nvidia.com/gpu": 1})` is a pod that waits; `real_node.run(pod)` creates it
    and returns when it runs. `real_node.environment(pod)` and `real_node.devices(pod)` show what its container sees.
    """
    with running_node(own_cluster, machine, container_programs) as made:
        yield made


@pytest.fixture(scope="session")
def agents_role(kubernetes: Cluster) -> Iterator[None]:
    """The role that is shipped for the agent, bound to its user; clearing the cluster leaves it."""
    role = agent_role(kubernetes)
    yield
    kubernetes.kubectl("delete", "--ignore-not-found", "--filename", "-", stdin=role)


@pytest.fixture
def agent(request: pytest.FixtureRequest, real_node: RealNode, tmp_path: Path) -> Iterator[Agent]:
    """The agent of the real node, to be started: `agent.start(dgx1_v100())`; tests end with `agent.agree()`."""
    request.getfixturevalue("agents_role")
    made = Agent(real_node, tmp_path)
    yield made
    made.stop()


@pytest.fixture
def whole_agent(agent: Agent, placing: Placing) -> Agent:
    """The agent serves eight whole GPUs, and the scheduler knows."""
    agent.start(dgx1_v100())
    agent.node.wait_allocatable(GPU, 8)
    agent.wait_seen(placing)
    return agent


@pytest.fixture
def share_agent(agent: Agent, placing: Placing) -> Agent:
    """The agent serves the memory of two GPUs, fifteen units each, and the scheduler knows."""
    agent.cluster.kubectl("label", "node", agent.node.name, "gpushare=true")
    agent.start(two_pcie())
    agent.node.wait_allocatable(MEMORY, 2 * 15)
    agent.wait_seen(placing)
    return agent


@pytest.fixture
def serve(cluster: Cluster) -> Iterator[Callable[..., Serve]]:
    """Makes services of the user linkwise, to be started; whichever run in the end are ended."""
    made: list[Serve] = []

    def make(**settings: Any) -> Serve:  # noqa: ANN401 - as Serve has them
        settings = {"name": f"serve-{len(made)}", **settings}
        made.append(Serve(cluster.kubeconfig("linkwise"), cluster.folder, **settings))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def service(cluster: Cluster, serve: Callable[..., Serve]) -> Serve:
    """A running service with exactly the role that is shipped; kube-scheduler asks it, for pods that name none too."""
    cluster.grant_printed("linkwise", printed("manifests", "rbac"))
    made = serve()
    made.start()
    way = ["--kubeconfig", str(cluster.kubeconfig("scheduler")), "--no-leader-elect"]
    cluster.scheduler.run(printed("config", "scheduler", "--url", made.url, "--default-scheduler", *way))
    return made


@pytest.fixture(scope="session")
def shipped() -> str:
    """The role that is shipped, as `linkwise manifests rbac` prints it."""
    return printed("manifests", "rbac")


@pytest.fixture(scope="module")
def line(kubernetes: Cluster) -> Iterator[Line]:
    """A bad line to the API server, for files whose own `answering` speaks over it."""
    if not isinstance(kubernetes, OwnCluster):
        pytest.skip("this needs a cluster of our own: leave out KUBECONFIG")
    made = Line(kubernetes)
    made.start()
    yield made
    made.close()


@pytest.fixture(scope="module")
def answering(kubernetes: Cluster) -> Iterator[Serve]:
    """The same once for all tests of a file: clearing the cluster between them leaves its role."""
    with running_service(kubernetes, "answering") as made:
        yield made


@pytest.fixture
def placing(answering: Serve, cluster: Cluster) -> Placing:
    """An empty cluster whose kube-scheduler asks a service that runs as long as the tests of this file.

    `placing.nodes(*machine("n1", "nvlink"))` tells of nodes and waits until they are seen;
    `placing.place(placing.namespace(), "train", {"nvidia.com/gpu": 2})` makes a pod and says where it is and which
    devices it holds, from its API object alone. A test that kills the service starts it again.
    """
    found = Placing(cluster, answering)
    found.empty()
    return found


@pytest.fixture(scope="module")
def webhook(kubernetes: Cluster) -> Iterator[WebhookService]:
    """A service with its admission webhook once for all tests of a file; a test that kills it starts it again."""
    with running_webhook(kubernetes, "webhook", flags=("--pod-opt-out",)) as made:
        yield made


@pytest.fixture
def admitting(webhook: WebhookService, cluster: Cluster) -> Placing:
    """As `placing`, with a webhook: pods that request devices need not name a scheduler."""
    found = Placing(cluster, webhook.serve)
    found.empty()
    return found


@pytest.fixture(scope="module")
def volcano_mode() -> Mode:
    """Files whose tests run in gated mode, or in both, have their own."""
    return "extender"


@pytest.fixture(scope="module")
def volcano_settings() -> Mapping[str, Mapping[str, Any]]:
    """Settings of the service by section; files whose tests need others have their own."""
    return {}


@pytest.fixture(scope="module")
def volcano_service(
    kubernetes: Cluster,
    volcano_programs: Path,
    volcano_mode: Mode,
    volcano_settings: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[Serve, Volcano]]:
    """A service that Volcano calls by seed 003's own file, once for all tests of a file."""
    if not isinstance(kubernetes, OwnCluster):
        pytest.skip("this needs a cluster of our own: leave out KUBECONFIG")
    with running_volcano(kubernetes, volcano_programs, volcano_mode, volcano_settings) as made:
        yield made


@pytest.fixture
def volcano(volcano_service: tuple[Serve, Volcano], own_cluster: OwnCluster) -> VolcanoPlacing:
    """An empty cluster whose Volcano calls a service; kube-scheduler calls it too.

    `volcano.nodes(*ascend("a"))` makes nodes; `volcano.run(volcano_job(namespace, "train", {NPU: 4}))` submits a Volcano Job
    and returns what its pods were given. A test that kills a program starts it again.
    """
    serve, scheduler = volcano_service
    found = VolcanoPlacing(own_cluster, serve, scheduler)
    found.empty()
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show beside a failure what the programs said last."""
    report = yield
    values: dict[str, object] = getattr(item, "funcargs", {})
    running, node = values.get("cluster"), values.get("real_node")
    logs: list[Path] = []
    if isinstance(running, OwnCluster | GivenCluster):
        logs += [
            log for log in running.folder.glob("*.log") if log.stem.startswith(("serve", "kube-scheduler", "volcano"))
        ]
    if isinstance(node, RealNode):
        logs += node.machine.folder.glob("*.log")
    if report.failed:
        for log in sorted(logs):
            report.sections.append((str(log), "\n".join(log.read_text(errors="replace").splitlines()[-15:])))
    return report
