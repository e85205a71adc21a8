"""A Volcano Job has its PodGroup, its pods, and the phases that Volcano's controllers would give it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from support.embedded.volcano import NPU, QUEUES, OnlyControllers, only_controllers, volcano_job, volcano_task

EVICTED: Final = {"event": "PodEvicted", "action": "RestartJob"}
FAILED: Final = {"event": "PodFailed", "action": "RestartJob"}


def status(cluster: OnlyControllers, name: str = "job") -> dict[str, Any]:
    return dict(cluster.job(name).get("status") or {})


@only_controllers
async def test_a_job_has_a_pod_group_of_its_size_with_what_its_pods_request(cluster: OnlyControllers) -> None:
    cluster.create(volcano_job("job", volcano_task("w", 2, {NPU: 8, "cpu": 1}), minAvailable=2))
    await cluster.until(lambda: len(cluster.pods()) == 2, "its pods exist")
    (group,) = cluster.groups()
    job = cluster.job()
    assert group["metadata"]["name"] == f"job-{job['metadata']['uid']}"
    assert group["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert group["spec"] == {
        "minMember": 2,
        "minTaskMember": {"w": 2},
        "queue": "default",
        "minResources": {
            "count/pods": "2",
            "pods": "2",
            "cpu": "2",
            "requests.cpu": "2",
            "limits.cpu": "2",
            NPU: "16",
            f"requests.{NPU}": "16",
        },
    }


@only_controllers
async def test_pods_carry_volcanos_names_labels_and_annotations(cluster: OnlyControllers) -> None:
    cluster.create(volcano_job("two", volcano_task("w", 2), plugins={"env": []}))
    await cluster.until(lambda: len(cluster.pods()) == 2, "its pods exist")
    pod, uid = cluster.pods()["two-w-1"], cluster.job("two")["metadata"]["uid"]
    assert pod["metadata"]["labels"] == {
        "app": "train",
        "volcano.sh/job-name": "two",
        "volcano.sh/job-namespace": "default",
        "volcano.sh/queue-name": "default",
        "volcano.sh/task-index": "1",
        "volcano.sh/task-spec": "w",
    }
    assert pod["metadata"]["annotations"] == {
        "scheduling.k8s.io/group-name": f"two-{uid}",
        "volcano.sh/job-name": "two",
        "volcano.sh/job-retry-count": "0",
        "volcano.sh/job-version": "0",
        "volcano.sh/queue-name": "default",
        "volcano.sh/task-index": "1",
        "volcano.sh/task-spec": "w",
        "volcano.sh/template-uid": "two-w",
    }
    assert pod["spec"]["schedulerName"] == "volcano"
    env = [{"name": "VK_TASK_INDEX", "value": "1"}, {"name": "VC_TASK_INDEX", "value": "1"}]
    assert pod["spec"]["containers"][0]["env"] == env


@only_controllers
async def test_plugins_that_are_ignored_are_reported(cluster: OnlyControllers) -> None:
    cluster.create(volcano_job("job", plugins={"ssh": [], "svc": [], "env": []}))
    await cluster.until(lambda: cluster.events("Ignored"), "it is reported")
    assert cluster.events("Ignored") == ["The embedded cluster ignores spec.plugins.ssh, spec.plugins.svc"]


@only_controllers
async def test_pods_are_created_when_the_queue_is_open(cluster: OnlyControllers) -> None:
    cluster.create(volcano_job("job", queue="research"))
    await cluster.until(lambda: cluster.events("PodGroupPending"), "it is reported")
    assert cluster.events("PodGroupPending") == ['The Job stays Pending: queue "research" not found']
    assert not cluster.pods()
    cluster.store.create(QUEUES, {"metadata": {"name": "research"}, "spec": {"weight": 1}})
    await cluster.until(cluster.pods, "its pod exists")
    await cluster.until(
        lambda: cluster.store.get(QUEUES, "research").read()["spec"].get("parent") == "root", "it has a parent"
    )


@only_controllers
async def test_a_closed_queue_accepts_no_jobs(cluster: OnlyControllers) -> None:
    await cluster.until(lambda: cluster.store.find(QUEUES, "default"), "the queue exists")
    cluster.store.patch(QUEUES, "default", {"status": {"state": "Closed"}}, "", "status")
    cluster.create(volcano_job("job"))
    await cluster.until(lambda: cluster.events("PodGroupPending"), "it is reported")
    assert cluster.phase() == "Pending"
    cluster.store.patch(QUEUES, "default", {"status": {"state": "Open"}}, "", "status")
    await cluster.until(cluster.pods, "its pod exists")


@only_controllers
async def test_a_job_is_running_when_its_minimum_runs_and_completed_when_all_pods_have_succeeded(
    cluster: OnlyControllers,
) -> None:
    cluster.create(volcano_job("job", volcano_task("w", 2)))
    await cluster.running("job-w-0", "job-w-1")
    assert (status(cluster)["running"], status(cluster)["minAvailable"]) == (2, 2)
    assert status(cluster)["taskStatusCount"] == {"w": {"phase": {"Running": 2}}}
    cluster.set_phase("Succeeded", "job-w-0", "job-w-1")
    await cluster.until(lambda: cluster.phase() == "Completed" and not cluster.groups(), "it is completed")
    assert status(cluster)["succeeded"] == 2
    assert "running" not in status(cluster)
    assert [condition["status"] for condition in status(cluster)["conditions"]] == ["Pending", "Running", "Completed"]


@only_controllers
async def test_a_job_without_policies_fails_when_its_pods_have_failed(cluster: OnlyControllers) -> None:
    cluster.create(volcano_job("job", volcano_task("w", 2)))
    await cluster.running("job-w-0", "job-w-1")
    cluster.set_phase("Succeeded", "job-w-0")
    cluster.set_phase("Failed", "job-w-1", code=1)
    await cluster.until(lambda: cluster.phase() == "Failed", "it has failed")
    assert (status(cluster)["succeeded"], status(cluster)["failed"]) == (1, 1)
    assert set(cluster.pods()) == {"job-w-0", "job-w-1"}


@only_controllers
async def test_a_failed_pod_restarts_the_job_until_its_retries_are_used_up(cluster: OnlyControllers) -> None:
    cluster.create(volcano_job("job", volcano_task("w", 2), policies=[FAILED], maxRetry=2))
    await cluster.running("job-w-0", "job-w-1")
    first = {pod["metadata"]["uid"] for pod in cluster.pods().values()}
    cluster.set_phase("Failed", "job-w-1", code=1)
    await cluster.until(lambda: len(cluster.pods()) == 2 and not first & _uids(cluster), "its pods are new")
    assert (status(cluster)["retryCount"], status(cluster)["version"]) == (1, 1)
    assert cluster.pods()["job-w-0"]["metadata"]["annotations"]["volcano.sh/job-version"] == "1"
    await cluster.running("job-w-0", "job-w-1")
    cluster.set_phase("Failed", "job-w-1", code=1)
    await cluster.until(lambda: cluster.phase() == "Failed" and set(cluster.pods()) == {"job-w-1"}, "it has failed")


def _uids(cluster: OnlyControllers) -> set[str]:
    return {pod["metadata"]["uid"] for pod in cluster.pods().values()}


@only_controllers
async def test_an_evicted_pod_restarts_the_job_and_without_that_policy_is_replaced(cluster: OnlyControllers) -> None:
    cluster.create(volcano_job("job", volcano_task("w", 2), policies=[EVICTED]))
    await cluster.running("job-w-0", "job-w-1")
    first = _uids(cluster)
    cluster.store.delete("pods", "job-w-0", "default")
    await cluster.until(lambda: len(cluster.pods()) == 2 and not first & _uids(cluster), "both pods are new")
    cluster.create(volcano_job("other", volcano_task("w", 2)))
    await cluster.until(lambda: "other-w-1" in cluster.pods(), "its pods exist")
    kept = cluster.pods()["other-w-0"]["metadata"]["uid"]
    gone = cluster.pods()["other-w-1"]["metadata"]["uid"]
    cluster.store.delete("pods", "other-w-1", "default")
    await cluster.until(
        lambda: cluster.pods().get("other-w-1", {"metadata": {"uid": gone}})["metadata"]["uid"] != gone, "new"
    )
    assert cluster.pods()["other-w-0"]["metadata"]["uid"] == kept


@only_controllers
async def test_a_completed_task_completes_the_job_and_stops_the_other_pods(cluster: OnlyControllers) -> None:
    done = {"event": "TaskCompleted", "action": "CompleteJob"}
    cluster.create(volcano_job("job", volcano_task("master", policies=[done]), volcano_task("worker", 2)))
    await cluster.running("job-master-0", "job-worker-0", "job-worker-1")
    cluster.set_phase("Succeeded", "job-master-0")
    await cluster.until(lambda: cluster.phase() == "Completed", "it is completed")
    assert set(cluster.pods()) == {"job-master-0"}
    assert cluster.events("ExecuteAction") == ["Start to execute action CompleteJob: TaskCompleted of task master"]


@pytest.mark.parametrize(("action", "phase"), [("AbortJob", "Aborted"), ("TerminateJob", "Terminated")])
@only_controllers
async def test_an_exit_code_can_end_the_job(cluster: OnlyControllers, action: str, phase: str) -> None:
    policies = [{"exitCode": 3, "action": action}, FAILED]
    cluster.create(volcano_job("job", volcano_task("w", 2), policies=policies))
    await cluster.running("job-w-0", "job-w-1")
    cluster.set_phase("Failed", "job-w-0", code=3)
    await cluster.until(lambda: cluster.phase() == phase, "it has ended")
    assert set(cluster.pods()) == {"job-w-0"}


@only_controllers
async def test_changed_replicas_are_created_or_deleted_from_the_end(cluster: OnlyControllers) -> None:
    cluster.create(volcano_job("job", volcano_task("w", 2, minAvailable=1), minAvailable=1, policies=[EVICTED]))
    await cluster.running("job-w-0", "job-w-1")
    for replicas, names in ((4, {"job-w-0", "job-w-1", "job-w-2", "job-w-3"}), (1, {"job-w-0"})):
        tasks = [{**cluster.job()["spec"]["tasks"][0], "replicas": replicas}]
        cluster.store.patch("jobs.batch.volcano.sh", "job", {"spec": {"tasks": tasks}}, "default")
        await cluster.until(lambda names=names: set(cluster.pods()) == names, "it is scaled")  # type: ignore[misc]
    assert not cluster.events("ExecuteAction")
    assert "retryCount" not in status(cluster)


@only_controllers
async def test_a_changed_minimum_changes_the_pod_group(cluster: OnlyControllers) -> None:
    cluster.create(volcano_job("job", volcano_task("w", 4, {NPU: 8})))
    await cluster.until(lambda: len(cluster.pods()) == 4, "its pods exist")
    tasks = [{**cluster.job()["spec"]["tasks"][0], "replicas": 2, "minAvailable": 2}]
    cluster.store.patch("jobs.batch.volcano.sh", "job", {"spec": {"tasks": tasks, "minAvailable": 2}}, "default")
    await cluster.until(lambda: cluster.groups()[0]["spec"]["minMember"] == 2, "it is changed")
    assert cluster.groups()[0]["spec"]["minResources"][NPU] == "16"
    assert cluster.groups()[0]["spec"]["minTaskMember"] == {"w": 2}


@only_controllers
async def test_a_deleted_job_takes_its_pods_and_pod_group_with_it(cluster: OnlyControllers) -> None:
    cluster.create(volcano_job("job", volcano_task("w", 3)))
    await cluster.until(cluster.pods, "its first pod exists")
    cluster.store.delete("jobs.batch.volcano.sh", "job", "default")
    await cluster.until(lambda: not cluster.pods() and not cluster.groups(), "all is gone")


@only_controllers
async def test_a_finished_job_is_deleted_after_its_time(cluster: OnlyControllers) -> None:
    cluster.create(volcano_job("job", volcano_task("w"), ttlSecondsAfterFinished=0))
    await cluster.running("job-w-0")
    cluster.set_phase("Succeeded", "job-w-0")
    await cluster.until(lambda: cluster.store.find("jobs.batch.volcano.sh", "job", "default") is None, "it is deleted")
    await cluster.until(lambda: not cluster.pods(), "its pods too")


@only_controllers
async def test_a_pod_name_that_is_taken_is_reported_and_tried_again(cluster: OnlyControllers) -> None:
    other = {"metadata": {"name": "job-w-0"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    cluster.store.create("pods", other, "default")
    cluster.create(volcano_job("job", volcano_task("w", 2)))
    await cluster.until(lambda: cluster.events("FailedCreate"), "it is reported")
    assert cluster.events("FailedCreate") == ['Error creating pods: pods "job-w-0" already exists']
    assert "job-w-1" in cluster.pods()
    cluster.store.delete("pods", "job-w-0", "default")
    await cluster.until(
        lambda: "ownerReferences" in cluster.pods().get("job-w-0", {"metadata": {}})["metadata"], "it is created"
    )


@only_controllers
async def test_pod_groups_count_their_pods(cluster: OnlyControllers) -> None:
    cluster.create(volcano_job("job", volcano_task("w", 2)))
    await cluster.until(lambda: len(cluster.pods()) == 2, "its pods exist")
    assert cluster.groups()[0]["status"] == {"phase": "Inqueue"}
    for name in ("job-w-0", "job-w-1"):
        cluster.store.bind(name, "default", {"target": {"kind": "Node", "name": "n"}})
    await cluster.running("job-w-0", "job-w-1")
    await cluster.until(lambda: cluster.groups()[0]["status"] == {"phase": "Running", "running": 2}, "it runs")


@only_controllers
async def test_a_pod_of_volcanos_scheduler_gets_a_pod_group_of_its_own(cluster: OnlyControllers) -> None:
    spec = {"schedulerName": "volcano", "containers": [{"name": "a", "image": "b", "resources": {"limits": {NPU: 2}}}]}
    uid = cluster.store.create("pods", {"metadata": {"name": "alone"}, "spec": spec}, "default").uid
    await cluster.until(
        lambda: cluster.groups() and cluster.groups()[0].get("status") == {"phase": "Inqueue"}, "it is enqueued"
    )
    (group,) = cluster.groups()
    assert group["metadata"]["name"] == f"podgroup-{uid}"
    assert (group["spec"]["minMember"], group["spec"]["minResources"][NPU]) == (1, "2")
    assert cluster.pods()["alone"]["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == f"podgroup-{uid}"
    cluster.store.delete("pods", "alone", "default")
    await cluster.until(lambda: not cluster.groups(), "its PodGroup is gone")


@only_controllers
async def test_pods_of_one_controller_share_a_pod_group_of_the_size_it_names(cluster: OnlyControllers) -> None:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "a", "image": "b"}]},
    }
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    notes = {"scheduling.volcano.sh/group-min-member": "3"}
    made = cluster.store.create(
        "replicasets.apps", {"metadata": {"name": "web", "annotations": notes}, "spec": spec}, "default"
    )
    await cluster.until(
        lambda: [_group(pod) for pod in cluster.pods().values()] == [f"podgroup-{made.uid}"] * 3, "they have one"
    )
    (group,) = cluster.groups()
    assert (group["metadata"]["name"], group["spec"]["minMember"]) == (f"podgroup-{made.uid}", 3)


def _group(pod: dict[str, Any]) -> str:
    return str((pod["metadata"].get("annotations") or {}).get("scheduling.k8s.io/group-name", ""))
