"""kube-scheduler's extender calls: bytes in, one verb of the broker, bytes out.

kube-scheduler reads the body of a reply only if its status is 200: what went wrong is told there, where it has a field
for it. A call that brings whole nodes instead of names only tries what would be: nothing is kept of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route

from linkwise.serve.answering import answered
from linkwise.wire.extender import (
    BindResult,
    FilterResult,
    HostPriority,
    MetaVictims,
    NodeList,
    PreemptResult,
    decode_bind,
    decode_filter,
    decode_preempt,
    encode,
    filter_result,
)
from linkwise.wire.objects import view_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from linkwise.serve.answering import Failure
    from linkwise.serve.service import Service

__all__ = ["Extender"]


class Extender:
    """The four verbs."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """A route a verb."""
        verbs = (self.filter, self.prioritize, self.bind, self.preempt)
        return [Route(f"/{verb.__name__}", verb, methods=["POST"]) for verb in verbs]

    async def filter(self, request: Request) -> Response:
        """Nodes of the best class, or why there are none."""
        return await answered("filter", request, self._service.counting, self._filter, _filter_failed)

    async def prioritize(self, request: Request) -> Response:
        """A rank for every node; integers, since Go reads nothing else."""
        return await answered("prioritize", request, self._service.counting, self._prioritize, _no_field)

    async def bind(self, request: Request) -> Response:
        """Node and devices of a pod, written in one request."""
        return await answered("bind", request, self._service.counting, self._bind, _bind_failed)

    async def preempt(self, request: Request) -> Response:
        """Those of the nodes where evicting the victims would help."""
        return await answered("preempt", request, self._service.counting, self._preempt, _no_field)

    async def _filter(self, body: bytes) -> bytes:
        asked = decode_filter(body)
        answer = self._service.filter(view_of(asked.pod), asked.names(), keep=not asked.dry)
        self._service.counting.decision(answer)
        result = filter_result(answer.nodes, answer.failed, answer.unresolvable)
        if asked.dry:
            whole = asked.whole()
            result.nodes = NodeList([whole[name] for name in answer.nodes])
        return encode(result)

    async def _prioritize(self, body: bytes) -> bytes:
        asked = decode_filter(body)
        ranks = self._service.prioritize(view_of(asked.pod), asked.names())
        return encode([HostPriority(name, rank) for name, rank in ranks])

    async def _bind(self, body: bytes) -> bytes:
        asked = decode_bind(body)
        return encode(BindResult(await self._service.bind(asked.pod_uid, asked.node)))

    async def _preempt(self, body: bytes) -> bytes:
        asked = decode_preempt(body)
        given = asked.victims()
        by_uid = {node: [pod.uid for pod in found.pods or ()] for node, found in given.items()}
        kept = self._service.preempt(view_of(asked.pod), by_uid)
        return encode(
            PreemptResult({node: MetaVictims(given[node].pods, given[node].num_pdb_violations) for node in kept})
        )


def _filter_failed(sentence: str) -> Failure:
    return encode(FilterResult([], error=sentence))


def _bind_failed(sentence: str) -> Failure:
    return encode(BindResult(sentence))


def _no_field(sentence: str) -> Failure:
    """The replies of these verbs have no field for what went wrong."""
    del sentence
    return None
