"""Deployments, ReplicaSets and Jobs create pods and delete them again."""

from __future__ import annotations

from typing import Any, Final

from support.embedded.cluster import ClusterUnderTest, embedded

GPU: Final = "nvidia.com/gpu"
INDEX: Final = "batch.kubernetes.io/job-completion-index"


def template(limits: dict[str, str], **more: Any) -> dict[str, Any]:  # noqa: ANN401 - further fields of the spec
    container = {"name": "main", "image": "example.com/none", "resources": {"limits": limits}}
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], **more}}


def deploy(cluster: ClusterUnderTest, replicas: int, devices: int = 2) -> None:
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template({GPU: str(devices)}),
    }
    cluster.store.create("deployments.apps", {"metadata": {"name": "web"}, "spec": spec}, "default")


def start(cluster: ClusterUnderTest, name: str = "job", **more: Any) -> None:  # noqa: ANN401 - further fields of the spec
    made = template({GPU: "1"}, restartPolicy="Never")
    notes = more.pop("notes", {})
    made["metadata"]["annotations"] = notes
    cluster.store.create("jobs.batch", {"metadata": {"name": name}, "spec": {"template": made, **more}}, "default")


def status(cluster: ClusterUnderTest, kind: str, name: str) -> dict[str, Any]:
    return dict(cluster.store.get(kind, name, "default").read().get("status") or {})


async def ready(cluster: ClusterUnderTest, count: int) -> None:
    await cluster.until(
        lambda: status(cluster, "deployments.apps", "web").get("readyReplicas") == count, f"{count} are ready"
    )


@embedded({"dgx1-v100": 1})
async def test_a_deployment_runs_its_replicas(cluster: ClusterUnderTest) -> None:
    deploy(cluster, 3)
    await ready(cluster, 3)
    deployment_status = status(cluster, "deployments.apps", "web")
    assert (
        deployment_status["replicas"],
        deployment_status["availableReplicas"],
        deployment_status["unavailableReplicas"],
    ) == (3, 3, 0)
    await cluster.well()


async def scaled(cluster: ClusterUnderTest, count: int) -> None:
    await cluster.until(lambda: len(cluster.pods()) == count, "it is scaled")


@embedded({"dgx1-v100": 1})
async def test_a_deployment_is_scaled_up_and_down(cluster: ClusterUnderTest) -> None:
    deploy(cluster, 1)
    await ready(cluster, 1)
    for count in (4, 2):
        cluster.store.patch("deployments.apps", "web", {"spec": {"replicas": count}}, "default")
        await scaled(cluster, count)
        await ready(cluster, count)
    await cluster.well()


@embedded({"dgx1-v100": 1})
async def test_a_changed_template_replaces_all_pods(cluster: ClusterUnderTest) -> None:
    deploy(cluster, 2)
    await ready(cluster, 2)
    before = {pod["metadata"]["uid"] for pod in cluster.pods()}
    cluster.store.patch("deployments.apps", "web", {"spec": {"template": template({GPU: "4"})}}, "default")
    await cluster.until(
        lambda: not before & {pod["metadata"]["uid"] for pod in cluster.pods()}, "the old ones are gone"
    )
    await ready(cluster, 2)
    assert len(cluster.store.list("replicasets.apps").items) == 2
    await cluster.well()


@embedded({"dgx1-v100": 1})
async def test_a_deleted_pod_of_a_deployment_is_recreated(cluster: ClusterUnderTest) -> None:
    deploy(cluster, 1)
    await ready(cluster, 1)
    (first,) = cluster.pods()
    cluster.delete(first["metadata"]["name"])
    await cluster.until(
        lambda: [pod["metadata"]["uid"] for pod in cluster.pods()] != [first["metadata"]["uid"]], "another one"
    )
    await ready(cluster, 1)


@embedded({"dgx1-v100": 1})
async def test_deleting_a_deployment_deletes_its_pods_and_frees_their_devices(cluster: ClusterUnderTest) -> None:
    deploy(cluster, 4)
    await ready(cluster, 4)
    cluster.store.delete("deployments.apps", "web", "default")
    await cluster.until(lambda: not cluster.pods(), "all pods are gone")
    assert not cluster.store.list("replicasets.apps").items
    await cluster.place("all", {GPU: 8})
    await cluster.well()


@embedded({"dgx1-v100": 1})
async def test_a_job_runs_its_pods_to_completion(cluster: ClusterUnderTest) -> None:
    start(cluster, completions=4, parallelism=2)
    await cluster.until(lambda: status(cluster, "jobs.batch", "job").get("completionTime"), "it is complete")
    job_status = status(cluster, "jobs.batch", "job")
    assert (job_status["succeeded"], job_status["failed"], job_status["active"]) == (4, 0, 0)
    assert {one["type"] for one in job_status["conditions"]} == {"SuccessCriteriaMet", "Complete"}
    assert {pod["status"]["phase"] for pod in cluster.pods()} == {"Succeeded"}


@embedded({"dgx1-v100": 1})
async def test_an_indexed_job_has_a_pod_for_every_index(cluster: ClusterUnderTest) -> None:
    start(cluster, completions=3, parallelism=3, completionMode="Indexed")
    await cluster.until(lambda: status(cluster, "jobs.batch", "job").get("completionTime"), "it is complete")
    indices = sorted(pod["metadata"]["annotations"][INDEX] for pod in cluster.pods())
    assert indices == sorted(pod["metadata"]["labels"][INDEX] for pod in cluster.pods()) == ["0", "1", "2"]
    assert status(cluster, "jobs.batch", "job")["completedIndexes"] == "0,1,2"


@embedded({"dgx1-v100": 1})
async def test_a_job_whose_pods_fail_too_often_fails(cluster: ClusterUnderTest) -> None:
    start(cluster, backoffLimit=2, notes={"sim.linkwise.dev/exit-code": "1"})
    await cluster.until(lambda: status(cluster, "jobs.batch", "job").get("conditions"), "it has ended")
    job_status = status(cluster, "jobs.batch", "job")
    assert [one["reason"] for one in job_status["conditions"]] == ["BackoffLimitExceeded"] * 2
    assert job_status["failed"] == 3
