"""The pods of a workload carry the name of the user who wrote its template."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from linkwise.broker.admission import copies_workloads, set_template_creator
from linkwise.dialects.kubernetes.pod_templates import templates, workload_of
from linkwise.dialects.linkwise.accelerator_policy import creator_annotations
from linkwise.model.access_policy import CONTROLLERS, Requester
from support.builders.admission import GPU, applied, container, job, pod, volcano_job

ADA, BOB = Requester("ada"), Requester("bob")
USER, GROUPS = "linkwise.dev/user", "linkwise.dev/groups"


def written(document: dict[str, Any], requester: Requester, before: dict[str, Any] | None = None) -> dict[str, Any]:
    group = document["apiVersion"].rpartition("/")[0]
    workload = workload_of(group, f"{document['kind'].lower()}s")
    assert workload
    old = tuple(templates(workload, before)) if before else ()
    creator = creator_annotations(requester.user, requester.groups, ("ops",))
    verdict = set_template_creator(templates(workload, document), old, creator)
    return applied(document, [asdict(operation) for operation in verdict.patch])


def users(document: dict[str, Any]) -> list[str | None]:
    group = document["apiVersion"].rpartition("/")[0]
    workload = workload_of(group, f"{document['kind'].lower()}s")
    assert workload
    return [
        ((template.document.get("metadata") or {}).get("annotations") or {}).get(USER)
        for template in templates(workload, document)
    ]


def annotations_of(document: dict[str, Any]) -> dict[str, str]:
    return dict(document["spec"]["template"]["metadata"]["annotations"])


@pytest.mark.parametrize("annotations", [None, {"a": "b"}, {USER: "root"}])
def test_a_new_job_gets_its_user_whatever_it_says(annotations: dict[str, str] | None) -> None:
    made = written(job(pod(container({GPU: 1}), annotations=annotations)), ADA)
    assert users(made) == ["ada"]


def test_a_template_names_the_groups_of_its_user_that_policies_name_and_no_others() -> None:
    document = job(pod(container({GPU: 1}), annotations={GROUPS: "admins"}))
    assert annotations_of(written(document, Requester("ada", ("dev", "ops")))) == {USER: "ada", GROUPS: "ops"}
    assert annotations_of(written(document, ADA)) == {USER: "ada"}


def test_a_template_without_metadata_gets_it() -> None:
    document = job(pod(container({GPU: 1})))
    del document["spec"]["template"]["metadata"]
    assert users(written(document, ADA)) == ["ada"]


def test_every_task_of_a_volcano_job_gets_it() -> None:
    made = written(volcano_job(("master", 1, pod()), ("worker", 2, pod(container({GPU: 8})))), ADA)
    assert users(made) == ["ada", "ada"]


def test_a_cron_job_has_its_template_deeper() -> None:
    inner = job(pod(container({GPU: 1})))
    document = {**inner, "kind": "CronJob", "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": inner["spec"]}}}
    assert users(written(document, ADA)) == ["ada"]


def test_a_user_who_changes_something_else_is_not_the_user_of_the_pods() -> None:
    before = written(job(pod(container({GPU: 1}))), ADA)
    scaled = job(pod(container({GPU: 1})), parallelism=3)
    assert users(written(scaled, BOB, before)) == ["ada"]


def test_the_user_who_changes_the_template_is_its_user() -> None:
    before = written(job(pod(container({GPU: 1}))), ADA)
    assert users(written(job(pod(container({GPU: 2}))), BOB, before)) == ["bob"]


def test_a_forged_user_alone_changes_nothing() -> None:
    before = written(job(pod(container({GPU: 1}))), ADA)
    forged = job(pod(container({GPU: 1}), annotations={USER: "root"}))
    assert users(written(forged, BOB, before)) == ["ada"]


def test_a_template_of_before_the_webhook_stays_without_a_user() -> None:
    before = job(pod(container({GPU: 1})))
    assert users(written(job(pod(container({GPU: 1})), 5), BOB, before)) == [None]
    forged = job(pod(container({GPU: 1}), annotations={USER: "root"}))
    assert users(written(forged, BOB, before)) == [None]


def test_only_controllers_of_kubernetes_copy_workloads() -> None:
    assert all(copies_workloads(Requester(user)) for user in CONTROLLERS)
    assert not copies_workloads(Requester("system:serviceaccount:team:job-controller"))
    assert not copies_workloads(Requester("system:serviceaccount:volcano-system:volcano-controllers"))
