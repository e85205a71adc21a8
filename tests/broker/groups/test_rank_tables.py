"""Rank tables: a job's is complete once all its pods have chips, in the order of their ranks, with numbers as texts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.broker import Broker
from linkwise.model.settings import PlacingSettings
from linkwise.testing.cluster import ASCEND, device_pod, in_group

if TYPE_CHECKING:
    from linkwise.model.views import PodView

RANKS = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
LABELS = {"ring-controller.atlas": "ascend-910", "volcano.sh/job-name": "llm"}


def worker(name: str, server: str = "", chips: tuple[int, ...] = (0, 1), rank: str = "") -> PodView:
    """A pod of the job; with a server, the agent there has written its entry."""
    devices = [{"device_id": str(n), "device_ip": f"10.0.0.{n}"} for n in chips]
    entry = {"pod_name": name, "server_id": server, "host_ip": server, "devices": devices}
    own = {RANKS: json.dumps(entry)} if server else {}
    pod = device_pod(name, len(chips), ASCEND)
    return replace(
        pod,
        labels=LABELS,
        annotations={**own, **({"hccl/rankIndex": rank} if rank else {})},
        node="npu-1" if server else "",
    )


def tables(*pods: PodView, on: bool = True) -> dict[str, dict[str, object]]:
    broker = Broker(PlacingSettings(rank_tables=on))
    broker.observe(pods, 0.0)
    return {table.uid: json.loads(table.text) for table in broker.rank_tables()}


def test_the_table_lists_servers_and_chips_with_ranks_as_texts() -> None:
    found = tables(worker("llm-w-0", "192.0.2.1"), worker("llm-w-1", "192.0.2.2", (4, 5)))
    assert found == {
        "default/rings-config-llm": {
            "status": "completed",
            "server_list": [
                {
                    "device": [
                        {"device_id": "0", "device_ip": "10.0.0.0", "rank_id": "0"},
                        {"device_id": "1", "device_ip": "10.0.0.1", "rank_id": "1"},
                    ],
                    "server_id": "192.0.2.1",
                    "host_ip": "192.0.2.1",
                },
                {
                    "device": [
                        {"device_id": "4", "device_ip": "10.0.0.4", "rank_id": "2"},
                        {"device_id": "5", "device_ip": "10.0.0.5", "rank_id": "3"},
                    ],
                    "server_id": "192.0.2.2",
                    "host_ip": "192.0.2.2",
                },
            ],
            "server_count": "2",
            "version": "1.0",
        }
    }


def test_a_job_whose_pods_do_not_all_have_chips_is_initializing() -> None:
    found = tables(worker("llm-w-0", "192.0.2.1"), worker("llm-w-1"))
    assert found == {"default/rings-config-llm": {"status": "initializing"}}


def test_a_job_that_lacks_pods_is_initializing() -> None:
    (pod,) = in_group(worker("llm-w-0", "192.0.2.1"), name="llm", total=2)
    pod = replace(pod, labels={**pod.labels, **LABELS})
    assert tables(pod)["default/rings-config-llm"] == {"status": "initializing"}


def servers(*pods: PodView) -> list[str]:
    found = tables(*pods)["default/rings-config-llm"]["server_list"]
    assert isinstance(found, list)
    return [server["server_id"] for server in found]


def test_ranks_follow_the_annotation_before_the_names() -> None:
    assert servers(worker("llm-w-10", "192.0.2.10"), worker("llm-w-9", "192.0.2.9")) == ["192.0.2.9", "192.0.2.10"]
    ranked = [
        worker("llm-w-9", "192.0.2.9", rank="1"),
        worker("llm-w-10", "192.0.2.10", rank="0"),
    ]
    assert servers(*ranked) == ["192.0.2.10", "192.0.2.9"]


def test_pods_without_chips_have_no_rank_and_finished_ones_are_left_out() -> None:
    server = replace(device_pod("llm-ps-0", 1, "cpu"), labels=LABELS)
    done = replace(worker("llm-w-0"), uid="old", phase="Failed")
    assert servers(server, done, worker("llm-w-1", "192.0.2.1")) == ["192.0.2.1"]


def test_two_pods_of_one_server_share_its_entry() -> None:
    found = tables(worker("llm-w-0", "192.0.2.1"), worker("llm-w-1", "192.0.2.1", (2, 3)))["default/rings-config-llm"]
    assert found["server_count"] == "1"


def test_pods_without_the_label_have_no_table_and_the_setting_turns_all_off() -> None:
    pod = worker("llm-w-0", "192.0.2.1")
    assert tables(replace(pod, labels={"volcano.sh/job-name": "llm"})) == {}
    assert tables(pod, on=False) == {}
