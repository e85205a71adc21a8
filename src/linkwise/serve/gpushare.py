"""gpushare-compatible routes, for schedulers and tools that were configured for gpushare's extender.

Source: seed 004. The extender calls are Linkwise's own, under gpushare's path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.responses import Response
from starlette.routing import Mount, Route

from linkwise import __version__
from linkwise.errors import NotNowError
from linkwise.serve.http.endpoint import JSON, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from linkwise.explain.inspect import InspectedDevice, NodeInspection
    from linkwise.serve.service import Service

__all__ = ["PREFIX", "gpushare_routes"]

PREFIX: Final = "/gpushare-scheduler"


def gpushare_routes(service: Service, verbs: Sequence[BaseRoute]) -> list[BaseRoute]:
    """All routes of gpushare's extender."""

    async def inspect(request: Request) -> Response:
        """Usage per device of one node, or of all nodes that share devices by memory."""
        try:
            document = _inspect(service, request.path_params.get("node", ""))
        except NotNowError as error:
            return Response(msgspec.json.encode({"nodes": [], "error": str(error)}), media_type=JSON)
        return Response(msgspec.json.encode(document), media_type=JSON)

    async def version(request: Request) -> Response:
        """The version of the running service."""
        del request
        return text(__version__)

    # rule 004.routes: every path of gpushare's extender.
    own = [Route(path, inspect, methods=["GET"]) for path in ("/inspect", "/inspect/", "/inspect/{node}")]
    return [Mount(PREFIX, routes=[*verbs, *own]), Route("/version", version, methods=["GET"])]


def _inspect(service: Service, name: str) -> dict[str, Any]:
    nodes = [node for each in ([name] if name else service.sharing()) for node in service.inspect(each)]
    if name and not nodes:
        return {"nodes": [], "error": f"node {name!r} does not exist or has no devices"}
    return {"nodes": [_node(node) for node in nodes]}


def _node(node: NodeInspection) -> dict[str, Any]:
    return {
        "name": node.name,
        "totalGPU": node.memory,
        "usedGPU": node.taken,
        "devs": [_device(device) for device in node.devices],
    }


def _device(device: InspectedDevice) -> dict[str, Any]:
    return {
        "id": device.index,
        "totalGPU": device.memory,
        "usedGPU": device.memory if device.whole else device.share,
        "pods": [
            {
                "name": pod.name,
                "namespace": pod.namespace,
                "usedGPU": device.memory if pod.whole else pod.share,
            }
            for pod in device.pods
            if pod.seen
        ],
    }
