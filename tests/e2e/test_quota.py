"""LimitRange and ResourceQuota of a real API server count the resources that we place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.e2e.api_client import ApiError
from support.e2e.node_objects import ascend, gpushare, machine
from support.e2e.processes import wait_for

if TYPE_CHECKING:
    from support.e2e.service import Placing

AMOUNTS = {"nvidia.com/gpu": 2, "huawei.com/Ascend910": 2, "aliyun.com/gpu-mem": 6}


def tell(placing: Placing) -> str:
    placing.nodes(*machine("gpu", "nvlink"), *ascend("npu"), *gpushare("share"))
    return placing.namespace()


def used(placing: Placing, namespace: str, resource: str) -> str | None:
    status = placing.cluster.api.get(f"/api/v1/namespaces/{namespace}/resourcequotas/most")["status"]
    return (status.get("used") or {}).get(f"requests.{resource}")


def limit(placing: Placing, namespace: str, hard: dict[str, int]) -> None:
    words = {f"requests.{resource}": str(amount) for resource, amount in hard.items()}
    about = {"name": "most", "namespace": namespace}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": about, "spec": {"hard": words}}
    placing.cluster.api.create(quota)
    wait_for(lambda: used(placing, namespace, next(iter(hard))), 20, "the quota is counted")


def let_in(placing: Placing, namespace: str, name: str, limits: dict[str, int]) -> bool:
    """Whether a pod could be made; those who admit it hear of a quota a moment after it was counted."""
    try:
        placing.create(namespace, name, limits)
    except ApiError as error:
        if error.status != 403:
            raise
        return False
    return True


@pytest.mark.rule("002.limits")
@pytest.mark.parametrize("resource", AMOUNTS)
def test_a_quota_refuses_what_is_more_and_frees_what_is_gone(placing: Placing, resource: str) -> None:
    namespace, amount = tell(placing), AMOUNTS[resource]
    limit(placing, namespace, {resource: 2 * amount})
    held = [placing.place(namespace, f"p{number}", {resource: amount}) for number in range(2)]
    assert all(granted.devices for granted in held)
    assert used(placing, namespace, resource) == str(2 * amount)
    with pytest.raises(ApiError, match=rf"exceeded quota: most, requested: requests.{resource}={amount}") as refused:
        placing.create(namespace, "late", {resource: amount})
    assert refused.value.status == 403
    placing.gone(namespace, "p0")
    wait_for(lambda: let_in(placing, namespace, "late", {resource: amount}), 20, "the quota is counted again")
    assert placing.placed(namespace, "late").devices == held[0].devices


@pytest.mark.rule("002.limits")
@pytest.mark.parametrize("resource", AMOUNTS)
def test_a_limit_range_gives_a_pod_its_amount_and_refuses_too_much(placing: Placing, resource: str) -> None:
    namespace, amount = tell(placing), AMOUNTS[resource]
    item = {"type": "Container", "default": {resource: str(amount)}, "max": {resource: str(2 * amount)}}
    about = {"name": "usual", "namespace": namespace}
    rule = {"apiVersion": "v1", "kind": "LimitRange", "metadata": about, "spec": {"limits": [item]}}
    placing.cluster.api.create(rule)
    granted = placing.place(namespace, "plain")
    share = granted.containers["main"]["share"]
    assert (share or len(granted.devices)) == amount
    with pytest.raises(ApiError, match=f"maximum {resource} usage per Container is {2 * amount}"):
        placing.create(namespace, "large", {resource: 4 * amount})


@pytest.mark.rule("002.limits")
def test_a_quota_of_one_namespace_leaves_others_alone(placing: Placing) -> None:
    poor, rich = tell(placing), placing.namespace()
    limit(placing, poor, {"nvidia.com/gpu": 0})
    with pytest.raises(ApiError, match="exceeded quota"):
        placing.create(poor, "train", {"nvidia.com/gpu": 1})
    assert placing.place(rich, "train", {"nvidia.com/gpu": 8}).node == "gpu"
