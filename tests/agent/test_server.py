"""The gRPC server of plugins."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

from support.environment import surroundings

if TYPE_CHECKING:
    from pathlib import Path

ALONE: Final = """
import asyncio, gc, sys, threading
from pathlib import Path
from linkwise.agent.kubelet.server import UnixServer

async def serve() -> None:
    server = UnixServer(Path(sys.argv[1]))
    await server.start({})
    await server.stop()

asyncio.run(serve())
gc.collect()
print(sum("_poll_wrapper" in thread.name for thread in threading.enumerate()))
"""


def test_grpc_keeps_its_polling_thread_when_the_last_server_has_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ALONE, str(tmp_path / "plugin.sock")]
    done = subprocess.run(command, env=surroundings(), capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["1"]
