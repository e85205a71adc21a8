"""AcceleratorPolicies on a real API server and scheduler, without a webhook: namespaces, service accounts, changes while pods wait.

What the webhook refuses is in test_admission_together.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.api_client import ApiError
from support.e2e.node_objects import ascend, gpushare, machine
from support.e2e.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.api_client import Raw
    from support.e2e.service import Placing

GPU: Final = "nvidia.com/gpu"
CHIP: Final = "huawei.com/Ascend910"
MEMORY: Final = "aliyun.com/gpu-mem"
POLICIES: Final = "/apis/linkwise.dev/v1alpha1/acceleratorpolicies"
NOT_PERMITTED: Final = "an AcceleratorPolicy doesn't permit the request"
LIMIT: Final = "an AcceleratorPolicy's limit of devices at one time is reached"


def policy(name: str, subjects: Raw, **spec: Any) -> Raw:  # noqa: ANN401 - JSON
    return {
        "apiVersion": "linkwise.dev/v1alpha1",
        "kind": "AcceleratorPolicy",
        "metadata": {"name": name},
        "spec": {"subjects": subjects, **spec},
    }


def known(placing: Placing, name: str, version: str) -> bool:
    found = placing.snapshot()["shared"].get("AcceleratorPolicy.linkwise.dev", {}).get(name)
    return found is not None and int(found["metadata"]["resourceVersion"]) >= int(version)


def hold(placing: Placing, thing: Raw) -> None:
    """Create a policy, or change its spec, and wait until the service has seen it."""
    name, api = thing["metadata"]["name"], placing.cluster.api
    if api.answers(f"{POLICIES}/{name}"):
        made = api.patch(f"{POLICIES}/{name}", {"spec": thing["spec"]})
    else:
        made = api.create(thing)
    wait_for(partial(known, placing, name, made["metadata"]["resourceVersion"]), 15, f"the service knows {name}")


def status(placing: Placing, name: str) -> Raw:
    return dict(placing.cluster.api.get(f"{POLICIES}/{name}").get("status") or {})


def condition(placing: Placing, name: str, kind: str) -> tuple[str, str]:
    listed = status(placing, name).get("conditions", ())
    return next(((each["status"], each["reason"]) for each in listed if each["type"] == kind), ("", ""))


@pytest.fixture
def namespace(placing: Placing) -> Iterator[str]:
    placing.nodes(*machine("gpu", "nvlink"), *ascend("npu"), *gpushare("share"))
    yield placing.namespace()
    placing.cluster.api.delete(POLICIES)
    wait_for(
        lambda: "AcceleratorPolicy.linkwise.dev" not in placing.snapshot()["shared"], 15, "the service knows no policy"
    )


@pytest.mark.rule("002.access")
def test_a_namespace_gets_what_its_policy_permits_and_waits_for_a_change(placing: Placing, namespace: str) -> None:
    subjects = {"namespaces": [namespace]}
    hold(placing, policy("chips-only", subjects, resources=["huawei.com/*"]))
    placing.create(namespace, "train", {GPU: 1})
    assert NOT_PERMITTED in placing.refused(namespace, "train", NOT_PERMITTED)
    assert placing.place(namespace, "chip", {CHIP: 1}).node == "npu"
    assert f"{GPU} requested, but AcceleratorPolicy chips-only permits namespace {namespace} only huawei.com/*" in (
        placing.explain(namespace, "train")
    )
    hold(placing, policy("chips-only", subjects, resources=["huawei.com/*", GPU]))
    assert placing.placed(namespace, "train", 5).node == "gpu"
    hold(placing, policy("chips-only", subjects, resources=[]))
    placing.create(namespace, "more", {CHIP: 1})
    placing.refused(namespace, "more", NOT_PERMITTED)
    placing.cluster.api.delete(f"{POLICIES}/chips-only")
    assert placing.placed(namespace, "more", 5).node == "npu"


@pytest.mark.rule("002.access")
def test_a_namespace_waits_for_its_limit_until_its_own_pod_ends(placing: Placing, namespace: str) -> None:
    other = placing.namespace()
    hold(placing, policy("four", {"namespaces": [namespace, other]}, maxDevices=4))
    placing.place(namespace, "first", {GPU: 3})
    placing.create(namespace, "second", {GPU: 2})
    placing.refused(namespace, "second", LIMIT)
    assert placing.place(other, "elsewhere", {GPU: 2}).node == "gpu"
    placing.gone(other, "elsewhere")  # room on the node, and still none for this namespace
    placing.gone(namespace, "first")
    assert placing.placed(namespace, "second", 5).node == "gpu"
    wait_for(lambda: status(placing, "four").get("devices") == 2, 15, "the status counts")
    assert status(placing, "four")["refusals"] == 1


@pytest.mark.rule("002.access")
def test_a_burst_does_not_pass_the_limit(placing: Placing, namespace: str) -> None:
    hold(placing, policy("five", {"namespaces": [namespace]}, maxDevices=5))
    for number in range(12):
        placing.create(namespace, f"p{number}", {GPU: 1})

    def nodes() -> list[str]:
        pods = placing.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")
        return [each["spec"].get("nodeName", "") for each in pods]

    wait_for(lambda: sum(map(bool, nodes())) == 5, 15, "five are bound")
    wait_for(lambda: len(placing.unschedulable()) == 7, 15, "seven wait")
    assert sum(map(bool, nodes())) == 5


@pytest.mark.rule("002.access")
def test_a_gang_that_would_exceed_the_limit_starts_whole_when_it_is_raised(placing: Placing, namespace: str) -> None:
    subjects = {"namespaces": [namespace]}
    hold(placing, policy("three", subjects, maxDevices=3))
    words = {
        "gang.scheduling.koordinator.sh/name": "job",
        "gang.scheduling.koordinator.sh/min-available": "2",
        "gang.scheduling.koordinator.sh/total-number": "2",
    }
    for number in range(2):
        placing.create(namespace, f"g{number}", {GPU: 2}, annotations=words)
    for number in range(2):
        placing.refused(namespace, f"g{number}", LIMIT)
    assert placing.entries() == []
    hold(placing, policy("three", subjects, maxDevices=4))
    assert {placing.placed(namespace, f"g{number}", 10).node for number in range(2)} == {"gpu"}


@pytest.mark.rule("002.access")
def test_a_service_account_and_the_labels_of_a_namespace_select_pods(placing: Placing, namespace: str) -> None:
    api = placing.cluster.api
    about = {"name": "robot", "namespace": namespace}
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about})
    robots = {"serviceAccounts": [{"namespace": namespace, "name": "robot"}]}
    hold(placing, policy("robots", robots, resources=[]))
    placing.create(namespace, "robot", {GPU: 1}, serviceAccountName="robot")
    placing.refused(namespace, "robot", NOT_PERMITTED)
    assert placing.place(namespace, "human", {GPU: 1}).node == "gpu"
    hold(placing, policy("trial", {"namespaceSelector": {"matchLabels": {"plan": "trial"}}}, models=["none of these"]))
    api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"plan": "trial"}}})
    wait_for(lambda: "trial" in str(placing.snapshot()["shared"]["Namespace"][namespace]), 15, "the label is seen")
    placing.create(namespace, "late", {GPU: 1})
    placing.refused(namespace, "late", "devices of a model that an AcceleratorPolicy doesn't permit")
    api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"plan": None}}})
    assert placing.placed(namespace, "late", 5).node == "gpu"


@pytest.mark.rule("002.access")
def test_the_user_that_the_webhook_recorded_is_judged_by_the_scheduler(placing: Placing, namespace: str) -> None:
    hold(placing, policy("eve", {"users": ["eve"]}, resources=[]))
    placing.create(namespace, "hers", {GPU: 1}, annotations={"linkwise.dev/user": "eve"})
    placing.refused(namespace, "hers", NOT_PERMITTED)
    assert placing.place(namespace, "his", {GPU: 1}, annotations={"linkwise.dev/user": "bob"}).node == "gpu"


@pytest.mark.rule("002.segregate")
@pytest.mark.parametrize(("within", "cards"), [("never", 3), ("namespace", 2), ("user", 2), ("any", 1)])
def test_pods_share_a_card_as_the_policy_says(placing: Placing, namespace: str, within: str, cards: int) -> None:
    hold(placing, policy("cards", {"namespaceSelector": {}}, sharing={"with": within}))
    other, ann = placing.namespace(), {"linkwise.dev/user": "ann"}
    held = [
        placing.place(namespace, "a", {MEMORY: 2}, annotations=ann),
        placing.place(namespace, "b", {MEMORY: 2}, annotations={"linkwise.dev/user": "bob"}),
        placing.place(other, "c", {MEMORY: 2}, annotations=ann),
    ]
    assert len({granted.annotations["ALIYUN_COM_GPU_MEM_IDX"] for granted in held}) == cards


@pytest.mark.rule("002.access", "002.limits")
def test_a_quota_and_a_policy_both_hold(placing: Placing, namespace: str) -> None:
    about = {"name": "most", "namespace": namespace}
    hard = {f"requests.{GPU}": "3"}
    api = placing.cluster.api
    api.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": about, "spec": {"hard": hard}})
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/most"
    wait_for(lambda: (api.get(path)["status"].get("used") or {}).get(f"requests.{GPU}"), 20, "the quota is counted")
    hold(placing, policy("two", {"namespaces": [namespace]}, maxDevices=2))
    placing.place(namespace, "first", {GPU: 2})
    placing.create(namespace, "second", {GPU: 1})  # within the quota
    placing.refused(namespace, "second", LIMIT)
    with pytest.raises(ApiError, match="exceeded quota"):
        placing.create(namespace, "third", {GPU: 1})
    placing.gone(namespace, "first")
    assert placing.placed(namespace, "second", 5).node == "gpu"


def test_the_status_names_conflicts_and_what_is_not_there(placing: Placing, namespace: str) -> None:
    hold(placing, policy("a", {"namespaces": [namespace]}, maxDevices=4))
    hold(placing, policy("b", {"namespaceSelector": {}}, maxDevices=8))
    hold(placing, policy("c", {"namespaces": ["not-there"]}, maxDevices=8))
    hold(placing, policy("d", {"users": ["unknown-user"]}, models=["No Such Model"]))
    hold(placing, policy("e", {"users": ["somebody"]}, sharing={"maxShare": "50%", "defaultShare": "60%"}))
    expected = {
        ("a", "Conflicting"): ("True", "PoliciesDisagree"),
        ("b", "Conflicting"): ("True", "PoliciesDisagree"),
        ("a", "Effective"): ("True", "Enforced"),
        ("c", "Effective"): ("False", "UnknownNamespace"),
        ("d", "Effective"): ("False", "UnknownModel"),
        ("d", "Invalid"): ("False", "Valid"),
        ("e", "Invalid"): ("True", "InvalidSpec"),
    }
    for (name, kind), wanted in expected.items():
        wait_for(
            lambda name=name, kind=kind, wanted=wanted: condition(placing, name, kind) == wanted,  # type: ignore[misc]
            15,
            f"{kind} of {name} is {wanted}",
        )
    lines = placing.cluster.kubectl("get", "acceleratorpolicies").splitlines()
    heads = ["NAME", "MAX", "SHARING", "DEVICES", "PODS", "REFUSED", "EFFECTIVE", "CONFLICTING", "AGE"]
    assert lines[0].split() == heads
    assert lines[1].split()[:-1] == ["a", "4", "0", "0", "0", "True", "True"]
    version = placing.cluster.api.get(f"{POLICIES}/a")["metadata"]["resourceVersion"]
    hold(placing, policy("c", {"namespaces": [namespace]}, maxDevices=4))
    wait_for(lambda: condition(placing, "c", "Effective") == ("True", "Enforced"), 15, "the namespace is there")
    assert placing.cluster.api.get(f"{POLICIES}/a")["metadata"]["resourceVersion"] == version  # nothing new to say


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"subjects": {}, "maxDevices": 1}, "should have at least 1 properties"),
        ({"maxDevices": 1}, "spec.subjects: Required value"),
        ({"subjects": {"users": ["a"]}}, "set at least one of resources, models, maxDevices and sharing"),
        ({"subjects": {"users": ["a"]}, "maxDevices": -1}, "should be greater than or equal to 0"),
        ({"subjects": {"users": ["a"]}, "sharing": {"with": "friends"}}, "Unsupported value"),
        ({"subjects": {"users": ["a"]}, "sharing": {"maxShare": "150%"}}, "should match"),
        ({"subjects": {"users": ["a"]}, "sharing": {"maxShare": 0}}, "should be greater than or equal to 1"),
        (
            {
                "subjects": {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
                "maxDevices": 1,
            },
            "values are required for In and NotIn",
        ),
    ],
)
def test_the_definition_refuses_what_makes_no_sense(placing: Placing, spec: Raw, words: str) -> None:
    thing = policy("wrong", {})
    with pytest.raises(ApiError, match=words):
        placing.cluster.api.create({**thing, "spec": spec})
