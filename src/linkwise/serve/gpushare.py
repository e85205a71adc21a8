"""gpushare-compatible routes, for schedulers and tools that were configured for gpushare's extender.

Source: seed 004. The extender calls are Linkwise's own, under gpushare's path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise import __version__
from linkwise.errors import NotNowError
from linkwise.net.http.messages import Response, text
from linkwise.net.http.routes import Route

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkwise.explain.inspect import InspectedDevice, NodeInspection
    from linkwise.net.http.messages import Request
    from linkwise.serve.service import Service

__all__ = ["PREFIX", "gpushare_routes"]

PREFIX: Final = "/gpushare-scheduler"


def gpushare_routes(service: Service, verbs: Sequence[Route]) -> list[Route]:
    """All routes of gpushare's extender; `verbs` are those of the extender calls under PREFIX."""

    def inspect(request: Request, variables: Mapping[str, str]) -> Response:
        """Usage per device of one node, or of all nodes that share devices by memory."""
        del request
        try:
            document = _inspect(service, variables.get("node", ""))
        except NotNowError as error:
            document = {"nodes": [], "error": str(error)}
        return Response(msgspec.json.encode(document))

    def version(request: Request, variables: Mapping[str, str]) -> Response:
        """The version of the running service."""
        del request, variables
        return text(__version__)

    # rule 004.routes: every path of gpushare's extender.
    own = [Route("GET", f"{PREFIX}{path}", inspect) for path in ("/inspect", "/inspect/", "/inspect/{node}")]
    return [*verbs, *own, Route("GET", "/version", version)]


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
