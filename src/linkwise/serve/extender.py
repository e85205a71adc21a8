"""Extender API of kube-scheduler, also below gpushare's path: bytes in, one verb of the broker, bytes out.

kube-scheduler reads the body of a reply only if the status is 200, so errors go into the result's error field where the
call has one. A call with full Node objects instead of names is a simulation: nothing is remembered, nodes that do not
exist are evaluated by their objects, and other calls are answered meanwhile.

The routes of gpushare's extender are for schedulers and tools that were configured for it. Source: seed 004.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise import __version__
from linkwise.errors import NotNowError
from linkwise.explain.inspect import inspect_nodes
from linkwise.net.http.messages import Response, text
from linkwise.net.http.routes import Endpoint, Route
from linkwise.serve.explanations.access import Granted, is_local, is_proxied
from linkwise.serve.service import NODES_PER_TURN
from linkwise.wire.extender import (
    ExtenderBindingResult,
    FilterArgs,
    FilterResult,
    HostPriority,
    NodeList,
    PreemptResult,
    decode_bind,
    decode_filter,
    decode_preempt,
    encode,
    filter_result,
    meta_victims,
)
from linkwise.wire.kubernetes.objects import decode_node, view_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from msgspec import Raw

    from linkwise.broker.effects import FilterAnswer
    from linkwise.explain.inspect import InspectedDevice, NodeInspection
    from linkwise.model.views import NodeView, PodView
    from linkwise.net.http.messages import Request
    from linkwise.serve.explanations.access import Access
    from linkwise.serve.service import Service
    from linkwise.wire.kubernetes.pod import PodObject

__all__ = ["PREFIX", "Extender", "gpushare_routes"]


class Extender:
    """The four calls: filter, prioritize, bind and preempt."""

    def __init__(self, service: Service) -> None:
        self._service = service
        counting, refusals = service.counting, service.refusals
        self.verbs: Final = (
            Endpoint("filter", self._filter, _filter_failed, counting, refusals),
            Endpoint("prioritize", self._prioritize, _no_field, counting, refusals),
            Endpoint("bind", self._bind, _bind_failed, counting, refusals),
            Endpoint("preempt", self._preempt, _no_field, counting, refusals),
        )

    def routes(self, prefix: str = "") -> list[Route]:
        """One route per verb."""
        return [Route("POST", f"{prefix}/{verb.name}", verb.handle, verb.refuse) for verb in self.verbs]

    def _view(self, pod: PodObject) -> PodView:
        """The pod of a call; taken from the watch if that has the same resourceVersion, which saves decoding it."""
        known = self._service.broker.pod(pod.metadata.uid)
        same = known is not None and pod.metadata.resource_version == str(known.version)
        return known if known and known.version and same else view_of(pod)

    def _filter(self, body: bytes) -> bytes | Awaitable[bytes]:
        """The best feasible nodes, or why no node fits."""
        args = decode_filter(body)
        pod = self._view(args.pod)
        if args.dry:
            return self._simulate_filter(pod, args)
        answer = self._service.filter(pod, args.names(), keep=True)
        self._service.counting.decision(answer)
        return encode(filter_result(answer.nodes, *_for_preemption(pod, answer)))

    async def _simulate_filter(self, pod: PodView, args: FilterArgs) -> bytes:
        """The answer to a call with complete nodes, which returns those as they were sent."""
        nodes, names, templates = await self._full_nodes(args)
        answer = await self._service.simulate_filter(pod, names, templates)
        result = filter_result(answer.nodes, *_for_preemption(pod, answer))
        result.nodes = NodeList([nodes[name] for name in answer.nodes])
        return encode(result)

    def _prioritize(self, body: bytes) -> bytes | Awaitable[bytes]:
        """A score per node; integers, since Go decodes nothing else."""
        args = decode_filter(body)
        pod = self._view(args.pod)
        if args.dry:
            return self._simulate_prioritize(pod, args)
        return _ranks(self._service.open_broker().prioritize(pod, args.names(), self._service.clock()))

    async def _simulate_prioritize(self, pod: PodView, args: FilterArgs) -> bytes:
        _, names, templates = await self._full_nodes(args)
        return _ranks(await self._service.simulate_prioritize(pod, names, templates))

    async def _full_nodes(self, args: FilterArgs) -> tuple[dict[str, Raw], list[str], list[NodeView]]:
        """Of a call with complete nodes: those as they were sent, the names that are known, and all others as templates."""
        nodes: dict[str, Raw] = {}
        for name, node in args.full_nodes():
            nodes[name] = node
            if not len(nodes) % NODES_PER_TURN:
                await asyncio.sleep(0)
        known = self._service.broker.nodes
        names = [name for name in nodes if name in known]
        templates: list[NodeView] = []
        for name in [name for name in nodes if name not in known]:
            templates.append(decode_node(bytes(nodes[name])))
            if not len(templates) % NODES_PER_TURN:
                await asyncio.sleep(0)
        return nodes, names, templates

    async def _bind(self, body: bytes) -> bytes:
        """Bind a pod; node and devices are written in one request."""
        args = decode_bind(body)
        return encode(ExtenderBindingResult(await self._service.bind(args.pod_uid, args.node)))

    def _preempt(self, body: bytes) -> bytes:
        """The candidate nodes where evictions make the pod fit, with the pods to evict there."""
        args = decode_preempt(body)
        victims = args.victims()
        by_uid = {node: [pod.uid for pod in on_node.pods or ()] for node, on_node in victims.items()}
        chosen = self._service.preempt(self._view(args.pod), by_uid)
        violations = {
            node: victims[node].num_pdb_violations
            if uids == by_uid[node]
            else self._service.broker.budget_violations(uids)
            for node, uids in chosen.items()
        }
        return encode(PreemptResult({node: meta_victims(uids, violations[node]) for node, uids in chosen.items()}))


def _ranks(ranks: Sequence[tuple[str, int]]) -> bytes:
    return encode([HostPriority(name, rank) for name, rank in ranks])


def _for_preemption(pod: PodView, answer: FilterAnswer) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The refused nodes as kube-scheduler's preemption sees them: those where it may help, and those where it can't.

    Filter is called only for nodes that pass kube-scheduler's own filters. It finds no victims there, which it reports as
    an error of every node, so it must not try: where numbers suffice and the layout does not, it can't help. The nominated
    node is the exception: its victims are terminating, and kube-scheduler would choose others if waiting were in vain.
    """
    if not answer.failed:
        return {}, answer.unresolvable
    if pod.nominated and pod.nominated in answer.failed:
        waits = {pod.nominated: answer.failed[pod.nominated]}
        return waits, {name: text for name, text in _refused(answer).items() if name not in waits}
    return {}, _refused(answer)


def _refused(answer: FilterAnswer) -> Mapping[str, str]:
    return {**answer.failed, **answer.unresolvable} if answer.unresolvable else answer.failed


def _filter_failed(sentence: str) -> bytes:
    return encode(FilterResult([], error=sentence))


def _bind_failed(sentence: str) -> bytes:
    return encode(ExtenderBindingResult(sentence))


def _no_field(sentence: str) -> None:
    """The results of these calls have no error field."""
    del sentence


PREFIX: Final = "/gpushare-scheduler"


def gpushare_routes(service: Service, access: Access | None = None, *, tls: bool = False) -> list[Route]:
    """The routes of gpushare's extender beside its calls, which are those of every extender under PREFIX.

    Args:
        service: answers them.
        access: checks the tokens of callers; None: no token counts.
        tls: whether callers are known by certificates; without, gpushare's own clients are answered as they always were.
    """

    async def inspect(request: Request, variables: Mapping[str, str]) -> Response:
        """Usage per device of one node, or of all nodes that share devices by memory."""
        names = is_known(request) or bool(access and isinstance(await access.check(request, "list", ""), Granted))
        try:
            document = _inspect(service, variables.get("node", ""), names=names)
        except NotNowError as error:
            document = {"nodes": [], "error": str(error)}
        return Response(msgspec.json.encode(document))

    def is_known(request: Request) -> bool:
        """Whether the caller needs no token to read names of pods; the API server's proxy may be open to every user."""
        return not is_proxied(request) and (not tls or request.certified or is_local(request))

    def version(request: Request, variables: Mapping[str, str]) -> Response:
        """The version of the running service."""
        del request, variables
        return text(__version__)

    # rule 004.routes: every path of gpushare's extender.
    own = [Route("GET", f"{PREFIX}{path}", inspect) for path in ("/inspect", "/inspect/", "/inspect/{node}")]
    return [*own, Route("GET", "/version", version)]


def _inspect(service: Service, name: str, *, names: bool) -> dict[str, Any]:
    broker = service.open_broker()
    sharing = sorted(each for each, node in broker.usage.items() if node.mode == "share")
    nodes = [node for each in ([name] if name else sharing) for node in inspect_nodes(broker, each, service.clock())]
    if name and not nodes:
        return {"nodes": [], "error": f"node {name!r} does not exist or has no devices"}
    return {"nodes": [_node(node, names=names) for node in nodes]}


def _node(node: NodeInspection, *, names: bool) -> dict[str, Any]:
    return {
        "name": node.name,
        "totalGPU": node.memory,
        "usedGPU": node.taken,
        "devs": [_device(device, names=names) for device in node.devices],
    }


def _device(device: InspectedDevice, *, names: bool) -> dict[str, Any]:
    return {
        "id": device.index,
        "totalGPU": device.memory,
        "usedGPU": device.memory if device.whole else device.share,
        "pods": [
            {
                "name": pod.name if names else "",
                "namespace": pod.namespace if names else "",
                "usedGPU": device.memory if pod.whole else pod.share,
            }
            for pod in device.pods
            if pod.seen
        ],
    }
