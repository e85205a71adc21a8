"""`linkwise pick --batch`: many questions, one a line; an answer a line.

The answer to one question of a batch, a function a policy.
"""
# Joined from batch, answers: one docstring for all.

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
from linkwise.policies.ring_affinity import RingAffinity, group_letter, place_in_rings, single_number
from linkwise.policies.ring_profiles import ring_profile
from linkwise.policies.ring_spans import RingPlacement
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

__all__ = ["answer", "answer_lines", "ring_node", "room_node"]


def answer_lines(lines: Iterable[bytes], out: BinaryIO) -> bool:
    """Answer every line that is not blank, each as soon as it is read; False if any of them made no sense."""
    whole = True
    for number, line in enumerate(lines, start=1):
        question = line.removeprefix(BOM_UTF8) if number == 1 else line
        if question.isspace():
            continue
        found = _answer_line(number, question)
        whole = whole and not isinstance(found, BrokenLine)
        out.write(encode_answer(found) + b"\n")
        out.flush()
    return whole


def _answer_line(number: int, line: bytes) -> Answer:
    try:
        return answer(decode_line(line))
    except InputError as error:
        return BrokenLine(f"line {number}: {error}")


@singledispatch
def answer(asked: Line) -> Answer:
    """The answer to a question; InputError if it makes no sense."""
    raise InputError(f"no answer for {type(asked).__name__}")


@answer.register
def _by_links(asked: LinkAffinityLine) -> Answer:
    found = best_partition(asked.scores, asked.size, asked.available, asked.required)
    if isinstance(found, Reason):
        return Refused(refusal(found))
    return LinkAffinityAnswer(found.devices, found.score, found.total, found.sets, found.proven)


@answer.register
def _by_bandwidth(asked: BandwidthLine) -> Answer:
    found = best_bottleneck(asked.bandwidth, asked.size, asked.available, asked.required)
    if isinstance(found, Reason):
        return Refused(refusal(found))
    value = found.value if isfinite(found.value) else None
    return BandwidthAnswer(found.devices, value, found.suspects, found.proven)


@answer.register
def _by_count(asked: WholeDeviceLine) -> Answer:
    found = question(MAX_DEVICES, asked.size, asked.available, asked.required)
    if isinstance(found, Reason):
        return Refused(refusal(found))
    others = positions(found.free & ~found.required)[: found.size - found.required.bit_count()]
    return DevicesAnswer(tuple(sorted((*positions(found.required), *others))))


@answer.register
def _by_group(asked: RingAffinityLine) -> Answer:
    profile = ring_profile(asked.profile)
    node = ring_node(profile.name, asked.idle, asked.healthy)
    ask = Ask("", (ContainerAsk("", devices=asked.size),), profile=profile.name)
    offer = RingAffinity().pick(ask, node)
    if isinstance(offer, Reject):
        return Refused(refusal(offer.reason))
    lying = place_in_rings(profile, node, asked.size) or RingPlacement((), 0)
    score = single_number(profile, RingAffinity().score(ask, node, offer))
    return GroupAnswer(lying.devices, group_letter(lying), score)


@answer.register
def _by_room(asked: MemoryShareLine) -> Answer:
    ask = Ask("", (ContainerAsk("", share=asked.share),), mode="share")
    policy = MemoryShare()
    refused = policy.admit(ask)
    if refused:
        return Refused(refusal(refused))
    found = policy.pick(ask, room_node(asked.room, asked.share))
    if isinstance(found, Offer):
        return DevicesAnswer(tuple(map(int, found.devices)))
    return Refused(refusal(found.reason))


def ring_node(profile_name: str, idle: list[int], healthy: list[int] | None) -> Node:
    """A machine of the profile with these devices idle and these sound; InputError if it has no such device."""
    profile = ring_profile(profile_name)
    most = profile.devices or MAX_DEVICES
    free = named_mask(idle, most, "idle")
    sound = (1 << most) - 1 if healthy is None else named_mask(healthy, most, "healthy")
    count = profile.devices or max(free, sound if healthy else 0, 1).bit_length()
    devices = tuple(Device(str(index), index, healthy=bool(sound >> index & 1)) for index in range(count))
    used = {str(index): Use(whole=True) for index in range(count) if not free >> index & 1}
    return Node("", devices, used, profile=profile.name)


def room_node(room: dict[int, int], share: int) -> Node:
    """A machine of which so much is left on each device; how much each has in all is not known."""
    if not room:
        raise InputError("room names no device")
    for device, left in room.items():
        if device < 0 or left < 0:
            raise InputError(f"room of device {device} is {left}: positions and amounts are 0 or more")
    memory = max([share, *room.values()])
    devices = tuple(Device(str(index), index, memory=memory) for index in sorted(room))
    own = frozenset({Ask("", ()).namespace})
    used = {str(index): Use(share=memory - left, namespaces=own) for index, left in room.items()}
    return Node("", devices, used, mode="share")
