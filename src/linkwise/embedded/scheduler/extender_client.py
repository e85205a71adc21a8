"""HTTP extender client: filter, prioritize, bind and preempt; error messages are those of kube-scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from linkwise.errors import ClusterError, InputError
from linkwise.net.http.client import Http, Origin, SlowError
from linkwise.wire.extender import BindArgs, ExtenderBindingResult, encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Extender", "FilterResult"]

T = TypeVar("T")


class _ExtenderType(msgspec.Struct, rename="pascal"):
    pass


class _FilterResult(_ExtenderType):
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class _HostPriority(_ExtenderType):
    host: str
    score: int


class _MetaPod(msgspec.Struct):
    uid: str = msgspec.field(name="UID")


class _MetaVictims(_ExtenderType):
    pods: list[_MetaPod] | None = None


class _PreemptionResult(_ExtenderType):
    node_name_to_meta_victims: dict[str, _MetaVictims] | None = None


_HEADERS: Final = b"Content-Type: application/json\r\n"
_FILTER_DECODER: Final = msgspec.json.Decoder(_FilterResult)
_PRIORITIES_DECODER: Final = msgspec.json.Decoder(list[_HostPriority])
_BIND_DECODER: Final = msgspec.json.Decoder(ExtenderBindingResult)
_PREEMPTION_DECODER: Final = msgspec.json.Decoder(_PreemptionResult)


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The nodes that passed, and the reasons of the others."""

    nodes: list[str]
    failed: Mapping[str, str]
    unresolvable: frozenset[str]
    """failed nodes on which preemption can't help"""


class Extender:
    """The four extender verbs; ClusterError if the call fails, takes longer than `timeout`, or returns an error."""

    def __init__(self, url: str, timeout: float = 5.0) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or not parts.port:
            raise InputError(f"{url!r} is not an address of the form http://HOST:PORT")
        self._url, self._timeout = url.rstrip("/"), timeout
        self._http = Http(Origin(parts.hostname, parts.port, parts.path.rstrip("/")))

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

    async def filter(self, pod: bytes, names: Sequence[str]) -> FilterResult:
        """Filter nodes for a pod, given as stored JSON."""
        result = _decode(_FILTER_DECODER, await self.post("filter", _extender_args(pod, names)))
        if result.error:
            raise ClusterError(result.error)
        unresolvable = result.failed_and_unresolvable_nodes or {}
        return FilterResult(
            result.node_names or [], {**(result.failed_nodes or {}), **unresolvable}, frozenset(unresolvable)
        )

    async def prioritize(self, pod: bytes, names: Sequence[str]) -> dict[str, int]:
        """The score of each node; as in kube-scheduler, a failing prioritize call is ignored."""
        try:
            priorities = _decode(_PRIORITIES_DECODER, await self.post("prioritize", _extender_args(pod, names)))
        except ClusterError:
            return {}
        return {priority.host: priority.score for priority in priorities}

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Delegate the binding of a pod."""
        response = await self.post("bind", encode(BindArgs(name, namespace, uid, node)))
        if error := _decode(_BIND_DECODER, response).error:
            raise ClusterError(error)

    async def preempt(self, pod: bytes, victims: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """The nodes, of the candidates, on which evicting these victims (by UID) helps."""
        meta_victims = {
            node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0} for node, uids in victims.items()
        }
        body = b'{"Pod":' + pod + b',"NodeNameToMetaVictims":' + msgspec.json.encode(meta_victims) + b"}"
        result = _decode(_PREEMPTION_DECODER, await self.post("preempt", body)).node_name_to_meta_victims or {}
        return {node: [pod.uid for pod in victims_left.pods or ()] for node, victims_left in result.items()}

    async def post(self, verb: str, body: bytes) -> bytes:
        """Call a verb; returns the body of the answer."""
        try:
            # All verbs are idempotent.
            answer = await self._http.call("POST", f"/{verb}", _HEADERS, body, self._timeout, repeatable=True)
        except ClusterError as error:
            late = isinstance(error, SlowError) or isinstance(error.__cause__, TimeoutError)
            why = "context deadline exceeded" if late else str(error)
            raise ClusterError(f'Post "{self._url}/{verb}": {why}') from error
        if answer.status != 200:
            raise ClusterError(f"failed {verb} with extender at URL {self._url}/{verb}, code {answer.status}")
        return answer.body


def _extender_args(pod: bytes, names: Sequence[str]) -> bytes:
    return b'{"Pod":' + pod + b',"Nodes":null,"NodeNames":' + msgspec.json.encode(names) + b"}"


def _decode(decoder: msgspec.json.Decoder[T], response: bytes) -> T:
    try:
        return decoder.decode(response)
    except msgspec.DecodeError as error:
        raise ClusterError(f"invalid response from the extender: {error}") from error
