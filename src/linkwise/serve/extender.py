"""kube-scheduler's extender calls: bytes in, one verb of the broker, bytes out.

kube-scheduler reads the body of a reply only if its status is 200: what went wrong is told there, where it has a field
for it. A call that brings whole nodes instead of names only tries what would be: nothing is kept of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.routing import Route

from linkwise.serve.http.endpoint import Endpoint, respond
from linkwise.wire.extender import (
    ExtenderBindingResult,
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
from linkwise.wire.kubernetes.metadata import version
from linkwise.wire.kubernetes.objects import view_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from linkwise.model.views import PodView
    from linkwise.serve.service import Service
    from linkwise.wire.kubernetes.pod import PodObject

__all__ = ["Extender"]


class Extender:
    """The four verbs."""

    def __init__(self, service: Service) -> None:
        self._service = service
        counting = service.counting
        self.verbs: Final = (
            Endpoint("filter", self._filter, _filter_failed, counting),
            Endpoint("prioritize", self._prioritize, _no_field, counting),
            Endpoint("bind", self._bind, _bind_failed, counting),
            Endpoint("preempt", self._preempt, _no_field, counting),
        )

    def routes(self) -> list[Route]:
        """A route a verb."""
        return [Route(f"/{verb.name}", _endpoint(verb), methods=["POST"]) for verb in self.verbs]

    def _view(self, pod: PodObject) -> PodView:
        """The pod that asks; this very version of it may be known."""
        known = self._service.broker.pod(pod.metadata.uid)
        return known if known and 0 < known.version == version(pod.metadata) else view_of(pod)

    def _filter(self, body: bytes) -> bytes:
        """Nodes of the best class, or why there are none."""
        asked = decode_filter(body)
        answer = self._service.filter(self._view(asked.pod), asked.names(), keep=not asked.dry)
        self._service.counting.decision(answer)
        result = filter_result(answer.nodes, answer.failed, answer.unresolvable)
        if asked.dry:
            whole = asked.whole()
            result.nodes = NodeList([whole[name] for name in answer.nodes])
        return encode(result)

    def _prioritize(self, body: bytes) -> bytes:
        """A rank for every node; integers, since Go reads nothing else."""
        asked = decode_filter(body)
        ranks = self._service.prioritize(self._view(asked.pod), asked.names())
        return encode([HostPriority(name, rank) for name, rank in ranks])

    async def _bind(self, body: bytes) -> bytes:
        """Node and devices of a pod, written in one request."""
        asked = decode_bind(body)
        return encode(ExtenderBindingResult(await self._service.bind(asked.pod_uid, asked.node)))

    def _preempt(self, body: bytes) -> bytes:
        """Those of the nodes where evicting the victims would help."""
        asked = decode_preempt(body)
        given = asked.victims()
        by_uid = {node: [pod.uid for pod in found.pods or ()] for node, found in given.items()}
        kept = self._service.preempt(self._view(asked.pod), by_uid)
        return encode(
            PreemptResult({node: MetaVictims(given[node].pods, given[node].num_pdb_violations) for node in kept})
        )


def _endpoint(verb: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return await respond(verb, request)

    return endpoint


def _filter_failed(sentence: str) -> bytes:
    return encode(FilterResult([], error=sentence))


def _bind_failed(sentence: str) -> bytes:
    return encode(ExtenderBindingResult(sentence))


def _no_field(sentence: str) -> None:
    """The replies of these verbs have no field for what went wrong."""
    del sentence
