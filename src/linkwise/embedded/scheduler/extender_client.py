"""What a scheduler asks its extender, and what it makes of the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from linkwise.errors import ClusterError
from linkwise.wire.extender import BindArgs, BindResult, encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkwise.net.http_client import Caller

__all__ = ["Extender", "Filtered"]

T = TypeVar("T")


class _Go(msgspec.Struct, rename="pascal"):
    pass


class _Filtered(_Go):
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class _Ranked(_Go):
    host: str
    score: int


class _Victim(msgspec.Struct):
    uid: str = msgspec.field(name="UID")


class _Victims(_Go):
    pods: list[_Victim] | None = None


class _Preempted(_Go):
    node_name_to_meta_victims: dict[str, _Victims] | None = None


_FILTERED: Final = msgspec.json.Decoder(_Filtered)
_RANKED: Final = msgspec.json.Decoder(list[_Ranked])
_BOUND: Final = msgspec.json.Decoder(BindResult)
_PREEMPTED: Final = msgspec.json.Decoder(_Preempted)


@dataclass(frozen=True, slots=True)
class Filtered:
    """Which nodes are left, and why the others are not."""

    nodes: list[str]
    failed: Mapping[str, str]
    final: frozenset[str]
    """those of the failed for which no eviction helps"""


class Extender:
    """The four verbs of a running service; ClusterError if it does not answer, or answers with an error."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def filter(self, pod: bytes, names: Sequence[str]) -> Filtered:
        """Nodes for a pod, which is given as it is stored."""
        found = _read(_FILTERED, await self._caller.post("filter", _asked(pod, names)))
        if found.error:
            raise ClusterError(found.error)
        final = found.failed_and_unresolvable_nodes or {}
        return Filtered(found.node_names or [], {**(found.failed_nodes or {}), **final}, frozenset(final))

    async def prioritize(self, pod: bytes, names: Sequence[str]) -> dict[str, int]:
        """The rank of each node; whoever fails here has no say."""
        try:
            found = _read(_RANKED, await self._caller.post("prioritize", _asked(pod, names)))
        except ClusterError:
            return {}
        return {one.host: one.score for one in found}

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Let the service bind a pod."""
        answer = await self._caller.post("bind", encode(BindArgs(name, namespace, uid, node)))
        if error := _read(_BOUND, answer).error:
            raise ClusterError(error)

    async def preempt(self, pod: bytes, victims: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """On which nodes it would help to evict these pods, given by UID."""
        told = {node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0} for node, uids in victims.items()}
        body = b'{"Pod":' + pod + b',"NodeNameToMetaVictims":' + msgspec.json.encode(told) + b"}"
        found = _read(_PREEMPTED, await self._caller.post("preempt", body)).node_name_to_meta_victims or {}
        return {node: [pod.uid for pod in kept.pods or ()] for node, kept in found.items()}


def _asked(pod: bytes, names: Sequence[str]) -> bytes:
    return b'{"Pod":' + pod + b',"Nodes":null,"NodeNames":' + msgspec.json.encode(names) + b"}"


def _read(decoder: msgspec.json.Decoder[T], answer: bytes) -> T:
    try:
        return decoder.decode(answer)
    except msgspec.DecodeError as error:
        raise ClusterError(f"the extender's answer can't be read: {error}") from error
