"""What the service may do in a real cluster is what it does: the shipped role by an audit, and the role of seed 004."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.e2e.all_it_does import NOT_SERVED, ONLY_FOR_CLAIMS, all_it_does, define_sources
from support.e2e.audit import audit_flags, right, trail_of
from support.e2e.config_files import write_json
from support.e2e.node_objects import gpushare
from support.e2e.own_cluster import OwnCluster
from support.e2e.processes import Process, wait_for
from support.e2e.scheduler import Serve
from support.e2e.service import Placing, printed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.api_client import Raw
    from support.e2e.audit import Trail
    from support.e2e.cluster import Cluster

SEED = Path(__file__).parents[3] / "shared/seeds"
MEMORY = "aliyun.com/gpu-mem"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/linkwise"
THEIR_RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["update", "patch", "get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["bindings", "pods/binding"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
]
"""the ClusterRole of GPU share's own extender"""
THEIR_POLICY: Raw = {
    "kind": "Policy",
    "apiVersion": "v1",
    "extenders": [
        {
            "filterVerb": "filter",
            "bindVerb": "bind",
            "enableHttps": False,
            "nodeCacheCapable": True,
            "managedResources": [{"name": MEMORY, "ignoredByScheduler": False}],
            "ignorable": False,
        }
    ],
}


# the role of GPU share


@pytest.fixture
def theirs(cluster: Cluster) -> Iterator[Serve]:
    """The service as GPU share's extender is run: its role, PORT and LOG_LEVEL, its old policy file, its routes."""
    cluster.grant("linkwise", THEIR_RULES)
    made = Serve(cluster.kubeconfig("linkwise"), cluster.folder, name="serve-theirs")
    words = [word for word in made.process.command if word not in {"--port", str(made.port)}]
    # Its role knows no Leases: like GPU share's extender, it is the only replica.
    environment = {"PORT": str(made.port), "LOG_LEVEL": "warn", "LINKWISE_LEADER_ENABLED": "false"}
    made.process = Process("serve-theirs", words, cluster.folder, environment)
    (extender,) = THEIR_POLICY["extenders"]
    policy = {**THEIR_POLICY, "extenders": [{"urlPrefix": f"{made.url}/gpushare-scheduler", **extender}]}
    path = write_json(cluster.folder / "policy.json", policy)
    way = ["--default-scheduler", "--no-leader-elect", "--kubeconfig", str(cluster.kubeconfig("scheduler"))]
    try:
        made.start()
        cluster.scheduler.run(printed("config", "scheduler", "--from-policy", str(path), *way))
        yield made
    finally:
        cluster.scheduler.stop()
        made.stop()


@pytest.mark.rule("004.manifests", "004.routes", "004.record")
def test_the_role_of_gpu_share_is_enough_to_share_cards(cluster: Cluster, theirs: Serve) -> None:
    placing = Placing(cluster, theirs)
    namespace = placing.namespace()
    node, unhealthy = gpushare("share", unhealthy=[0])
    placing.nodes(node, unhealthy)
    held = [placing.place(namespace, f"p{number}", {MEMORY: 12}) for number in range(2)]
    assert [granted.annotations["ALIYUN_COM_GPU_MEM_IDX"] for granted in held] == ["1", "2"]
    placing.wait_for_event(namespace, "p1", "DevicesChosen")
    asked = [placing.metric(f'linkwise_requests_total{{code="200",verb="{verb}"}}') for verb in ("filter", "bind")]
    assert min(asked) >= 2
    assert placing.serve.http.get("/gpushare-scheduler/inspect/share")["nodes"][0]["usedGPU"] == 24


@pytest.mark.rule("004.manifests", "004.routes")
def test_what_the_role_of_gpu_share_lacks_is_said_and_not_fatal(theirs: Serve) -> None:
    said = theirs.process.log.read_text()
    assert "resource=deviceinventories.linkwise.dev may not list deviceinventories.linkwise.dev" in said
    assert "grant list and watch on it (`linkwise manifests rbac` prints the role)" in said
    assert "Traceback" not in said
    assert " INFO " not in said
    assert theirs.http.answers("/readyz")


@pytest.mark.rule("004.manifests")
def test_the_role_of_gpu_share_is_that_of_the_seed() -> None:
    if not SEED.exists():
        pytest.skip("the seeds are not there")
    blocks = re.findall(r"```yaml\n(.*?)```", next(SEED.glob("004_*.txt")).read_text(), re.DOTALL)
    things = [thing for block in blocks for thing in yaml.safe_load_all(block) if thing]
    roles = {thing["metadata"]["name"]: thing for thing in things if thing["kind"] == "ClusterRole"}
    assert roles["gpushare-schd-extender"]["rules"] == THEIR_RULES


# the shipped role


@pytest.fixture(scope="module")
def trail(programs: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trail]:
    """A cluster of its own that logs every call of the service, while that does all it ever does."""
    folder = tmp_path_factory.mktemp("audited")
    cluster = OwnCluster(programs, folder, *audit_flags(folder, "linkwise"))
    role = printed("manifests", "rbac", "--user", "linkwise", "--namespace", "kube-system", "--without", "tenants")
    leader = {"leader": {"namespace": "kube-system", "service": "linkwise", "address": "192.0.2.1"}}
    made = Serve(cluster.kubeconfig("linkwise"), folder, configuration=leader, environment={"POD_NAME": "linkwise-0"})
    try:
        cluster.start()
        cluster.install(root / "deploy/crds/deviceinventories.linkwise.dev.yaml")
        cluster.install(root / "deploy/crds/acceleratorpolicies.linkwise.dev.yaml")
        define_sources(cluster)
        cluster.apply(role, "kube-system")
        about = {"name": "linkwise", "namespace": "kube-system"}
        ports = [{"name": "http", "port": 39999}]
        cluster.api.create({"apiVersion": "v1", "kind": "Service", "metadata": about, "spec": {"ports": ports}})
        cluster.api.create(lease_of_another(about))
        made.start()
        cluster.api.delete(LEASE)
        wait_for(partial(is_led_by, cluster, "linkwise-0"), 60, "the service leads when there is no Lease")
        cluster.scheduler.run(cluster.scheduling(made.url))
        placing = Placing(cluster, made)
        all_it_does(placing, partial(made.http.call, "POST"))
        repair_the_way(placing)
        made.stop()
        yield trail_of(role, folder)
    finally:
        made.stop()
        cluster.close()


def lease_of_another(metadata: dict[str, str]) -> dict[str, Any]:
    """The Lease of another leader: the service watches it as a standby."""
    renewed = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "linkwise-1", "leaseDurationSeconds": 15, "acquireTime": renewed, "renewTime": renewed}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def is_led_by(cluster: OwnCluster, holder: str) -> bool:
    return cluster.api.answers(LEASE) and cluster.api.get(LEASE)["spec"]["holderIdentity"].startswith(holder)


def repair_the_way(placing: Placing) -> None:
    """The EndpointSlice and the Endpoints that lead to the service are changed by another client."""
    own, api = "namespaces/kube-system", placing.cluster.api

    def repaired(path: str, field: str) -> bool:
        return bool(api.get(path).get(field))

    for path, field in (
        (f"/apis/discovery.k8s.io/v1/{own}/endpointslices/linkwise-leader", "endpoints"),
        (f"/api/v1/{own}/endpoints/linkwise", "subsets"),
    ):
        wait_for(partial(api.answers, path), 15, f"the leader writes {path}")
        api.call("PUT", path, {**api.get(path), field: []})
        wait_for(partial(repaired, path, field), 15, f"the leader repairs {path}")


def test_nothing_that_the_service_does_is_refused_under_the_shipped_role(trail: Trail) -> None:
    assert trail.refused == []
    assert trail.calls


def test_every_right_of_the_shipped_role_is_used(trail: Trail) -> None:
    unused = {one for one in trail.granted - trail.used if one[1:] not in ONLY_FOR_CLAIMS}
    assert {one for one in unused if one[1] not in NOT_SERVED} == set()
    assert {one[1] for one in unused} == NOT_SERVED


def test_the_service_uses_nothing_but_the_shipped_role_and_what_everybody_may(trail: Trail) -> None:
    assert trail.used <= trail.granted
    plain = {call["requestURI"].split("?")[0] for call in trail.calls if "objectRef" not in call}
    assert all(path.startswith(("/apis", "/api", "/openapi/v3/", "/version")) for path in plain)


def test_a_pod_that_is_placed_by_itself_is_written_once_and_never_patched(trail: Trail) -> None:
    about = [call for call in trail.calls if call.get("objectRef", {}).get("name") == "alone"]
    written = [right(call["verb"], call["objectRef"]) for call in about if call["verb"] not in {"get", "list", "watch"}]
    assert [one[2:] for one in written] == [("pods/binding", "create")]
