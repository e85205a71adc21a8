"""What can't run is refused when it is created, with a sentence that says what to do; the rest is a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from linkwise.broker.admission import AdmissionVerdict, Validator
from linkwise.broker.broker import Broker
from linkwise.dialects.kubernetes.pod_templates import templates, workload_of
from linkwise.dialects.registry import record_keys
from linkwise.model.access_policy import Requester
from linkwise.model.settings import AdmissionSettings, PlacingSettings
from linkwise.testing.cluster import FakeNode, broker_of
from linkwise.wire.kubernetes.objects import pod_view
from support.builders.admission import GPU, container, job, pod, volcano_job

if TYPE_CHECKING:
    from linkwise.model.settings import JobShape

ADA = Requester("ada")
ASCEND = "huawei.com/Ascend910"
SHARE = "aliyun.com/gpu-mem"
NAME, REPLICA = (f"gputopology.scheduling.koordinator.sh/{key}" for key in ("name", "replica"))
GANG, MINIMUM = (f"gang.scheduling.koordinator.sh/{key}" for key in ("name", "min-available"))


def of_pod(document: dict[str, Any], broker: Broker | None = None) -> AdmissionVerdict:
    return Validator(broker or Broker(), AdmissionSettings()).pod(pod_view(document), ADA)


def of_job(document: dict[str, Any], shape: JobShape = "strict") -> AdmissionVerdict:
    group, plural = document["apiVersion"].rpartition("/")[0], f"{document['kind'].lower()}s"
    workload = workload_of(group, plural)
    assert workload
    tasks = [
        (one.task, one.pods, pod_view({**one.document, "metadata": {**one.document["metadata"], "name": "job"}}))
        for one in templates(workload, document)
    ]
    validator = Validator(Broker(PlacingSettings(job_shape=shape)), AdmissionSettings())
    return validator.workload(tasks, ADA, is_job=workload.is_job)


@pytest.mark.rule("000.skip")
@pytest.mark.parametrize("document", [pod(), pod(container({GPU: 8})), pod(container({ASCEND: 4}))])
def test_what_is_right_passes_without_a_word(document: dict[str, Any]) -> None:
    assert of_pod(document) == AdmissionVerdict()


@pytest.mark.parametrize("key", record_keys())
def test_a_forged_record_is_refused_and_named(key: str) -> None:
    refused = of_pod(pod(container({GPU: 1}), annotations={key: "{}"})).refusal
    assert refused.startswith(f"{key}: remove this annotation")


def test_a_forged_record_is_refused_in_a_template_and_on_a_pod_without_devices() -> None:
    forged = {"linkwise.dev/grant": "{}"}
    assert "linkwise.dev/grant" in of_job(job(pod(container({GPU: 1}), annotations=forged))).refusal
    assert "linkwise.dev/grant" in of_pod(pod(annotations=forged)).refusal


def test_an_empty_record_is_none() -> None:
    assert not of_pod(pod(container({SHARE: 1}), annotations={"ALIYUN_COM_GPU_MEM_IDX": ""})).refusal


@pytest.mark.rule("003.count")
@pytest.mark.parametrize("count", [3, 5, 6, 7, 9])
def test_a_number_of_chips_that_rings_do_not_have_is_refused(count: int) -> None:
    for verdict in (of_pod(pod(container({ASCEND: count}))), of_job(job(pod(container({ASCEND: count}))))):
        assert verdict.refusal == f"{count} devices can't be allocated on ascend-910; request 1, 2, 4 or 8"


@pytest.mark.rule("003.valid-job")
@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (
            job(pod(container({ASCEND: 4})), 2),
            "8 devices requested by 2 pods; a job of up to 8 devices must be one pod",
        ),
        (
            volcano_job(("worker", 3, pod(container({ASCEND: 4})))),
            "12 devices requested in total; a job of more than 8 must request a multiple of 8",
        ),
        (
            volcano_job(("worker", 4, pod(container({ASCEND: 4})))),
            "task worker requests 4 devices per pod; a job of more than 8 devices must request 8 per pod",
        ),
        (
            volcano_job(("a", 1, pod(container({ASCEND: 2}))), ("b", 1, pod(container({ASCEND: 2})))),
            "4 devices requested by 2 pods; a job of up to 8 devices must be one pod",
        ),
    ],
)
def test_a_job_whose_shape_the_hardware_does_not_support_is_refused_as_a_whole(
    document: dict[str, Any], sentence: str
) -> None:
    assert of_job(document).refusal == sentence


@pytest.mark.rule("003.valid-job")
@pytest.mark.parametrize(
    "document",
    [
        job(pod(container({ASCEND: 8}))),
        job(pod(container({ASCEND: 8})), 4),
        volcano_job(("launcher", 1, pod()), ("worker", 2, pod(container({ASCEND: 8})))),
        volcano_job(("worker", 0, pod(container({ASCEND: 4}))), ("other", 1, pod(container({ASCEND: 4})))),
    ],
)
def test_a_job_that_the_hardware_supports_is_admitted(document: dict[str, Any]) -> None:
    assert of_job(document) == AdmissionVerdict()


def test_the_administrator_may_allow_several_pods_per_job() -> None:
    document = job(pod(container({ASCEND: 4})), 2)
    assert not of_job(document, "per-pod").refusal
    assert of_job(job(pod(container({ASCEND: 3})), 2), "per-pod").refusal


def test_replicas_of_a_service_are_not_one_job() -> None:
    document = {**job(pod(container({ASCEND: 4}))), "apiVersion": "apps/v1", "kind": "Deployment"}
    document["spec"]["replicas"] = 5
    assert of_job(document) == AdmissionVerdict()


@pytest.mark.rule("001.group")
@pytest.mark.parametrize("value", ["abc", "0", "-1", "1.5", "", "99999999999"])
def test_a_replica_label_that_is_not_a_number_of_pods_is_refused(value: str) -> None:
    refused = of_pod(pod(container({GPU: 1}), labels={NAME: "job", REPLICA: value})).refusal
    assert refused.startswith(f"{REPLICA}: ")
    assert "write a whole number of 1 or more" in refused


def test_a_refusal_is_not_repeated_as_a_warning() -> None:
    verdict = of_pod(pod(container({GPU: 1}), labels={NAME: "job", REPLICA: "two"}))
    assert verdict.refusal
    assert verdict.warnings == ()


@pytest.mark.parametrize(
    ("containers", "sentence"),
    [
        ([container({GPU: "500m"})], f"{GPU}: '500m' is not a whole number of 0 or more"),
        ([container({GPU: 1}), container({GPU: 1})], f"{GPU}: two containers are named 'main'; rename one of them"),
        ([container({GPU: "9" * 5000})], f"{GPU}: '{'9' * 57}...' is not a quantity; write 1, 500m or 16Gi"),
    ],
)
def test_a_refusal_is_short_and_leaves_the_name_of_the_object_to_kubectl(
    containers: list[dict[str, Any]], sentence: str
) -> None:
    assert of_pod(pod(*containers)).refusal == sentence


def test_an_unknown_hardware_profile_is_refused_with_the_known_ones() -> None:
    document = pod(container({"huawei.com/Ascend910": 2}), annotations={"huawei.com/schedule_policy": "nope"})
    assert of_pod(document).refusal.startswith("hardware profile 'nope' is unknown; use one of ascend-910, ")


def test_a_group_without_its_replica_label_is_a_warning() -> None:
    verdict = of_pod(pod(container({GPU: 1}), labels={NAME: "job"}))
    assert not verdict.refusal
    assert "until both are set, the pod is placed alone" in verdict.warnings[0]


@pytest.mark.rule("001.gang-words")
def test_names_and_numbers_of_gang_and_topology_that_differ_are_warnings_that_name_both() -> None:
    document = pod(container({GPU: 1}), labels={NAME: "job", REPLICA: "4"}, annotations={GANG: "other", MINIMUM: "2"})
    verdict = of_pod(document)
    assert not verdict.refusal
    assert verdict.warnings == (
        f"{GANG}: it is 'other', but {NAME} is 'job', which is used; make them equal",
        f"{MINIMUM}: it is 2, but {REPLICA} is 4; make them equal. Until then, 2 must start together",
    )


def test_misspelt_names_are_warnings() -> None:
    verdict = of_pod(pod(container({"nvidia.com/gpus": 1}), annotations={"linkwise.dev/polcy": "bandwidth"}))
    assert verdict.warnings == (
        "nvidia.com/gpus: unknown resource; did you mean nvidia.com/gpu?",
        "linkwise.dev/polcy: unknown annotation; did you mean linkwise.dev/policy?",
    )


def test_the_old_resource_name_in_a_template_is_a_warning_because_its_pods_are_rewritten() -> None:
    verdict = of_job(job(pod(container({"alpha.kubernetes.io/nvidia-gpu": 1}))))
    assert not verdict.refusal
    assert "replaced by nvidia.com/gpu in its pods" in verdict.warnings[0]


@pytest.mark.rule("004.one-card")
def test_memory_that_no_known_card_has_is_a_warning_since_a_larger_one_may_join() -> None:
    broker = broker_of(FakeNode("share", family="share", count=2, memory=16))
    validator = Validator(broker, AdmissionSettings())
    large = validator.pod(pod_view(pod(container({SHARE: 24}))), ADA)
    assert not large.refusal
    assert large.warnings == (
        f"{SHARE}: 24 requested, but the largest device has 16, and a pod gets memory of one device",
    )
    assert validator.pod(pod_view(pod(container({SHARE: 16}))), ADA) == AdmissionVerdict()
    broker.observe([*FakeNode("larger", family="share", count=1, memory=32).events()], 0.0)
    assert validator.pod(pod_view(pod(container({SHARE: 24}))), ADA) == AdmissionVerdict()


def test_nothing_is_said_about_cards_while_none_is_known() -> None:
    assert of_pod(pod(container({SHARE: 1000}))) == AdmissionVerdict()


def test_a_request_that_only_another_scheduler_understands_is_left_to_it() -> None:
    part = container({"huawei.com/Ascend910-16c": 1})
    assert "vNPU" in of_pod(pod(part)).refusal
    assert "vNPU" in of_pod(pod(part, schedulerName="volcano")).refusal
    foreign = of_pod(pod(part, schedulerName="my-scheduler"))
    assert not foreign.refusal
    assert "Linkwise can't place it" in foreign.warnings[0]


def test_a_request_in_two_dialects_is_refused() -> None:
    assert "use one of them" in of_pod(pod(container({GPU: 1, ASCEND: 1}))).refusal


def test_more_devices_than_a_known_node_has_are_a_warning_with_a_way_to_split_the_request() -> None:
    broker = broker_of(FakeNode("dgx", count=8))
    validator = Validator(broker, AdmissionSettings())
    large = validator.pod(pod_view(pod(container({GPU: 16}))), ADA)
    assert not large.refusal
    (warning,) = large.warnings
    assert warning.startswith(f"{GPU}: 16 requested, but the largest node has 8, and a pod gets devices of one node")
    assert warning.endswith("; split it into a group of 2 pods with 8 each")
    assert validator.pod(pod_view(pod(container({GPU: 8}))), ADA) == AdmissionVerdict()
    broker.observe([*FakeNode("larger", count=16).events()], 0.0)
    assert validator.pod(pod_view(pod(container({GPU: 16}))), ADA) == AdmissionVerdict()


@pytest.mark.parametrize(
    ("asked", "parts"), [(9, "3 pods with 3 each"), (12, "2 pods with 6 each"), (17, "3 pods with 8 each")]
)
def test_a_request_is_split_into_the_fewest_equal_parts(asked: int, parts: str) -> None:
    validator = Validator(broker_of(FakeNode("dgx", count=8)), AdmissionSettings())
    assert parts in validator.pod(pod_view(pod(container({GPU: asked}))), ADA).warnings[0]


def test_nothing_is_said_about_nodes_while_none_has_the_resource() -> None:
    broker = broker_of(FakeNode("share", family="share", count=2, memory=16))
    assert Validator(broker, AdmissionSettings()).pod(pod_view(pod(container({GPU: 16}))), ADA) == AdmissionVerdict()
