"""`linkwise pick --batch`: answers one JSON request per line, with one function per policy."""

from __future__ import annotations

from codecs import BOM_UTF8
from functools import singledispatch
from math import isfinite
from typing import TYPE_CHECKING

from linkwise.engine.reasons.catalog import refusal
from linkwise.errors import InputError
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.device import Device
from linkwise.model.node import Node, Use
from linkwise.model.topology import MAX_DEVICES
from linkwise.model.verdict import Offer, Reason, Reject
from linkwise.policies.memory_share import MemoryShare
from linkwise.policies.ring_affinity import RingAffinity, RingPlacement, group_letter, place_in_rings, single_number
from linkwise.policies.ring_profiles import ring_profile
from linkwise.topology.bottleneck import best_bottleneck
from linkwise.topology.device_sets import named_mask, positions, question
from linkwise.topology.partition import best_partition
from linkwise.wire.pick_batch import (
    Answer,
    BandwidthAnswer,
    BandwidthLine,
    BrokenLine,
    DevicesAnswer,
    GroupAnswer,
    Line,
    LinkAffinityAnswer,
    LinkAffinityLine,
    MemoryShareLine,
    Refused,
    RingAffinityLine,
    WholeDeviceLine,
    decode_line,
    encode_answer,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

__all__ = ["answer", "answer_lines", "free_memory_node", "ring_node"]


def answer_lines(lines: Iterable[bytes], out: BinaryIO) -> bool:
    """Answer every non-blank line as soon as it is read; False if any line is invalid."""
    valid = True
    for number, line in enumerate(lines, start=1):
        request = line.removeprefix(BOM_UTF8) if number == 1 else line
        if request.isspace():
            continue
        reply = _answer_line(number, request)
        valid = valid and not isinstance(reply, BrokenLine)
        out.write(encode_answer(reply) + b"\n")
        out.flush()
    return valid


def _answer_line(number: int, line: bytes) -> Answer:
    try:
        return answer(decode_line(line))
    except InputError as error:
        return BrokenLine(f"line {number}: {error}")


@singledispatch
def answer(request: Line) -> Answer:
    """Answer one request; InputError if it is invalid."""
    raise InputError(f"unsupported request {type(request).__name__}")


@answer.register
def _by_links(request: LinkAffinityLine) -> Answer:
    partition = best_partition(request.scores, request.size, request.available, request.required)
    if isinstance(partition, Reason):
        return Refused(refusal(partition))
    return LinkAffinityAnswer(partition.devices, partition.score, partition.total, partition.sets, partition.proven)


@answer.register
def _by_bandwidth(request: BandwidthLine) -> Answer:
    choice = best_bottleneck(request.bandwidth, request.size, request.available, request.required)
    if isinstance(choice, Reason):
        return Refused(refusal(choice))
    value = choice.value if isfinite(choice.value) else None
    return BandwidthAnswer(choice.devices, value, choice.suspects, choice.proven)


@answer.register
def _by_count(request: WholeDeviceLine) -> Answer:
    query = question(MAX_DEVICES, request.size, request.available, request.required)
    if isinstance(query, Reason):
        return Refused(refusal(query))
    others = positions(query.free & ~query.required)[: query.size - query.required.bit_count()]
    return DevicesAnswer(tuple(sorted((*positions(query.required), *others))))


@answer.register
def _by_group(request: RingAffinityLine) -> Answer:
    profile = ring_profile(request.profile)
    node = ring_node(profile.name, request.idle, request.healthy)
    ask = Ask("", (ContainerAsk("", devices=request.size),), profile=profile.name)
    offer = RingAffinity().pick(ask, node)
    if isinstance(offer, Reject):
        return Refused(refusal(offer.reason))
    placement = place_in_rings(profile, node, request.size) or RingPlacement((), 0)
    score = single_number(profile, RingAffinity().score(ask, node, offer))
    return GroupAnswer(placement.devices, group_letter(placement), score)


@answer.register
def _by_free_memory(request: MemoryShareLine) -> Answer:
    ask = Ask("", (ContainerAsk("", share=request.share),), mode="share")
    policy = MemoryShare()
    invalid = policy.admit(ask)
    if invalid:
        return Refused(refusal(invalid))
    offer = policy.pick(ask, free_memory_node(request.room, request.share))
    if isinstance(offer, Offer):
        return DevicesAnswer(tuple(map(int, offer.devices)))
    return Refused(refusal(offer.reason))


def ring_node(profile_name: str, idle: list[int], healthy: list[int] | None) -> Node:
    """Return a node of the profile with these idle and healthy devices; InputError if it has no such device."""
    profile = ring_profile(profile_name)
    limit = profile.devices or MAX_DEVICES
    idle_mask = named_mask(idle, limit, "idle")
    healthy_mask = (1 << limit) - 1 if healthy is None else named_mask(healthy, limit, "healthy")
    count = profile.devices or max(idle_mask, healthy_mask if healthy else 0, 1).bit_length()
    devices = tuple(Device(str(index), index, healthy=bool(healthy_mask >> index & 1)) for index in range(count))
    used = {str(index): Use(whole=True) for index in range(count) if not idle_mask >> index & 1}
    return Node("", devices, used, profile=profile.name)


def free_memory_node(room: dict[int, int], share: int) -> Node:
    """Return a node with that much free memory on each device; the total memory is not known."""
    if not room:
        raise InputError("room: no devices")
    for device, left in room.items():
        if device < 0 or left < 0:
            raise InputError(f"room of device {device} is {left}: positions and amounts must be 0 or more")
    memory = max([share, *room.values()])
    devices = tuple(Device(str(index), index, memory=memory) for index in sorted(room))
    own = frozenset({Ask("", ()).namespace})
    used = {str(index): Use(share=memory - left, domains=own) for index, left in room.items()}
    return Node("", devices, used, mode="share")
