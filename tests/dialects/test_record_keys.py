"""Annotations that record devices are listed in one place, for admission and for the policy that protects them."""

from __future__ import annotations

import pytest

from linkwise import ContainerView, PodView
from linkwise.dialects.registry import DIALECTS, cleared_records, is_record, record_keys, record_patterns


@pytest.mark.parametrize(
    "key",
    [
        *("linkwise.dev/grant", "linkwise.dev/group-plan", "scheduler.framework.gpushare.allocation"),
        *("ALIYUN_COM_GPU_MEM_IDX", "ALIYUN_COM_GPU_MEM_ASSIGNED", "huawei.com/AscendReal", "huawei.com/Ascend910"),
        *("hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-node", "hami.io/Ascend910B-devices-allocated"),
        *("huawei.com/npu-core", "huawei.com/Ascend910-16c", "predicate-time"),
        *("scheduling.koordinator.sh/device-allocated", "topology.scheduling.koordinator.sh/gpu"),
        "ascend.kubectl.kubernetes.io/ascend-910-configuration",
    ],
)
def test_what_plugins_believe_is_a_record(key: str) -> None:
    assert is_record(key)


@pytest.mark.parametrize(
    "key",
    [
        *("linkwise.dev/policy", "linkwise.dev/models", "linkwise.dev/user", "huawei.com/schedule_policy"),
        *("hami.io/node-scheduler-policy", "nvidia.com/use-gpuuuid"),
        *("gang.scheduling.koordinator.sh/name", "scheduling.k8s.io/group-name", "app", ""),
    ],
)
def test_what_users_write_is_not_a_record(key: str) -> None:
    assert not is_record(key)


def test_whatever_a_bind_clears_is_a_record() -> None:
    keys = [*record_keys(), "huawei.com/Ascend310P-4c.3cpu", "linkwise.dev/policy", "unknown"]
    pod = PodView("default", "p", "u", (ContainerView("main"),), annotations=dict.fromkeys(keys, "{}"))
    assert all(map(is_record, cleared_records(pod)))


def test_every_dialect_that_writes_records_names_them() -> None:
    assert {dialect.name for dialect in DIALECTS if dialect.records} == {"linkwise", "koordinator", "ascend", "aliyun"}
    assert len(record_patterns()) == 2  # NVIDIA's, and parts of Ascend chips
