"""StatefulSets, DaemonSets and the jobs of operators create the pods that their controllers would create."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from linkwise.dialects.kubernetes.pod_templates import TEMPLATES, WORKLOADS
from linkwise.embedded.api_errors import ApiError
from linkwise.explain.workload import explain_workload
from support.embedded.cluster import ClusterUnderTest, embedded

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw

GPU: Final = "nvidia.com/gpu"


def template(devices: int = 2, **more: Any) -> Raw:  # noqa: ANN401 - further fields of the spec
    container = {"name": "main", "image": "example.com/none", "resources": {"limits": {GPU: str(devices)}}}
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], **more}}


def create(cluster: ClusterUnderTest, resource: str, **spec: Any) -> None:  # noqa: ANN401 - fields of the spec
    cluster.store.create(resource, {"metadata": {"name": "web"}, "spec": spec}, "default")


def selecting(**spec: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of the spec
    return {"selector": {"matchLabels": {"app": "web"}}, "template": template(), **spec}


async def running(cluster: ClusterUnderTest, *names: str) -> None:
    """Wait until exactly these pods run."""

    def phases() -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in cluster.pods()}

    await cluster.until(lambda: phases() == dict.fromkeys(names, "Running"), f"{names} run")


def labels(cluster: ClusterUnderTest, name: str) -> dict[str, str]:
    found: dict[str, str] = cluster.pod(name)["metadata"]["labels"]
    return found


@embedded({"dgx1-v100": 1})
async def test_the_pods_of_a_stateful_set_start_in_order_and_have_stable_names(cluster: ClusterUnderTest) -> None:
    create(cluster, "statefulsets.apps", serviceName="web", replicas=3, **selecting())
    await running(cluster, "web-0", "web-1", "web-2")
    created = [cluster.pod(f"web-{ordinal}")["metadata"]["creationTimestamp"] for ordinal in range(3)]
    assert created == sorted(created)
    assert labels(cluster, "web-1")["apps.kubernetes.io/pod-index"] == "1"
    explained = explain_workload(cluster.service.broker, "statefulset", "default", "web", cluster.service.now())
    assert explained is not None
    assert explained.counts() == {"running": 3}


@embedded({"dgx1-v100": 1})
async def test_a_stateful_set_waits_for_a_pod_that_is_not_ready(cluster: ClusterUnderTest) -> None:
    create(cluster, "statefulsets.apps", replicas=2, **selecting(template=template(16)))
    await cluster.refused("web-0")
    assert [pod["metadata"]["name"] for pod in cluster.pods()] == ["web-0"]


@embedded({"dgx1-v100": 1})
async def test_a_parallel_stateful_set_starts_its_pods_at_once(cluster: ClusterUnderTest) -> None:
    create(cluster, "statefulsets.apps", replicas=2, podManagementPolicy="Parallel", **selecting(template=template(16)))
    await cluster.refused("web-1")


@embedded({"dgx1-v100": 1})
async def test_a_stateful_set_is_scaled_down_from_its_last_pod(cluster: ClusterUnderTest) -> None:
    create(cluster, "statefulsets.apps", replicas=3, **selecting())
    await running(cluster, "web-0", "web-1", "web-2")
    cluster.store.patch("statefulsets.apps", "web", {"spec": {"replicas": 1}}, "default")
    await running(cluster, "web-0")
    await cluster.until(
        lambda: cluster.store.get("statefulsets.apps", "web", "default").read()["status"]["readyReplicas"] == 1,
        "the status follows",
    )


@embedded({"dgx1-v100": 1})
async def test_a_changed_template_replaces_the_pods_of_a_stateful_set(cluster: ClusterUnderTest) -> None:
    create(cluster, "statefulsets.apps", replicas=1, **selecting())
    await running(cluster, "web-0")
    before = cluster.pod("web-0")["metadata"]["uid"]
    cluster.store.patch("statefulsets.apps", "web", {"spec": {"template": template(4)}}, "default")
    await cluster.until(
        lambda: [pod["metadata"]["uid"] for pod in cluster.pods()] not in ([], [before]), "it is replaced"
    )
    await running(cluster, "web-0")


@embedded({"dgx1-v100": 1})
async def test_a_stateful_set_has_claims_for_its_pods(cluster: ClusterUnderTest) -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    create(cluster, "statefulsets.apps", replicas=1, volumeClaimTemplates=[claim], **selecting())
    await running(cluster, "web-0")
    stored = cluster.store.get("persistentvolumeclaims", "data-web-0", "default").read()
    assert stored["status"]["phase"] == "Bound"
    assert cluster.pod("web-0")["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}
    ]


@embedded({"dgx1-v100": 3})
async def test_a_daemon_set_has_a_pod_on_each_node_that_it_selects(cluster: ClusterUnderTest) -> None:
    first, second, third = (node.name for node in cluster.store.list("nodes").items)
    for node in (first, second):
        cluster.store.patch("nodes", node, {"metadata": {"labels": {"pool": "a"}}})
    create(cluster, "daemonsets.apps", **selecting(template=template(1, nodeSelector={"pool": "a"})))
    await running(cluster, f"web-{first}", f"web-{second}")
    assert cluster.pod(f"web-{first}")["spec"]["nodeName"] == first
    cluster.store.patch("nodes", third, {"metadata": {"labels": {"pool": "a"}}})
    await running(cluster, f"web-{first}", f"web-{second}", f"web-{third}")


@embedded({"dgx1-v100": 1})
async def test_a_replication_controller_runs_its_replicas(cluster: ClusterUnderTest) -> None:
    create(cluster, "replicationcontrollers", replicas=2, selector={"app": "web"}, template=template())
    await cluster.until(
        lambda: (
            (cluster.store.get("replicationcontrollers", "web", "default").read().get("status") or {}).get(
                "readyReplicas"
            )
            == 2
        ),
        "both are ready",
    )


def roles(**counts: int) -> dict[str, Any]:
    return {role.capitalize(): {"replicas": count, "template": template()} for role, count in counts.items()}


def ray(devices: int = 1) -> dict[str, Any]:
    head = {"template": template(0)}
    return {
        "headGroupSpec": head,
        "workerGroupSpecs": [{"groupName": "gpu", "replicas": 2, "template": template(devices)}],
    }


OPERATED: Final[dict[str, tuple[str, dict[str, Any], tuple[str, ...], str]]] = {
    "JobSet": (
        "jobsets.jobset.x-k8s.io",
        {
            "replicatedJobs": [
                {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 2, "template": template(1)}}}
            ]
        },
        ("web-w-0-0", "web-w-0-1", "web-w-1-0", "web-w-1-1"),
        "jobset",
    ),
    "LeaderWorkerSet": (
        "leaderworkersets.leaderworkerset.x-k8s.io",
        {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template()}},
        ("web-0", "web-0-1", "web-1", "web-1-1"),
        "leaderworkerset",
    ),
    **{
        kind: (f"{kind.lower()}s.kubeflow.org", {key: roles(worker=2)}, ("web-worker-0", "web-worker-1"), kind.lower())
        for kind, key in {
            "PyTorchJob": "pytorchReplicaSpecs",
            "TFJob": "tfReplicaSpecs",
            "XGBoostJob": "xgbReplicaSpecs",
            "PaddleJob": "paddleReplicaSpecs",
            "JAXJob": "jaxReplicaSpecs",
            "MXJob": "mxReplicaSpecs",
            "MPIJob": "mpiReplicaSpecs",
        }.items()
    },
    "TrainJob": (
        "trainjobs.trainer.kubeflow.org",
        {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 2, "resourcesPerNode": {"limits": {GPU: 2}}}},
        ("web-node-0-0", "web-node-0-1"),
        "jobset",
    ),
    "RayCluster": (
        "rayclusters.ray.io",
        ray(),
        ("web-head", "web-gpu-worker-0", "web-gpu-worker-1"),
        "raycluster",
    ),
}


@pytest.mark.parametrize("kind", OPERATED)
def test_the_pods_of_an_operator_kind_run_and_are_explained(kind: str) -> None:
    resource, spec, names, explained_as = OPERATED[kind]

    @embedded({"dgx1-v100": 1})
    async def run(cluster: ClusterUnderTest) -> None:
        create(cluster, resource, **spec)
        await running(cluster, *names)
        explained = explain_workload(cluster.service.broker, explained_as, "default", "web", cluster.service.now())
        assert explained is not None
        assert explained.counts() == {"running": len(names)}
        cluster.store.delete(resource, "web", "default")
        await cluster.until(lambda: not cluster.pods(), "its pods are deleted with it")

    run()


@pytest.mark.parametrize(("kind", "path"), [("RayJob", "rayClusterSpec"), ("RayService", "rayClusterConfig")])
def test_a_ray_job_creates_a_ray_cluster(kind: str, path: str) -> None:
    @embedded({"dgx1-v100": 1})
    async def run(cluster: ClusterUnderTest) -> None:
        create(cluster, f"{kind.lower()}s.ray.io", **{path: ray()})
        await running(cluster, "web-raycluster-head", "web-raycluster-gpu-worker-0", "web-raycluster-gpu-worker-1")

    run()


@embedded({"dgx1-v100": 1})
async def test_a_lost_pod_of_a_job_set_is_recreated(cluster: ClusterUnderTest) -> None:
    resource, spec, names, _ = OPERATED["JobSet"]
    create(cluster, resource, **spec)
    await running(cluster, *names)
    lost = cluster.pod(names[0])["metadata"]["uid"]
    cluster.delete(names[0])
    await cluster.until(lambda: lost not in {pod["metadata"]["uid"] for pod in cluster.pods()}, "the lost pod is gone")
    await running(cluster, *names)


@embedded({"dgx1-v100": 1})
async def test_a_suspended_job_has_no_pods(cluster: ClusterUnderTest) -> None:
    resource, spec, names, _ = OPERATED["PyTorchJob"]
    create(cluster, resource, **spec)
    await running(cluster, *names)
    cluster.store.patch(resource, "web", {"spec": {"runPolicy": {"suspend": True}}}, "default")
    await cluster.until(lambda: not cluster.pods(), "its pods are deleted")


REFUSED: Final[dict[str, tuple[str, dict[str, Any], str]]] = {
    "CronJob": ("cronjobs.batch", {"schedule": "* * * * *"}, "runs no CronJobs"),
    "JobSet": ("jobsets.jobset.x-k8s.io", {}, "spec.replicatedJobs"),
    "LeaderWorkerSet": (
        "leaderworkersets.leaderworkerset.x-k8s.io",
        {"leaderWorkerTemplate": {"size": 0, "workerTemplate": {}}},
        "size",
    ),
    "TrainJob": ("trainjobs.trainer.kubeflow.org", {"trainer": {"numNodes": 2}}, "spec.runtimeRef"),
    "PyTorchJob": ("pytorchjobs.kubeflow.org", {"pytorchReplicaSpecs": {"Worker": {}}}, "no pod template"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_an_object_that_can_not_run_is_refused_with_a_sentence(kind: str) -> None:
    resource, spec, sentence = REFUSED[kind]

    @embedded({"dgx1-v100": 1})
    async def run(cluster: ClusterUnderTest) -> None:
        with pytest.raises(ApiError, match=sentence):
            create(cluster, resource, **spec)

    run()


def test_every_kind_that_is_read_is_also_run_or_refused() -> None:
    tested = {*OPERATED, *REFUSED, "RayJob", "RayService"}
    elsewhere = {"Deployment", "ReplicaSet", "Job", "StatefulSet", "DaemonSet", "ReplicationController"}
    assert {*TEMPLATES, *WORKLOADS} == tested | elsewhere
