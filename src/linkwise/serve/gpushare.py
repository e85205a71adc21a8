"""gpushare-compatible routes, for schedulers and tools that were configured for gpushare's extender.

Source: seed 004. The extender calls are Linkwise's own, under gpushare's path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise import __version__
from linkwise.errors import NotNowError
from linkwise.explain.inspect import inspect_nodes
from linkwise.net.http.messages import Response, text
from linkwise.net.http.routes import Route
from linkwise.serve.explanations.access import Granted, is_local, is_proxied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.explain.inspect import InspectedDevice, NodeInspection
    from linkwise.net.http.messages import Request
    from linkwise.serve.explanations.access import Access
    from linkwise.serve.service import Service

__all__ = ["PREFIX", "gpushare_routes"]

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
