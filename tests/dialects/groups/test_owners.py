"""Pods of one workload are one group, by the labels and owner references that its controllers set."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from linkwise.dialects.groups.membership import group_by_owner
from linkwise.dialects.groups.owners import OwnerRules
from linkwise.model.settings import GroupSettings
from linkwise.model.views import Owner, PodView

if TYPE_CHECKING:
    from linkwise.dialects.groups.owners import OwnerMode
    from linkwise.model.ask import Group

JOBSET = "jobset.sigs.k8s.io/"
LWS = "leaderworkerset.sigs.k8s.io/"
TRAINING = "training.kubeflow.org/"
INDEX = "batch.kubernetes.io/job-completion-index"


def read(
    owner: Owner | None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    mode: OwnerMode = "group",
) -> Group:
    pod = PodView("team", "pod", "uid", labels=labels or {}, annotations=annotations or {}, owner=owner)
    group, problems = group_by_owner(pod, mode)
    assert group is not None
    assert not problems
    return group


def jobset(job: int, index: int, role: str = "workers", attempt: int = 0, uid: str = "js") -> Group:
    labels = {
        f"{JOBSET}jobset-name": "llama",
        f"{JOBSET}jobset-uid": uid,
        f"{JOBSET}replicatedjob-name": role,
        f"{JOBSET}job-global-index": str(job),
        f"{JOBSET}restart-attempt": str(attempt),
        INDEX: str(index),
    }
    return read(Owner("Job", f"llama-{role}-{job}", f"job-{job}-{attempt}"), labels)


def lws(group: int, worker: int, *, mode: OwnerMode = "group", revision: str = "r1") -> Group:
    labels = {
        f"{LWS}name": "vllm",
        f"{LWS}group-index": str(group),
        f"{LWS}group-key": f"hash{group}",
        f"{LWS}worker-index": str(worker),
        f"{LWS}template-revision-hash": revision,
    }
    owner = Owner("StatefulSet", "vllm", "set") if not worker else Owner("StatefulSet", f"vllm-{group}", f"set-{group}")
    return read(owner, labels, {f"{LWS}size": "4"}, mode)


def training(kind: str, role: str, index: int, owner: Owner | None = None, operator: str = "") -> Group:
    labels = {
        f"{TRAINING}job-name": "bert",
        f"{TRAINING}replica-type": role,
        f"{TRAINING}replica-index": str(index),
        f"{TRAINING}operator-name": operator or f"{kind.casefold()}-controller",
    }
    return read(owner or Owner(kind, "bert", "tj"), labels)


def ray(kind: str, group: str, uid: str = "rc") -> Group:
    labels = {"ray.io/cluster": "tune-raycluster-x7", "ray.io/node-type": kind, "ray.io/group": group}
    return read(Owner("RayCluster", "tune-raycluster-x7", uid), labels)


def test_pods_of_a_job_are_one_group_in_the_order_of_their_indexes() -> None:
    first, second = (read(Owner("Job", "train", "j1"), {INDEX: str(number)}) for number in range(2))
    assert first.key == second.key == "team/train.j1"
    assert (first.rank, second.rank) == (0, 1)
    assert read(Owner("Job", "train", "j2")).key != first.key, "a new Job of that name"


def test_all_jobs_of_a_jobset_are_one_group_and_a_restart_is_another() -> None:
    driver, first, later = jobset(0, 0, "driver"), jobset(1, 0), jobset(2, 1)
    assert driver.key == first.key == later.key == "team/llama.js.0"
    assert [driver.role, first.role] == ["driver", "workers"]
    assert all((a.rank or 0) < (b.rank or 0) for a, b in pairwise([driver, first, later]))
    assert jobset(1, 0, attempt=1).key != first.key
    assert jobset(1, 0, uid="other").key != first.key


def test_each_group_of_a_leaderworkerset_is_a_gang_of_its_size() -> None:
    members = [lws(0, worker, mode="gang") for worker in range(4)]
    assert len({member.key for member in members}) == 1
    assert [(member.total, member.minimum, member.rank) for member in members] == [(4, 4, rank) for rank in range(4)]
    assert [member.role for member in members[:2]] == ["leader", "worker"]
    assert lws(1, 0).key != members[0].key
    assert lws(0, 0, revision="r2").key != members[0].key, "a rolling update replaces the group"
    assert (lws(0, 0).total, lws(0, 0).minimum) == (4, None)


@pytest.mark.parametrize("kind", ["PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob"])
def test_all_roles_of_a_training_job_are_one_group(kind: str) -> None:
    master, worker = training(kind, "master", 0), training(kind, "worker", 1)
    assert master.key == worker.key
    assert (master.role, worker.role, worker.rank) == ("master", "worker", 1)


def test_a_launcher_that_a_job_owns_is_in_the_group_of_its_workers() -> None:
    launcher = training("MPIJob", "launcher", 0, Owner("Job", "bert-launcher", "lj"), "mpi-operator")
    assert launcher.key == training("MPIJob", "worker", 0, operator="mpi-operator").key


def test_head_and_workers_of_a_ray_cluster_are_one_group_and_a_retry_of_its_job_is_another() -> None:
    head, worker = ray("head", "headgroup"), ray("worker", "gpus")
    assert head.key == worker.key == "team/tune-raycluster-x7.rc"
    assert [head.role, worker.role] == ["head", "gpus"]
    assert ray("worker", "gpus", uid="rc2").key != worker.key


def test_gangs_without_a_size_are_all_pods_that_exist_and_replicas_of_a_service_are_no_gang() -> None:
    job = read(Owner("Job", "train", "j1"), mode="gang")
    assert (job.minimum, job.all_members, job.settles, job.match_policy) == (None, True, True, "waiting-and-running")
    service = read(Owner("ReplicaSet", "web", "r1"), mode="gang")
    assert (service.minimum, service.all_members, service.settles) == (None, False, False)
    assert [group.is_gang for group in (job, service, lws(0, 0, mode="gang"), lws(0, 0))] == [True, False, True, False]


@pytest.mark.parametrize(
    "labels",
    [
        {f"{TRAINING}job-name": "bert"},
        {"ray.io/cluster": "tune"},
        {f"{LWS}name": "vllm"},
    ],
)
def test_labels_that_do_not_fit_the_owner_do_not_count(labels: dict[str, str]) -> None:
    assert read(Owner("Job", "train", "j1"), labels).key == "team/train.j1"


def test_a_size_that_is_not_a_number_is_reported_and_does_not_count() -> None:
    labels = {f"{LWS}name": "vllm", f"{LWS}group-index": "0", f"{LWS}group-key": "h", f"{LWS}worker-index": "0"}
    pod = PodView(
        "team", "p", "u", labels=labels, annotations={f"{LWS}size": "many"}, owner=Owner("StatefulSet", "v", "s")
    )
    group, problems = group_by_owner(pod, "gang")
    assert group is not None
    assert (group.total, group.all_members) == (None, True)
    assert [problem.key for problem in problems] == [f"{LWS}size"]


@pytest.mark.parametrize(
    ("namespace", "mode"),
    [("ml", "gang"), ("team-a", "group"), ("team-a-batch", "gang"), ("team-ops", "none"), ("other", "none")],
)
def test_the_most_specific_name_or_pattern_decides(namespace: str, mode: str) -> None:
    owners = {"team-*": "group", "team-*-batch": "gang", "team-ops": "none", "ml": "gang"}
    assert OwnerRules.of(GroupSettings(owners=owners)).mode(namespace) == mode


def test_the_global_switch_holds_where_no_namespace_is_named() -> None:
    rules = OwnerRules.of(GroupSettings(by_owner=True, owners={"serving": "none"}))
    assert [rules.mode(namespace) for namespace in ("serving", "team")] == ["none", "group"]
    assert not OwnerRules.of(GroupSettings())
