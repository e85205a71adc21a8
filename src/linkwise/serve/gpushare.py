"""The routes of gpushare's extender, for schedulers and tools that were set up for it.

Source: seed 004; its extender's verbs are ours under another path.
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
    """What gpushare's extender answers."""

    async def inspect(request: Request) -> Response:
        """Nodes that share memory, or the one that is named."""
        try:
            document = _inspected(service, request.path_params.get("node", ""))
        except NotNowError as error:
            return Response(msgspec.json.encode({"nodes": [], "error": str(error)}), media_type=JSON)
        return Response(msgspec.json.encode(document), media_type=JSON)

    async def version(request: Request) -> Response:
        """The version that runs."""
        del request
        return text(__version__)

    # rule 004.routes: the paths of its extender, and all of them.
    own = [Route(path, inspect, methods=["GET"]) for path in ("/inspect", "/inspect/", "/inspect/{node}")]
    return [Mount(PREFIX, routes=[*verbs, *own]), Route("/version", version, methods=["GET"])]


def _inspected(service: Service, name: str) -> dict[str, Any]:
    found = [node for each in ([name] if name else service.sharing()) for node in service.inspect(each)]
    if name and not found:
        return {"nodes": [], "error": f"node {name!r} is not known, or has no devices"}
    return {"nodes": [_node(node) for node in found]}


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
