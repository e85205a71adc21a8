"""Webhook, gates, access policies, protection of records and explanations together, installed as an administrator would."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import defaultdict
from functools import partial
from itertools import groupby
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from support.e2e.api_client import MERGE, ApiError
from support.e2e.invariants import all_is_well, nothing_is_sold_twice
from support.e2e.node_objects import ascend, device_ids, gpushare, koordinator, machine, node
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.protection import GRANT, pod_path, refusal as denial, tenant_of
from support.e2e.seed_manifests import ALL, ASCEND_JOBS, GPU_SHARE, KEP, KUBERNETES_2016
from support.e2e.service import grant
from support.e2e.tenant import Tenant
from support.e2e.together import GATE, applied, installed, pods_of, refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from support.e2e.api_client import Api, Raw
    from support.e2e.cluster import Cluster
    from support.e2e.service import Granted, Placing
    from support.e2e.webhook import WebhookService

SEEDS: Final = Path(__file__).parents[3] / "shared/seeds"
GPU: Final = "nvidia.com/gpu"
CHIP: Final = "huawei.com/Ascend910"
GANG: Final = "gang.scheduling.koordinator.sh"
PLAN: Final = "linkwise.dev/group-plan"
USER: Final = "linkwise.dev/user"
POLICIES: Final = "/apis/linkwise.dev/v1alpha1/acceleratorpolicies"
NOT_PERMITTED: Final = "an AcceleratorPolicy doesn't permit the request"
LIMIT: Final = "an AcceleratorPolicy's limit of devices at one time is reached"
OWNERS: Final = {"e2e-owned*": "gang"}
SOON: Final = 2.0  # seconds from room to a whole gang
KILLS: Final = 3


@pytest.fixture(scope="module")
def webhook(kubernetes: Cluster) -> Iterator[WebhookService]:
    with installed(kubernetes, "together", OWNERS) as made:
        yield made


def nodes(placing: Placing, *names: str) -> None:
    placing.nodes(*(thing for name in names for thing in machine(name, "nvlink")))


def node_of(found: Raw) -> str:
    return str(found["spec"].get("nodeName", ""))


def is_gated(found: Raw) -> bool:
    return {"name": GATE} in found["spec"].get("schedulingGates", [])


def annotations_of(found: Raw) -> dict[str, str]:
    return dict(found["metadata"].get("annotations") or {})


def all_bound(placing: Placing, namespace: str, count: int, seconds: float = 30.0) -> list[Raw]:
    def bound() -> list[Raw] | None:
        found = pods_of(placing, namespace)
        waiting = [each["metadata"]["name"] for each in found if not node_of(each)]
        assert len(found) == count, f"{len(found)} pods"
        assert not waiting, {name: placing.cluster.events(namespace, name)[-2:] for name in waiting[:3]}
        return found

    return wait_for(bound, seconds, f"{count} pods of {namespace} are bound")


def words_of(name: str, count: int) -> dict[str, str]:
    return {f"{GANG}/name": name, f"{GANG}/min-available": str(count)}


def gang_pods(namespace: str, name: str, count: int, devices: int, **more: Any) -> list[Raw]:  # noqa: ANN401 - as `pod` has them
    words = words_of(name, count)
    return [pod(namespace, f"{name}-{n}", {GPU: devices}, annotations=words, **more) for n in range(count)]


def job(name: str, count: int, devices: int, annotations: Mapping[str, str] | None = None) -> Raw:
    template = pod("x", "x", {GPU: devices})["spec"] | {"restartPolicy": "Never"}
    about = {"annotations": dict(annotations or {})}
    spec = {
        "parallelism": count,
        "completions": count,
        "completionMode": "Indexed",
        "template": {"metadata": about, "spec": template},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def text_of(*things: Raw) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(things)})


# the manifests of all systems


@pytest.mark.rule(
    "000.story",
    "001.gang",
    "001.percent",
    "001.record",
    "002.name",
    "003.ring",
    "003.record",
    "004.manifests",
    level="R",
)
def test_manifests_of_all_systems_run_unchanged_in_one_namespace(admitting: Placing) -> None:
    admitting.nodes(
        *machine("dgx", "nvlink"),
        *koordinator("host04"),
        *gpushare("share"),
        *(each for name in "abc" for each in ascend(name)),
    )
    namespace = admitting.namespace()
    tenant_of(admitting.cluster, namespace)
    said = applied(admitting, namespace, ALL, user="tenant")
    assert "alpha.kubernetes.io/nvidia-gpu: replaced by nvidia.com/gpu" in said
    found = {word(each): grant(each) for each in all_bound(admitting, namespace, 10)}
    assert {name: (given.node, len(given.devices)) for name, given in found.items() if "mindspore" not in name} == {
        "kep-690": ("dgx", 2),
        "from-2016": ("dgx", 1),
        "worker-0": ("host04", 2),
        "worker-1": ("host04", 2),
        "half-a-card": ("host04", 1),
        "binpack-1": ("share", 1),
    }
    check_ascend(found)
    check_koordinator(found)
    assert found["binpack-1"].annotations["ALIYUN_COM_GPU_MEM_POD"] == "1"
    assert found["binpack-1"].annotations["ALIYUN_COM_GPU_MEM_ASSIGNED"] == "false"
    links = found["kep-690"].positions(device_ids("dgx", "dgx1-v100"))
    assert links in {(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (2, 6), (3, 7), (4, 7), (5, 6), (4, 5), (6, 7)}
    for each in all_is_well(admitting):
        assert annotations_of(each)[USER] == "tenant"
        assert not each["spec"]["containers"][0].get("env")


def word(found: Raw) -> str:
    """The name of a pod, or of the workload that made it."""
    labels = found["metadata"].get("labels") or {}
    return str(labels.get("job-name") or labels.get("app") or found["metadata"]["name"])


def check_ascend(found: Mapping[str, Granted]) -> None:
    """Up to four chips are of one ring, all eight of a node of their own, and Huawei's annotation says the same."""
    chips = {
        int(name.removeprefix("mindspore-")): [int(chip[-1]) for chip in given.annotations[CHIP].split(",")]
        for name, given in found.items()
        if name.startswith("mindspore-")
    }
    assert {size: len(each) for size, each in chips.items()} == {1: 1, 2: 2, 4: 4, 8: 8}
    assert all(len({chip // 4 for chip in chips[size]}) == 1 for size in (1, 2, 4))
    homes = [found[f"mindspore-{size}"].node for size in (1, 2, 4, 8)]
    assert homes[3] not in homes[:3]


def check_koordinator(found: Mapping[str, Granted]) -> None:
    """The group has the set of four cards with the largest bottleneck that is left, and sees all of it."""
    records = [json.loads(found[f"worker-{n}"].annotations["topology.scheduling.koordinator.sh/gpu"]) for n in (0, 1)]
    given = [record["allocatedGPUs"]["0"] for record in records]
    assert records[0]["visibleGPUs"] == records[1]["visibleGPUs"] == sorted(given[0] + given[1])
    (part,) = found["half-a-card"].containers.values()
    assert (part["share"], part["core"]) == (50, 50)


@pytest.mark.rule("001.device", "001.group", "002.name", "004.manifests", level="R")
def test_the_texts_of_the_seeds_run_as_they_stand(admitting: Placing) -> None:
    if not SEEDS.exists():
        pytest.skip("the seeds are not there")
    texts = {file.name[:3]: file.read_text(errors="replace") for file in SEEDS.glob("*.txt")}
    (device,) = (yaml.safe_load(block) for block in blocks(texts["001"]) if "name: host04" in block)
    koordinator_node = node("host04", {"koordinator.sh/gpu": 800})
    admitting.nodes(koordinator_node, device, *machine("dgx", "nvlink"), *gpushare("share"))
    (sample,) = (block for block in blocks(texts["004"]) if "name: binpack-1" in block and "kind: Deployment" in block)
    admitting.cluster.kubectl("apply", "--filename", "-", stdin=sample)
    namespace = admitting.namespace()
    (old,) = set(re.findall(r"alpha\.kubernetes\.io/nvidia-gpu: 1", texts["002"]))
    name, amount = old.split(": ")
    labels = dict.fromkeys(re.findall(r"gputopology\.scheduling\.koordinator\.sh/(?:name|replica)", texts["001"]))
    words = dict.fromkeys(re.findall(r"gang\.scheduling\.koordinator\.sh/(?:name|min-available)", texts["001"]))
    said = {key: "train" if key.endswith("/name") else "2" for key in (*labels, *words)}
    group: dict[str, Any] = {
        "labels": {key: said[key] for key in labels},
        "annotations": {key: said[key] for key in words},
    }
    made = [pod(namespace, f"worker-{n}", {"koordinator.sh/gpu": 200}, **group) for n in range(2)]
    applied(admitting, namespace, text_of(*made, pod(namespace, "gpu", {name: amount})))
    found = {each["metadata"]["name"]: grant(each) for each in all_bound(admitting, namespace, 3)}
    assert {each: given.node for each, given in found.items()} == {
        "worker-0": "host04",
        "worker-1": "host04",
        "gpu": "dgx",
    }
    (shared,) = all_bound(admitting, "default", 1)
    assert grant(shared).node == "share"
    all_is_well(admitting)


def blocks(text: str) -> list[str]:
    return re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_manifests_are_applied_again_unless_a_bare_pod_names_what_was_replaced(admitting: Placing) -> None:
    nodes(admitting, "a")
    namespace = admitting.namespace()
    named = pod(namespace, "named", {GPU: 1})
    member = gang_pods(namespace, "solo", 1, 1)[0]
    fine = (KEP, GPU_SHARE, ASCEND_JOBS, text_of(without_scheduler(member)))
    for text in (*fine, text_of(named), KUBERNETES_2016):
        applied(admitting, namespace, text)
    for text in fine:
        applied(admitting, namespace, text)
    for text in (text_of(named), KUBERNETES_2016):
        assert "pod updates may not change fields" in refused(admitting, namespace, text)


# gangs


@pytest.mark.rule("001.gang", "001.steer", level="R")
@pytest.mark.parametrize("kind", ["pods", "job", "owned job"])
def test_a_gang_of_kubectl_apply_is_gated_planned_nominated_ungated_and_started_whole(
    admitting: Placing, kind: str
) -> None:
    nodes(admitting, "a", "b")
    namespace = owned(admitting) if kind == "owned job" else admitting.namespace()
    made = {
        "pods": gang_pods(namespace, "train", 4, 4),
        "job": [job("train", 4, 4, words_of("train", 4))],
        "owned job": [job("train", 4, 4)],
    }[kind]
    assert GATE not in text_of(*made)
    path = f"/api/v1/namespaces/{namespace}/pods"
    version = admitting.cluster.api.get(path)["metadata"]["resourceVersion"]
    with admitting.cluster.api.watch(f"{path}?watch=true&resourceVersion={version}&timeoutSeconds=60") as lines:
        applied(admitting, namespace, text_of(*made))
        stories = stories_of(lines, 4)
    for story in stories.values():
        states = [state for state, _ in groupby(story)]
        assert states[0] == ("gated", "", "", "")
        assert [state[0] for state, _ in groupby(states, key=lambda state: (state[0],))] == ["gated", "open"]
        opened = next(state for state in states if state[0] == "open")
        node = states[-1][3]
        assert (opened[1], opened[2]) == (node, node)
    all_bound(admitting, namespace, 4)
    all_is_well(admitting)


def stories_of(lines: Iterator[Raw], count: int) -> dict[str, list[tuple[str, str, str, str]]]:
    """By pod, what a watch shows of it until so many are bound: gate, planned node, nominated node, node."""
    stories: dict[str, list[tuple[str, str, str, str]]] = defaultdict(list)
    for line in lines:
        found = line["object"]
        gate = "gated" if is_gated(found) else "open"
        nominated = found["status"].get("nominatedNodeName", "")
        known = stories[found["metadata"]["name"]]
        before = known[-1][2] if known else ""
        known.append((gate, planned_node(found), nominated or before, node_of(found)))
        if sum(bool(story[-1][3]) for story in stories.values()) == count:
            break
    return dict(stories)


def planned_node(found: Raw) -> str:
    """The node of the plan that a pending pod carries, which must be of this pod alone."""
    if node_of(found) or not (text := annotations_of(found).get(PLAN)):
        return ""
    record = json.loads(text)
    (plan,) = record["groups"].values()
    assert record["pod"] == found["metadata"]["uid"]
    return str(plan["members"][record["pod"]]["node"])


def owned(placing: Placing) -> str:
    """A namespace in which Jobs are gangs."""
    name = f"e2e-owned-{time.monotonic_ns()}"
    placing.cluster.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
    return name


@pytest.mark.rule("001.gang", level="R")
@pytest.mark.parametrize("kind", ["pods", "job"])
def test_a_gang_that_does_not_fit_tells_its_owner_why_holds_nothing_and_starts_soon(
    admitting: Placing, kind: str
) -> None:
    nodes(admitting, "a", "b")
    namespace, other = admitting.namespace(), admitting.namespace()
    tenant_of(admitting.cluster, namespace)
    admitting.place(other, "blocker", {GPU: 1})
    admitting.counted(1)
    made = gang_pods(namespace, "train", 4, 4) if kind == "pods" else [job("train", 4, 4, words_of("train", 4))]
    applied(admitting, namespace, text_of(*made), user="tenant")
    wait_for(lambda: len(pods_of(admitting, namespace)) == 4, 15, "all members are there")
    owner = Tenant(admitting, namespace)
    for each in pods_of(admitting, namespace):
        name = each["metadata"]["name"]
        condition = owner.wait_condition(name, "NoRoom")
        assert condition["status"] == "False"
        assert f"{namespace}/{name} is pending" in condition["message"]
        assert "blocker" not in condition["message"]
        assert admitting.wait_for_event(namespace, name, "Pending")
        assert is_gated(admitting.cluster.pod(namespace, name))
    assert len(admitting.entries()) == 1
    assert admitting.place(other, "passer-by", {GPU: 7}).node  # which it could not if anything were held
    admitting.gone(other, "passer-by")
    admitting.cluster.api.delete(pod_path(other, "blocker"))
    started = time.monotonic()
    found = all_bound(admitting, namespace, 4)
    assert time.monotonic() - started < SOON
    for each in found:
        assert owner.wait_condition(each["metadata"]["name"], "Placed")["status"] == "True"
    all_is_well(admitting)


# access


def policy(name: str, subjects: Raw, **spec: Any) -> Raw:  # noqa: ANN401 - JSON
    about = {"apiVersion": "linkwise.dev/v1alpha1", "kind": "AcceleratorPolicy", "metadata": {"name": name}}
    return {**about, "spec": {"subjects": subjects, **spec}}


def known(placing: Placing, name: str, version: str) -> bool:
    found = placing.snapshot()["shared"].get("AcceleratorPolicy.linkwise.dev", {}).get(name)
    return found is not None and int(found["metadata"]["resourceVersion"]) >= int(version)


def hold(placing: Placing, thing: Raw) -> None:
    """Apply a policy and wait until the service has seen it."""
    name, api = thing["metadata"]["name"], placing.cluster.api
    there = api.answers(f"{POLICIES}/{name}")
    made = api.patch(f"{POLICIES}/{name}", {"spec": thing["spec"]}) if there else api.create(thing)
    wait_for(partial(known, placing, name, made["metadata"]["resourceVersion"]), 15, f"the service knows {name}")


@pytest.fixture
def restricted(admitting: Placing) -> Iterator[str]:
    """A namespace of the tenant's, beside nodes with GPUs and chips; policies end with the test."""
    admitting.nodes(*machine("gpu", "nvlink"), *ascend("npu"))
    namespace = admitting.namespace()
    tenant_of(admitting.cluster, namespace)
    yield namespace
    admitting.cluster.api.delete(POLICIES)
    wait_for(lambda: "AcceleratorPolicy.linkwise.dev" not in admitting.snapshot()["shared"], 15, "no policy is known")


@pytest.mark.rule("002.access")
def test_a_user_is_refused_at_apply_with_the_policy_and_what_it_permits(admitting: Placing, restricted: str) -> None:
    hold(admitting, policy("chips-only", {"users": ["tenant"]}, resources=["huawei.com/*"]))
    sentence = f"{GPU} requested, but AcceleratorPolicy chips-only permits user tenant only huawei.com/*"
    made = pod(restricted, "train", {GPU: 1})
    assert sentence in refused(admitting, restricted, text_of(made), user="tenant")
    assert sentence in refused(admitting, restricted, text_of(job("train", 1, 1)), user="tenant")
    assert not admitting.cluster.api.list(f"/apis/batch/v1/namespaces/{restricted}/jobs")
    applied(admitting, restricted, text_of(pod(restricted, "chip", {CHIP: 1})), user="tenant")
    applied(admitting, restricted, text_of(made))  # as the administrator, whom no policy names
    assert admitting.placed(restricted, "chip").node == "npu"
    assert admitting.placed(restricted, "train").node == "gpu"
    hold(admitting, policy("chips-only", {"users": ["tenant"]}, resources=["huawei.com/*", GPU]))
    applied(admitting, restricted, text_of(pod(restricted, "more", {GPU: 1})), user="tenant")
    assert admitting.placed(restricted, "more").node == "gpu"


@pytest.mark.rule("002.access")
def test_a_group_of_users_is_refused_at_apply(admitting: Placing, restricted: str) -> None:
    hold(admitting, policy("interns", {"groups": ["interns"]}, maxDevices=1))
    ian = ("--as", "ian", "--as-group", "interns", "--as-group", "system:masters")
    said = refused(admitting, restricted, text_of(pod(restricted, "two", {GPU: 2})), *ian)
    assert "2 devices requested, but AcceleratorPolicy interns permits group interns at most 1 at one time" in said
    applied(admitting, restricted, text_of(pod(restricted, "one", {GPU: 1}), pod(restricted, "more", {GPU: 1})), *ian)
    bound = wait_for(lambda: [each for each in pods_of(admitting, restricted) if node_of(each)], 15, "one is bound")
    (late,) = {"one", "more"} - {each["metadata"]["name"] for each in bound}
    admitting.refused(restricted, late, LIMIT)
    admitting.gone(restricted, bound[0]["metadata"]["name"])
    assert admitting.placed(restricted, late, 5).node == "gpu"


@pytest.mark.rule("002.access")
def test_a_service_account_and_a_namespace_are_refused_at_apply(admitting: Placing, restricted: str) -> None:
    about = {"name": "robot", "namespace": restricted}
    admitting.cluster.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about})
    hold(admitting, policy("robots", {"serviceAccounts": [about]}, resources=[]))
    said = refused(admitting, restricted, text_of(pod(restricted, "robot", {GPU: 1}, serviceAccountName="robot")))
    assert f"{GPU} requested, but AcceleratorPolicy robots permits service account" in said
    applied(admitting, restricted, text_of(pod(restricted, "human", {GPU: 1})))
    hold(admitting, policy("closed", {"namespaces": [restricted]}, resources=[]))
    said = refused(admitting, restricted, text_of(pod(restricted, "late", {GPU: 1})))
    assert f"{GPU} requested, but AcceleratorPolicy closed permits namespace {restricted} no accelerators" in said


@pytest.mark.rule("002.access")
def test_a_policy_that_changes_while_pods_wait_holds_for_them(admitting: Placing, restricted: str) -> None:
    hold(admitting, policy("two", {"users": ["tenant"]}, maxDevices=2))
    things = [pod(restricted, name, {GPU: 2}) for name in ("first", "second")]
    applied(admitting, restricted, text_of(things[0]), user="tenant")
    assert admitting.placed(restricted, "first").node == "gpu"
    applied(admitting, restricted, text_of(things[1]), user="tenant")
    admitting.refused(restricted, "second", LIMIT)
    assert Tenant(admitting, restricted).wait_condition("second", "NotPermitted")["status"] == "False"
    hold(admitting, policy("two", {"users": ["tenant"]}, maxDevices=2, resources=[CHIP]))
    admitting.gone(restricted, "first")
    admitting.refused(restricted, "second", NOT_PERMITTED)
    admitting.cluster.api.delete(f"{POLICIES}/two")
    assert admitting.placed(restricted, "second", 5).node == "gpu"


@pytest.mark.rule("002.access")
def test_a_gang_of_a_user_waits_for_a_changed_policy_and_starts_whole(admitting: Placing, restricted: str) -> None:
    hold(admitting, policy("six", {"users": ["tenant"]}, maxDevices=6))
    applied(admitting, restricted, text_of(*gang_pods(restricted, "train", 2, 4)), user="tenant")
    assert Tenant(admitting, restricted).wait_condition("train-0", "NotPermitted")
    assert all(is_gated(each) for each in pods_of(admitting, restricted))
    assert admitting.entries() == []
    hold(admitting, policy("six", {"users": ["tenant"]}, maxDevices=8))
    all_bound(admitting, restricted, 2)


@pytest.mark.rule("002.access")
def test_a_pod_past_the_webhook_is_refused_by_the_scheduler_for_its_namespace(
    admitting: Placing, restricted: str
) -> None:
    hold(admitting, policy("closed", {"namespaces": [restricted]}, resources=[]))
    past = pod(restricted, "past", {GPU: 1}, labels={"linkwise.dev/webhook": "ignore"})
    applied(admitting, restricted, text_of(past), user="tenant")
    assert USER not in annotations_of(admitting.cluster.pod(restricted, "past"))
    admitting.refused(restricted, "past", NOT_PERMITTED)
    assert Tenant(admitting, restricted).wait_condition("past", "NotPermitted")


# forged records


def test_forged_records_are_refused_while_the_service_writes_its_own(
    admitting: Placing, restricted: str, webhook: WebhookService
) -> None:
    nodes(admitting, "a", "b", "c")
    namespace = restricted
    hold(admitting, policy("sixteen", {"namespaces": [namespace]}, maxDevices=16))
    tenant = admitting.cluster.connect("tenant")
    # Its members stay pending after they are ungated: kube-scheduler waits for a volume that is not there.
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    applied(admitting, namespace, text_of(*gang_pods(namespace, "train", 2, 4, volumes=[volume])), user="tenant")
    applied(admitting, namespace, text_of(pod(namespace, "bound", {GPU: 8})), user="tenant")
    admitting.placed(namespace, "bound")
    wait_for(lambda: not any(map(is_gated, pods_of(admitting, namespace))), 15, "the gang is planned and ungated")
    applied(admitting, namespace, text_of(pod(namespace, "waiting", {GPU: 8})), user="tenant")
    Tenant(admitting, namespace).wait_condition("waiting", "NotPermitted")
    assert all(planned_node(admitting.cluster.pod(namespace, f"train-{n}")) for n in range(2))
    before = admitting.metric('linkwise_effects_total{effect="wake",result="written"}')
    check_forgery(admitting, tenant, namespace)
    admitting.cluster.api.delete(f"{POLICIES}/sixteen")  # which kube-scheduler does not know of
    assert admitting.placed(namespace, "waiting", 5).node
    assert admitting.metric('linkwise_effects_total{effect="wake",result="written"}') > before
    written = ("annotate", "bind", "condition", "steer", "wake")
    assert [admitting.metric(f'linkwise_effects_total{{effect="{each}",result="failed"}}') for each in written] == [
        0.0
    ] * len(written)
    assert "denied" not in webhook.serve.process.log.read_text()
    nothing_is_sold_twice(admitting.cluster.api, pods_of(admitting, namespace))


def check_forgery(placing: Placing, tenant: Api, namespace: str) -> None:
    """No user writes a record: on a new pod, in a template, on a bound pod, on a pending one."""
    for key in (GRANT, PLAN, CHIP, "ALIYUN_COM_GPU_MEM_IDX", "topology.scheduling.koordinator.sh/gpu"):
        forged = pod(namespace, "forged", {GPU: 1}, annotations={key: "{}"})
        for user in ("tenant", "admin"):
            assert key in refused(placing, namespace, text_of(forged), user=user)
        assert key in refused(placing, namespace, text_of(job("forged", 1, 1, {key: "{}"})), user="tenant")
        opted_out = pod(
            namespace, "forged", {GPU: 1}, annotations={key: "{}"}, labels={"linkwise.dev/webhook": "ignore"}
        )
        assert key in refused(placing, namespace, text_of(opted_out), user="tenant")
        for name in ("bound", "train-0", "waiting"):
            for value in ("{}", None):
                if value is None and key not in annotations_of(placing.cluster.pod(namespace, name)):
                    continue
                for way in ((), ("status",)):
                    change = {"metadata": {"annotations": {key: value}}}
                    assert key in denial(tenant, "PATCH", pod_path(namespace, name, *way), change, MERGE)
    for value in ("admin", None):
        change = {"metadata": {"annotations": {USER: value}}}
        assert USER in denial(tenant, "PATCH", pod_path(namespace, "bound"), change, MERGE)


# tenants


def test_a_tenant_sees_why_a_pod_of_its_own_is_pending_and_nothing_of_others(admitting: Placing) -> None:
    nodes(admitting, "a")
    namespace, other = admitting.namespace(), admitting.namespace()
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "tenant"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    about = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}
    space = {"name": "tenant", "namespace": namespace}
    admitting.cluster.api.create({**about, "metadata": space, "roleRef": role, "subjects": [subject]})
    admitting.place(other, "rival", {GPU: 6})
    admitting.counted(1)
    applied(admitting, namespace, text_of(pod(namespace, "train", {GPU: 4})), user="tenant")
    owner = Tenant(admitting, namespace)
    published = owner.wait_condition("train", "NoRoom")
    assert "only 2" in published["message"]
    admitting.wait_for_event(namespace, "train", "Pending")
    shown = owner.command("explain", "pod/train", "-n", namespace)
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[0].startswith(published["message"][:60])
    assert "only what is published on the pods is shown" in shown.stderr
    asked = owner.command("explain", "pod/train", "-n", namespace, "--service", admitting.serve.url)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert "it fits on node a once a pod of another namespace (6 devices) finishes" in asked.stdout
    denied = owner.command("explain", "pod/rival", "-n", other, "--service", admitting.serve.url)
    assert denied.returncode == 1
    assert f"user tenant may not get pod {other}/rival" in denied.stderr
    assert not any("rival" in text for text in (published["message"], shown.stdout, asked.stdout))


# crashes


@pytest.mark.rule("001.gang", level="R")
@pytest.mark.timeout(240)
def test_a_hundred_pods_whose_service_is_killed_start_whole_and_none_stays_gated(
    admitting: Placing, webhook: WebhookService
) -> None:
    nodes(admitting, *(f"w{number}" for number in range(20)))
    namespace, chance = admitting.namespace(), Random(7)
    gangs = [each for number in range(10) for each in gang_pods(namespace, f"g{number}", 5, 2)]
    singles = [pod(namespace, f"s{number}", {GPU: 1}) for number in range(50)]
    things = [without_scheduler(each) for each in chance.sample([*gangs, *singles], 100)]
    command = [str(admitting.cluster.programs / "kubectl"), f"--kubeconfig={admitting.cluster.kubeconfig('admin')}"]
    command += ["apply", "--namespace", namespace, "--filename", "-"]
    early = 0
    for _ in range(KILLS):
        applying = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
        )
        assert applying.stdin
        applying.stdin.write(text_of(*things))
        applying.stdin.close()
        before = len(bound_names(pods_of(admitting, namespace)))
        wait_for(
            partial(are_bound, admitting, namespace, min(100, before + chance.randint(1, 15))), 30, "some are bound"
        )
        webhook.serve.kill()
        applying.wait(60)
        found = pods_of(admitting, namespace)
        early += len(bound_names(found)) < 100
        nothing_is_sold_twice(admitting.cluster.api, found)
        webhook.serve.start()
        webhook.wait_trusted()
    wait_for(lambda: apply_again(admitting, namespace, things), 60, "all are admitted")
    found = all_bound(admitting, namespace, 100, 60)
    assert not any(is_gated(each) for each in found)
    assert early >= 2, "too few kills came in the middle"
    all_is_well(admitting)


def without_scheduler(thing: Raw) -> Raw:
    """A pod that names no scheduler, as users write it: one that does can't be applied twice, since it is given another."""
    return {**thing, "spec": {key: value for key, value in thing["spec"].items() if key != "schedulerName"}}


def are_bound(placing: Placing, namespace: str, count: int) -> bool:
    return len(bound_names(pods_of(placing, namespace))) >= count


def bound_names(found: list[Raw]) -> set[str]:
    return {each["metadata"]["name"] for each in found if node_of(each)}


def apply_again(placing: Placing, namespace: str, things: list[Raw]) -> bool:
    """As an owner does whose objects were refused while the webhook did not answer."""
    applied(placing, namespace, text_of(*things))
    return True


# namespaces of the system


def test_pods_of_kube_system_do_not_wait_for_a_service_that_is_down(
    admitting: Placing, webhook: WebhookService
) -> None:
    nodes(admitting, "a")
    cluster, namespace = admitting.cluster, admitting.namespace()
    admitting.place(namespace, "running", {GPU: 1})
    webhook.serve.kill()
    names = ("plain", "device", "member")
    try:
        started = time.monotonic()
        made = [
            pod("kube-system", "plain"),
            pod("kube-system", "device", {GPU: 1}),
            pod("kube-system", "member", {GPU: 1}, annotations=words_of("system", 2)),
        ]
        applied(admitting, "kube-system", text_of(*made))
        applied(admitting, namespace, text_of(pod(namespace, "without-devices")))
        cluster.api.patch(pod_path(namespace, "running", "status"), {"status": {"phase": "Succeeded"}})
        cluster.api.patch(pod_path(namespace, "running"), {"metadata": {"labels": {"a": "b"}}})
        assert time.monotonic() - started < 5
        for name in names:
            found = cluster.pod("kube-system", name)
            assert not found["spec"].get("schedulingGates")
            assert USER not in annotations_of(found)
        assert cluster.wait_bound("kube-system", "plain")["spec"]["nodeName"] == "a"
        assert cluster.wait_bound(namespace, "without-devices")["spec"]["nodeName"] == "a"
        with pytest.raises(ApiError, match="failed calling webhook"):
            admitting.create(namespace, "managed", {GPU: 1})
    finally:
        webhook.serve.start()
        webhook.wait_trusted()
        for name in names:
            cluster.api.delete(pod_path("kube-system", name))
    admitting.place(namespace, "managed", {GPU: 1})
