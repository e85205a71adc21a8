"""Ids that are too many or too long for the kubelet are refused before it gets them."""

from __future__ import annotations

import pytest

from linkwise.agent.kubelet.messages import DEVICE_PLUGIN, messages_of
from linkwise.model.device import Device
from linkwise.node.allocation import id_problem, share_ids

KUBELET_RECEIVES = 4 * 1024 * 1024


def message(ids: list[str]) -> bytes:
    """The longest message that lists the ids: unhealthy, on the last NUMA node of Linux."""
    classes = messages_of(DEVICE_PLUGIN)
    listed = [{"ID": each, "health": "Unhealthy", "topology": {"nodes": [{"ID": 1023}]}} for each in ids]
    encoded: bytes = classes["ListAndWatchResponse"](devices=listed).SerializeToString()
    return encoded


@pytest.mark.rule("004.units")
def test_units_are_listed_as_far_as_the_kubelet_receives_them_in_one_message() -> None:
    def device(memory: int) -> Device:
        return Device("d" * 34, 0, memory=memory)

    most = 65_536
    longest = share_ids(device(most))[-1]
    assert most * len(message([longest])) == KUBELET_RECEIVES
    assert id_problem([device(most)], "MiB") == ""
    assert f"{most + 1} units of MiB do not fit into one message" in id_problem([device(most + 1)], "MiB")
    assert "set agent.memory_unit to GiB" in id_problem([device(most), device(1)], "MiB")
    assert id_problem([device(most), device(0)], "MiB") == ""


@pytest.mark.rule("004.units")
def test_an_id_has_at_most_the_characters_that_the_kubelet_accepts() -> None:
    assert id_problem([Device("d" * 59, 0, memory=10)], "GiB") == ""
    assert "longer than the 63 characters" in id_problem([Device("d" * 59, 0, memory=11)], "GiB")
    assert id_problem([Device("d" * 63, 0)], "GiB") == ""
