"""Smallest device plugin: one resource, one list of devices, one answer to Allocate."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["Answer", "DevicePlugin"]

TEXT: Final = "text"
MESSAGES: Final[Mapping[str, Mapping[str, tuple[int, str, bool]]]] = {
    "Empty": {},
    "RegisterRequest": {"version": (1, TEXT, False), "endpoint": (2, TEXT, False), "resource_name": (3, TEXT, False)},
    "Device": {"ID": (1, TEXT, False), "health": (2, TEXT, False)},
    "ListAndWatchResponse": {"devices": (1, "Device", True)},
    "ContainerAllocateRequest": {"devices_ids": (1, TEXT, True)},
    "AllocateRequest": {"container_requests": (1, "ContainerAllocateRequest", True)},
    "Variable": {"key": (1, TEXT, False), "value": (2, TEXT, False)},
    "DeviceSpec": {"container_path": (1, TEXT, False), "host_path": (2, TEXT, False), "permissions": (3, TEXT, False)},
    "CDIDevice": {"name": (1, TEXT, False)},
    "ContainerAllocateResponse": {
        "envs": (1, "Variable", True),
        "devices": (3, "DeviceSpec", True),
        "cdi_devices": (5, "CDIDevice", True),
    },
    "AllocateResponse": {"container_responses": (1, "ContainerAllocateResponse", True)},
}
"""fields of v1beta1 by message: number, type, whether repeated"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a container gets that devices are allocated to."""

    environment: Mapping[str, str] = field(default_factory=dict)
    nodes: Sequence[str] = ()
    """paths of device nodes, the same on the node and in the container"""
    cdi: Sequence[str] = ()
    """qualified names"""


class DevicePlugin:
    """Serves a socket in kubelet's folder for device plugins and registers there."""

    def __init__(
        self, folder: Path, resource: str, devices: Sequence[str], answer: Answer | Callable[[Sequence[str]], Answer]
    ) -> None:
        self._folder, self._resource, self._devices, self._answer = folder, resource, devices, answer
        self.allocated: list[tuple[str, ...]] = []
        """the devices of each call of Allocate"""
        self._stopped = Event()
        self._server = grpc.server(ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers([self._handlers()])
        self._server.add_insecure_port(f"unix:{folder / 'smallest.sock'}")

    def start(self) -> None:
        """Serve, then register: kubelet calls back at once."""
        self._server.start()
        request = _TYPES["RegisterRequest"](version="v1beta1", endpoint="smallest.sock", resource_name=self._resource)
        with grpc.insecure_channel(f"unix:{self._folder / 'kubelet.sock'}") as channel:
            register = channel.unary_unary("/v1beta1.Registration/Register", _bytes, _TYPES["Empty"].FromString)
            register(request, timeout=10)

    def stop(self) -> None:
        """End the stream and the server."""
        self._stopped.set()
        self._server.stop(grace=None).wait()

    def _list(self, _request: object, _context: object) -> Iterator[Any]:
        devices = [_TYPES["Device"](ID=one, health="Healthy") for one in self._devices]
        yield _TYPES["ListAndWatchResponse"](devices=devices)
        self._stopped.wait()

    def _allocate(self, request: Any, _context: object) -> Any:  # noqa: ANN401 - messages are made at run time
        self.allocated += [tuple(one.devices_ids) for one in request.container_requests]
        answer = self._answer if isinstance(self._answer, Answer) else self._answer(self.allocated[-1])
        reply = _TYPES["ContainerAllocateResponse"](
            envs=[{"key": name, "value": value} for name, value in answer.environment.items()],
            devices=[{"container_path": path, "host_path": path, "permissions": "rwm"} for path in answer.nodes],
            cdi_devices=[{"name": name} for name in answer.cdi],
        )
        return _TYPES["AllocateResponse"](container_responses=[reply])

    def _handlers(self) -> grpc.GenericRpcHandler:
        empty = _TYPES["Empty"]
        return grpc.method_handlers_generic_handler(
            "v1beta1.DevicePlugin",
            {
                "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(
                    lambda _request, _context: empty(), empty.FromString, _bytes
                ),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._list, empty.FromString, _bytes),
                "Allocate": grpc.unary_unary_rpc_method_handler(
                    self._allocate, _TYPES["AllocateRequest"].FromString, _bytes
                ),
            },
        )


def _bytes(message: Any) -> bytes:  # noqa: ANN401 - messages are made at run time
    return bytes(message.SerializeToString())


def _types() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="smallest.proto", package="smallest", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for title, (number, kind, repeated) in fields.items():
            message.field.add(
                name=title,
                number=number,
                label=kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL,
                type=kinds.TYPE_STRING if kind == TEXT else kinds.TYPE_MESSAGE,
                type_name=None if kind == TEXT else f".smallest.{kind}",
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"smallest.{name}")) for name in MESSAGES}


_TYPES: Final = _types()
