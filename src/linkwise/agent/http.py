"""HTTP routes of the agent: metrics, probes, and the container flags of devices for callers on the same host.

Source: seed 002, whose plugin prints the flags of a container command line.
"""

from __future__ import annotations

import json
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from linkwise.errors import InputError
from linkwise.net.http.health import health_routes
from linkwise.net.http.messages import Response, text
from linkwise.net.http.routes import Route, Routes
from linkwise.vendors.container_needs import container_needs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from linkwise.agent.metrics import AgentMetrics
    from linkwise.agent.node_agent import NodeAgent
    from linkwise.model.device import Device
    from linkwise.net.http.messages import Request

__all__ = ["agent_application"]


def agent_application(agent: NodeAgent, metrics: AgentMetrics, notes: Callable[[], Sequence[str]]) -> Routes:
    """The routes of one agent, those of the flags only if the setting is on; `notes` are problems to report."""

    def scrape(request: Request, variables: Mapping[str, str]) -> Response:
        del request, variables
        return Response(generate_latest(metrics.registry), content_type=CONTENT_TYPE_LATEST)

    routes = [*health_routes(agent.not_ready, notes), Route("GET", "/metrics", scrape)]
    if agent.settings.flags:
        routes += [
            Route("GET", "/docker/cli", lambda request, _: _flags(agent, request, as_json=False)),
            Route("GET", "/docker/cli/json", lambda request, _: _flags(agent, request, as_json=True)),
        ]
    return Routes(routes)


def _flags(agent: NodeAgent, request: Request, *, as_json: bool) -> Response:
    """The flags that give a container the devices named by `dev`, or all healthy ones."""
    # rule 002.flags
    if not ip_address(request.client).is_loopback:
        return text("container flags are only served to callers on the same host", 403)
    try:
        devices = _chosen(agent.found.devices, request.query)
        needs = container_needs(agent.found.vendor, devices) if devices else None
    except InputError as error:
        return text(str(error), 400)
    host = agent.access.options
    nodes = [*needs.device_nodes, *filter(host.exists, needs.optional_nodes)] if needs else []
    mounts = [f"{mount.host_path}:{mount.container_path}:ro" for mount in host.mounts] if needs else []
    environment = [f"{name}={value}" for name, value in needs.environment] if needs else []
    if as_json:
        return Response(json.dumps({"Devices": nodes, "Volumes": mounts, "Environment": environment}).encode())
    flags = [
        *(f"--device={node}" for node in nodes),
        *(f"--volume={mount}" for mount in mounts),
        *(f"--env={variable}" for variable in environment),
    ]
    return text(" ".join(flags))


def _chosen(devices: tuple[Device, ...], query: str) -> list[Device]:
    """The devices that the query names by index or UUID, with spaces or commas between them; healthy ones by default."""
    named = " ".join(parse_qs(query).get("dev", [])).replace(",", " ").split()
    if not named:
        return [device for device in devices if device.healthy]
    known = {str(device.index): device for device in devices} | {device.id: device for device in devices}
    unknown = [name for name in named if name not in known]
    if unknown:
        raise InputError(f"unknown device {unknown[0][:64]!r}; devices: {', '.join(str(one.index) for one in devices)}")
    return [known[name] for name in dict.fromkeys(named)]
