"""Scripted kubelet and API server for a driver of claims: gRPC over real unix sockets, slices and claims in memory."""

from __future__ import annotations

import asyncio
import copy
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from grpc import aio

from linkwise.agent.kubelet.messages import DRA_PLUGIN, HEALTH, PLUGIN_REGISTRATION, messages_of
from linkwise.dialects.kubernetes.claims.driver import DRIVER
from linkwise.node.writes import Written

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

__all__ = ["ClaimKubelet", "ClaimStore", "claim_object"]

Raw = dict[str, Any]
INFO: Final = messages_of(PLUGIN_REGISTRATION)
CLAIMS: Final = messages_of(DRA_PLUGIN)
STATES: Final = messages_of(HEALTH)


def claim_object(  # noqa: PLR0913 - a builder: every field but two has a default
    name: str,
    devices: Mapping[str, Sequence[str]],
    *,
    uid: str = "",
    node: str = "worker",
    driver: str = DRIVER,
    admin: bool = False,
) -> Raw:
    """An allocated claim with these devices by request."""
    results = [
        {"request": request, "driver": driver, "pool": node, "device": device}
        | ({"adminAccess": True} if admin else {})
        for request, names in devices.items()
        for device in names
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"namespace": "default", "name": name, "uid": uid or f"uid-{name}"},
        "spec": {},
        "status": {"allocation": {"devices": {"results": results}}},
    }


@dataclass(slots=True)
class ClaimStore:
    """Slices and claims as an API server keeps them; its watch calls `seen` with each change."""

    seen: Callable[[str, Raw | None], None] = lambda *_: None
    away: bool = False
    drops: frozenset[str] = frozenset()
    """fields of devices and slices that it drops, as with a feature gate that is off"""
    slices: dict[str, Raw] = field(default_factory=dict)
    claims: dict[str, Raw] = field(default_factory=dict)
    """by name"""
    reads: int = 0
    version: int = 0

    def listed(self) -> None:
        """The watch has listed all slices."""
        for name, document in self.slices.items():
            self.seen(name, copy.deepcopy(document))
        self.seen("", None)

    def remove(self, *names: str) -> None:
        """Slices are deleted by somebody else; all of them by default."""
        for name in names or [*self.slices]:
            del self.slices[name]
            self.seen(name, None)

    def generations(self) -> set[int]:
        """The generations of all slices."""
        return {one["spec"]["pool"]["generation"] for one in self.slices.values()}

    def devices(self) -> dict[str, Raw]:
        """The devices of all slices, by name."""
        return {each["name"]: each for one in self.slices.values() for each in one["spec"].get("devices", ())}

    async def write_slice(self, document: Mapping[str, object], known: Mapping[str, object] | None) -> Written:
        """Store a slice."""
        del known
        if self.away:
            return Written("unreachable", "the API server is away")
        self.version += 1
        stored: Raw = copy.deepcopy(dict(document))
        name = stored["metadata"]["name"]
        before = self.slices.get(name)
        uid = before["metadata"]["uid"] if before else f"uid-{self.version}"
        stored["metadata"] |= {"uid": uid, "resourceVersion": str(self.version)}
        self._default(stored["spec"])
        self.slices[name] = stored
        self.seen(name, copy.deepcopy(stored))
        return Written("done", document=copy.deepcopy(stored))

    async def delete_slice(self, name: str) -> Written:
        """Delete a slice."""
        if self.away:
            return Written("unreachable", "the API server is away")
        if name in self.slices:
            self.remove(name)
        return Written("done")

    async def claim(self, namespace: str, name: str) -> Written:
        """Read a claim."""
        self.reads += 1
        if self.away:
            return Written("unreachable", "the API server is away")
        found = self.claims.get(name)
        if found is None or found["metadata"]["namespace"] != namespace:
            return Written("refused", f'resourceclaims "{name}" not found')
        return Written("done", document=copy.deepcopy(found))

    def _default(self, spec: Raw) -> None:
        for each in (spec, *spec.get("devices", ())):
            for name in self.drops & each.keys():
                del each[name]
            for taint in each.get("taints", ()):
                taint.setdefault("timeAdded", f"2026-01-01T00:00:{self.version % 60:02}Z")


class ClaimKubelet:
    """Calls a driver as the kubelet does."""

    def __init__(self, root: Path) -> None:
        self.root: Final = root
        self.registry: Final = root / "plugins_registry"

    async def register(self, *, error: str = "") -> Any:  # noqa: ANN401 - a message
        """Find the driver by its socket, and say whether it is used; its answer to GetInfo."""
        async with asyncio.timeout(60):
            while not (sockets := list(self.registry.glob("*.sock"))):  # noqa: ASYNC110 - a folder has no event
                await asyncio.sleep(0.02)
            (socket,) = sockets
            info = await call(socket, f"{PLUGIN_REGISTRATION}/GetInfo", INFO["InfoRequest"](), INFO["PluginInfo"])
            status = INFO["RegistrationStatus"](plugin_registered=not error, error=error)
            done = INFO["RegistrationStatusResponse"]
            await call(socket, f"{PLUGIN_REGISTRATION}/NotifyRegistrationStatus", status, done)
        return info

    async def prepare(self, *claims: tuple[str, str], namespace: str = "default") -> dict[str, Any]:
        """Prepare claims by name and UID; the answers by UID."""
        return await self._claims("Prepare", claims, namespace)

    async def unprepare(self, *claims: tuple[str, str], namespace: str = "default") -> dict[str, Any]:
        """Take claims back."""
        return await self._claims("Unprepare", claims, namespace)

    @asynccontextmanager
    async def health(self, service: str = HEALTH) -> AsyncIterator[AsyncIterator[dict[str, tuple[int, str]]]]:
        """Follow the health of devices: state and message by name."""
        async with aio.insecure_channel(
            f"unix:{self.socket}", options=[("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            watch: Any = channel.unary_stream(f"/{service}/NodeWatchResources")
            stream = watch(b"")

            async def states() -> AsyncIterator[dict[str, tuple[int, str]]]:
                async for body in stream:
                    devices = STATES["NodeWatchResourcesResponse"].FromString(body).devices
                    yield {one.device.device_name: (one.health, one.message) for one in devices}

            yield states()
            stream.cancel()

    @property
    def socket(self) -> Path:
        """The socket of the driver."""
        return self.root / "plugins" / DRIVER / "dra.sock"

    async def _claims(self, verb: str, claims: Iterable[tuple[str, str]], namespace: str) -> dict[str, Any]:
        request = CLAIMS[f"Node{verb}ResourcesRequest"](
            claims=[{"namespace": namespace, "name": name, "uid": uid} for name, uid in claims]
        )
        answer = CLAIMS[f"Node{verb}ResourcesResponse"]
        return dict((await call(self.socket, f"{DRA_PLUGIN}/Node{verb}Resources", request, answer)).claims)


async def call(socket: Path, method: str, request: Any, response: Any) -> Any:  # noqa: ANN401 - messages
    """Call a method; the request may be bytes that are no message."""
    async with aio.insecure_channel(f"unix:{socket}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        body = request if isinstance(request, bytes) else request.SerializeToString()
        unary: Any = channel.unary_unary(f"/{method}")
        return response.FromString(await unary(body, timeout=60))
