"""Served pods: the annotations by which Huawei's tools know the chips that a pod's containers have.

Source: contract ascend, section 3. Huawei's device plugin writes them after the kubelet has allocated the chips.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.dialects.ascend.dialect import CONSUMED, KUBELET, PREDICATE_TIME, REAL, requested_chips
from linkwise.dialects.ascend.rank_table import ChipDetails, Ranks, Server, chip_names, rank_key, rank_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from linkwise.model.views import PodView

__all__ = ["served_annotations"]


def served_annotations(
    pod: PodView, numbers: Collection[int], addresses: Mapping[int, str], server: str
) -> dict[str, str]:
    """The annotations of a pod all of whose containers have chips, as far as they differ from those it has.

    Args:
        pod: as the API server has it.
        numbers: of the chips that its containers have, and that the kubelet has allocated.
        addresses: IP addresses of chips by number; without those of all its chips there is no entry for a rank table.
        server: IP address of the node.
    """
    resource = requested_chips(pod)
    if not resource or not numbers:
        return {}
    # rule 003.record: what is mounted, under Huawei's own keys.
    chips = chip_names(numbers, resource)
    desired = {REAL: chips, KUBELET: chips}
    if pod.annotations.get(PREDICATE_TIME):
        desired[PREDICATE_TIME] = str(CONSUMED)
    if server and all(addresses.get(number) for number in numbers):
        details = {number: ChipDetails(addresses[number]) for number in numbers}
        desired[rank_key(resource)] = rank_text(Ranks(pod.name, Server(server, host=server), details))
    return {key: text for key, text in desired.items() if pod.annotations.get(key) != text}
