"""Calls of the kubelet's gRPC services on its unix sockets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError
from grpc import aio

from linkwise.agent.kubelet.messages import Message, messages_of
from linkwise.errors import ClusterError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["call_kubelet"]

MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""the kubelet lists every unit of shared memory of every container"""
# A pool of its own: a channel to a kubelet that has ended would delay the connection to the next one.
_OPTIONS: Final = (("grpc.max_receive_message_length", MESSAGE_BYTES), ("grpc.use_local_subchannel_pool", 1))


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
