"""Deployments, ReplicaSets and Jobs create pods and delete them again."""

from __future__ import annotations

from typing import Any, Final

from support.embedded.cluster import Bed, embedded

GPU: Final = "nvidia.com/gpu"
INDEX: Final = "batch.kubernetes.io/job-completion-index"


def template(limits: dict[str, str], **more: Any) -> dict[str, Any]:  # noqa: ANN401 - further fields of the spec
    container = {"name": "main", "image": "example.com/none", "resources": {"limits": limits}}
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], **more}}


def deploy(bed: Bed, replicas: int, devices: int = 2) -> None:
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template({GPU: str(devices)}),
    }
    bed.store.create("deployments.apps", {"metadata": {"name": "web"}, "spec": spec}, "default")


def start(bed: Bed, name: str = "job", **more: Any) -> None:  # noqa: ANN401 - further fields of the spec
    made = template({GPU: "1"}, restartPolicy="Never")
    notes = more.pop("notes", {})
    made["metadata"]["annotations"] = notes
    bed.store.create("jobs.batch", {"metadata": {"name": name}, "spec": {"template": made, **more}}, "default")


def status(bed: Bed, kind: str, name: str) -> dict[str, Any]:
    return dict(bed.store.get(kind, name, "default").read().get("status") or {})


async def ready(bed: Bed, count: int) -> None:
    await bed.until(lambda: status(bed, "deployments.apps", "web").get("readyReplicas") == count, f"{count} are ready")


@embedded({"dgx1-v100": 1})
async def test_a_deployment_runs_its_replicas(bed: Bed) -> None:
    deploy(bed, 3)
    await ready(bed, 3)
    told = status(bed, "deployments.apps", "web")
    assert (told["replicas"], told["availableReplicas"], told["unavailableReplicas"]) == (3, 3, 0)
    await bed.well()


async def scaled(bed: Bed, count: int) -> None:
    await bed.until(lambda: len(bed.pods()) == count, "it is scaled")


@embedded({"dgx1-v100": 1})
async def test_a_deployment_is_scaled_up_and_down(bed: Bed) -> None:
    deploy(bed, 1)
    await ready(bed, 1)
    for count in (4, 2):
        bed.store.patch("deployments.apps", "web", {"spec": {"replicas": count}}, "default")
        await scaled(bed, count)
        await ready(bed, count)
    await bed.well()


@embedded({"dgx1-v100": 1})
async def test_a_changed_template_replaces_all_pods(bed: Bed) -> None:
    deploy(bed, 2)
    await ready(bed, 2)
    before = {pod["metadata"]["uid"] for pod in bed.pods()}
    bed.store.patch("deployments.apps", "web", {"spec": {"template": template({GPU: "4"})}}, "default")
    await bed.until(lambda: not before & {pod["metadata"]["uid"] for pod in bed.pods()}, "the old ones are gone")
    await ready(bed, 2)
    assert len(bed.store.list("replicasets.apps").items) == 2
    await bed.well()


@embedded({"dgx1-v100": 1})
async def test_a_deleted_pod_of_a_deployment_is_recreated(bed: Bed) -> None:
    deploy(bed, 1)
    await ready(bed, 1)
    (first,) = bed.pods()
    bed.delete(first["metadata"]["name"])
    await bed.until(lambda: [pod["metadata"]["uid"] for pod in bed.pods()] != [first["metadata"]["uid"]], "another one")
    await ready(bed, 1)


@embedded({"dgx1-v100": 1})
async def test_deleting_a_deployment_deletes_its_pods_and_frees_their_devices(bed: Bed) -> None:
    deploy(bed, 4)
    await ready(bed, 4)
    bed.store.delete("deployments.apps", "web", "default")
    await bed.until(lambda: not bed.pods(), "all pods are gone")
    assert not bed.store.list("replicasets.apps").items
    await bed.place("all", {GPU: 8})
    await bed.well()


@embedded({"dgx1-v100": 1})
async def test_a_job_runs_its_pods_to_completion(bed: Bed) -> None:
    start(bed, completions=4, parallelism=2)
    await bed.until(lambda: status(bed, "jobs.batch", "job").get("completionTime"), "it is complete")
    told = status(bed, "jobs.batch", "job")
    assert (told["succeeded"], told["failed"], told["active"]) == (4, 0, 0)
    assert {one["type"] for one in told["conditions"]} == {"SuccessCriteriaMet", "Complete"}
    assert {pod["status"]["phase"] for pod in bed.pods()} == {"Succeeded"}


@embedded({"dgx1-v100": 1})
async def test_an_indexed_job_has_a_pod_for_every_index(bed: Bed) -> None:
    start(bed, completions=3, parallelism=3, completionMode="Indexed")
    await bed.until(lambda: status(bed, "jobs.batch", "job").get("completionTime"), "it is complete")
    told = sorted(pod["metadata"]["annotations"][INDEX] for pod in bed.pods())
    assert told == sorted(pod["metadata"]["labels"][INDEX] for pod in bed.pods()) == ["0", "1", "2"]
    assert status(bed, "jobs.batch", "job")["completedIndexes"] == "0,1,2"


@embedded({"dgx1-v100": 1})
async def test_a_job_whose_pods_fail_too_often_fails(bed: Bed) -> None:
    start(bed, backoffLimit=2, notes={"sim.linkwise.dev/exit-code": "1"})
    await bed.until(lambda: status(bed, "jobs.batch", "job").get("conditions"), "it has ended")
    told = status(bed, "jobs.batch", "job")
    assert [one["reason"] for one in told["conditions"]] == ["BackoffLimitExceeded"] * 2
    assert told["failed"] == 3
