"""Messages of the kubelet's gRPC APIs, by their field numbers: device plugins, pod resources, and drivers of claims.

Descriptors are built when the module is imported. Code that a compiler generates works only with the protobuf versions
near the compiler's own; these tables work with any.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from grpc import aio

from linkwise.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = [
    "DEVICE_PLUGIN",
    "DRA_PLUGIN",
    "HEALTH",
    "PLUGIN_REGISTRATION",
    "POD_RESOURCES",
    "REGISTRATION",
    "STABLE_HEALTH",
    "Message",
    "call_kubelet",
    "messages_of",
]

Message = Any
"""an instance of a class that is made at import"""

DEVICE_PLUGIN: Final = "v1beta1.DevicePlugin"
REGISTRATION: Final = "v1beta1.Registration"
POD_RESOURCES: Final = "v1.PodResourcesLister"
PLUGIN_REGISTRATION: Final = "pluginregistration.Registration"
"""of plugins that the kubelet finds by their sockets"""
DRA_PLUGIN: Final = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
HEALTH: Final = "v1alpha1.DRAResourceHealth"
STABLE_HEALTH: Final = "v1.DRAResourceHealth"
"""since Kubernetes 1.37, with the messages of v1alpha1"""

Fields = dict[str, tuple[int, str]]
"""number and type by name; `*` before a type repeats it, `map` is of texts, and `map ` before a type of texts to it"""

_PLUGIN: Final[Mapping[str, Fields]] = {
    "Empty": {},
    "DevicePluginOptions": {
        "pre_start_required": (1, "bool"),
        "get_preferred_allocation_available": (2, "bool"),
    },
    "RegisterRequest": {
        "version": (1, "string"),
        "endpoint": (2, "string"),
        "resource_name": (3, "string"),
        "options": (4, "DevicePluginOptions"),
    },
    "NUMANode": {"ID": (1, "int64")},
    "TopologyInfo": {"nodes": (1, "*NUMANode")},
    "Device": {"ID": (1, "string"), "health": (2, "string"), "topology": (3, "TopologyInfo")},
    "ListAndWatchResponse": {"devices": (1, "*Device")},
    "ContainerPreferredAllocationRequest": {
        "available_deviceIDs": (1, "*string"),
        "must_include_deviceIDs": (2, "*string"),
        "allocation_size": (3, "int32"),
    },
    "PreferredAllocationRequest": {"container_requests": (1, "*ContainerPreferredAllocationRequest")},
    "ContainerPreferredAllocationResponse": {"deviceIDs": (1, "*string")},
    "PreferredAllocationResponse": {"container_responses": (1, "*ContainerPreferredAllocationResponse")},
    "ContainerAllocateRequest": {"devices_ids": (1, "*string")},
    "AllocateRequest": {"container_requests": (1, "*ContainerAllocateRequest")},
    "CDIDevice": {"name": (1, "string")},
    "Mount": {"container_path": (1, "string"), "host_path": (2, "string"), "read_only": (3, "bool")},
    "DeviceSpec": {"container_path": (1, "string"), "host_path": (2, "string"), "permissions": (3, "string")},
    "ContainerAllocateResponse": {
        "envs": (1, "map"),
        "mounts": (2, "*Mount"),
        "devices": (3, "*DeviceSpec"),
        "annotations": (4, "map"),
        "cdi_devices": (5, "*CDIDevice"),
    },
    "AllocateResponse": {"container_responses": (1, "*ContainerAllocateResponse")},
    "PreStartContainerRequest": {"devices_ids": (1, "*string")},
    "PreStartContainerResponse": {},
}

# Fields that Linkwise does not read, such as those of CPUs and claims, are left out: protobuf skips them.
_POD_RESOURCES: Final[Mapping[str, Fields]] = {
    "ListPodResourcesRequest": {},
    "ContainerDevices": {"resource_name": (1, "string"), "device_ids": (2, "*string")},
    "ContainerResources": {"name": (1, "string"), "devices": (2, "*ContainerDevices")},
    "PodResources": {"name": (1, "string"), "namespace": (2, "string"), "containers": (3, "*ContainerResources")},
    "ListPodResourcesResponse": {"pod_resources": (1, "*PodResources")},
    "AllocatableResourcesRequest": {},
    "AllocatableResourcesResponse": {"devices": (1, "*ContainerDevices")},
}

_PLUGIN_REGISTRATION: Final[Mapping[str, Fields]] = {
    "InfoRequest": {},
    "PluginInfo": {
        "type": (1, "string"),
        "name": (2, "string"),
        "endpoint": (3, "string"),
        "supported_versions": (4, "*string"),
    },
    "RegistrationStatus": {"plugin_registered": (1, "bool"), "error": (2, "string")},
    "RegistrationStatusResponse": {},
}

_DRA_PLUGIN: Final[Mapping[str, Fields]] = {
    "Claim": {"namespace": (1, "string"), "uid": (2, "string"), "name": (3, "string")},
    "NodePrepareResourcesRequest": {"claims": (1, "*Claim")},
    "Device": {
        "request_names": (1, "*string"),
        "pool_name": (2, "string"),
        "device_name": (3, "string"),
        "cdi_device_ids": (4, "*string"),
    },
    "NodePrepareResourceResponse": {"devices": (1, "*Device"), "error": (2, "string")},
    "NodePrepareResourcesResponse": {"claims": (1, "map NodePrepareResourceResponse")},
    "NodeUnprepareResourcesRequest": {"claims": (1, "*Claim")},
    "NodeUnprepareResourceResponse": {"error": (1, "string")},
    "NodeUnprepareResourcesResponse": {"claims": (1, "map NodeUnprepareResourceResponse")},
}

_HEALTH: Final[Mapping[str, Fields]] = {
    "NodeWatchResourcesRequest": {},
    "DeviceIdentifier": {"pool_name": (1, "string"), "device_name": (2, "string")},
    "DeviceHealth": {
        "device": (1, "DeviceIdentifier"),
        "health": (2, "int32"),  # an enumeration: 0 unknown, 1 healthy, 2 unhealthy
        "last_updated_time": (3, "int64"),
        "health_check_timeout_seconds": (4, "int64"),
        "message": (5, "string"),
    },
    "NodeWatchResourcesResponse": {"devices": (1, "*DeviceHealth")},
}

_TABLES: Final = {
    "v1beta1": _PLUGIN,
    "v1": _POD_RESOURCES,
    "pluginregistration": _PLUGIN_REGISTRATION,
    "k8s.io.kubelet.pkg.apis.dra.v1": _DRA_PLUGIN,
    "v1alpha1": _HEALTH,
}
_SCALARS: Final = {
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
}
MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""the kubelet lists every unit of shared memory of every container"""
# A pool of its own: a channel to a kubelet that has ended would delay the connection to the next one.
_OPTIONS: Final = (("grpc.max_receive_message_length", MESSAGE_BYTES), ("grpc.use_local_subchannel_pool", 1))


def messages_of(service: str) -> dict[str, Any]:
    """The message classes of a service, or of that of a method, by name."""
    return _CLASSES[service.partition("/")[0].rpartition(".")[0]]


def _file(package: str, table: Mapping[str, Fields]) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name=f"linkwise/{package}.proto", package=package, syntax="proto3")
    for name, fields in table.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _add_field(message, package, field, number, kind)
    return file


def _add_field(message: Any, package: str, name: str, number: int, kind: str) -> None:  # noqa: ANN401 - a descriptor
    entry = message.field.add(name=name, number=number, json_name=name)
    repeated = kind.startswith(("*", "map"))
    entry.label = entry.LABEL_REPEATED if repeated else entry.LABEL_OPTIONAL
    kind = kind.removeprefix("*")
    if kind in _SCALARS:
        entry.type = _SCALARS[kind]
        return
    entry.type = entry.TYPE_MESSAGE
    if not kind.startswith("map"):
        entry.type_name = f".{package}.{kind}"
        return
    pair = message.nested_type.add(name=f"{name.capitalize()}Entry")
    pair.options.map_entry = True
    _add_field(pair, package, "key", 1, "string")
    _add_field(pair, package, "value", 2, kind.removeprefix("map").strip() or "string")
    entry.type_name = f".{package}.{message.name}.{pair.name}"


def _classes(package: str, table: Mapping[str, Fields]) -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()  # of our own: others may have registered the same names
    pool.Add(_file(package, table))
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in table}


_CLASSES: Final = {package: _classes(package, table) for package, table in _TABLES.items()}


async def call_kubelet(socket: Path, method: str, request: Message, response: str, seconds: float) -> Message:
    """Call a method, named with its service, and return the response, a message of that name.

    AioRpcError if the call fails, ClusterError if the response is not such a message.
    """
    answer = messages_of(method)[response]
    try:
        async with aio.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
            call: aio.UnaryUnaryMultiCallable[Message, bytes] = channel.unary_unary(
                f"/{method}", request_serializer=type(request).SerializeToString
            )
            body = await call(request, timeout=seconds)
        return answer.FromString(body)  # gRPC would return None for a response that it can't parse
    except DecodeError as error:
        raise ClusterError(f"{socket}: the response to {method} is not valid as {response}: {error}") from error
    except Exception as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # gRPC may replace a cancellation by an error of its own; the task would never end.
            raise asyncio.CancelledError from error
        raise
