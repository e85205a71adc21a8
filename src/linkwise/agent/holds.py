"""Holds: devices that a measurement on this node may use, while no pod has them; the agent's side and the measurement's.

A measurement connects to the agent's socket and asks for devices. A hold's life::

    asked      the devices must be idle by the kubelet's lists and by the pods bound to the node
    published  the inventory shows the hold, so that the scheduler places nothing on the devices
    checked    after a pause for binds that were under way, the devices must still be idle
    held       the measurement may use them
    revoked    a pod needs one of them, or the time is over: the measurement must stop
    ended      the connection is closed

The connection is the hold. The test program inherits it, so the kernel closes it only when the last process of the
measurement is gone, also if the measurement was killed. A container gets a device only by the answer to the kubelet's
Allocate, which waits for that: whatever the scheduler believes, no pod ever shares a device with a measurement.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import socket
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.dialects.linkwise.inventory import held_devices
from linkwise.errors import ClusterError, InputError, LinkwiseError
from linkwise.model.inventory import Hold
from linkwise.wire.decoding import parse_json
from linkwise.wire.measurement import LONGEST_LINE, HoldReply, HoldRequest, decode_reply, decode_request, encode_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from linkwise.net.timing import Timing

__all__ = [
    "HoldConnection",
    "Holds",
    "Survey",
    "hold_devices",
    "hold_socket",
    "idle_devices",
    "is_measuring",
    "measuring_lock",
]

log = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 5.0
"""for the request of a connection to arrive"""
PUBLISH_SECONDS: Final = 15.0
"""for the API server to show the hold"""
SETTLE_SECONDS: Final = 3.0
"""for the scheduler to observe the hold, and for binds that it had decided before to arrive"""
VACATE_SECONDS: Final = 10.0
"""for a measurement to end when a pod needs its devices"""
RECENT_SECONDS: Final = 30.0
"""for which an allocated device counts as used, whether or not the kubelet lists it"""
SPARE_SECONDS: Final = 30.0
"""beyond the time limit, for the measurement to end by itself"""
MOST_CONNECTIONS: Final = 8
ANSWER_SECONDS: Final = 60.0
"""for the agent to hold the devices or to refuse"""


def hold_socket(folder: Path) -> Path:
    """The socket for measurements, in the agent's state folder."""
    return folder / "measure.sock"


def measuring_lock(folder: Path) -> Path:
    """The file that a measurement locks as long as any of its processes runs."""
    return folder / "measure.lock"


def is_measuring(folder: Path) -> bool:
    """Whether a measurement runs, which an earlier agent may have allowed."""
    try:
        with measuring_lock(folder).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@dataclass(frozen=True, slots=True)
class Survey:
    """The devices of the node, and who uses them."""

    healthy: tuple[str, ...] = ()
    busy: Mapping[str, str] = field(default_factory=dict)
    """by device id: who has it, or is about to get it"""
    problem: str = ""
    """why nothing can be held at all"""


@dataclass(slots=True, eq=False)
class _Active:
    """One hold, from the request until the connection is closed."""

    devices: tuple[str, ...]
    reason: str
    until: float  # seconds since the epoch
    write: Callable[[HoldReply], None]
    revoked: str = ""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def revoke(self, sentence: str) -> None:
        if not self.revoked:
            self.revoked = sentence
            log.warning("hold revoked devices=%s: %s", ",".join(self.devices), sentence)
            self.write(HoldReply("revoked", sentence))


class Holds:
    """The holds of one node; `run` serves the socket until cancelled."""

    def __init__(
        self,
        folder: Path,
        timing: Timing,
        clock: Callable[[], float],
        survey: Callable[[], Awaitable[Survey]],
        changed: Callable[[], None],
    ) -> None:
        self.problem = ""
        """why no measurement can connect"""
        self.settle = SETTLE_SECONDS
        self.patience = VACATE_SECONDS
        self._folder = folder
        self._timing = timing
        self._clock = clock
        """seconds since the epoch"""
        self._survey = survey
        self._changed = changed
        """called when `holds` has changed"""
        self._active: list[_Active] = []
        self._recent: dict[str, float] = {}
        """when a device was last allocated, by the clock of `timing`"""
        self._shown: frozenset[str] = frozenset()
        self._news = asyncio.Event()
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def holds(self) -> tuple[Hold, ...]:
        """The holds to publish."""
        return tuple(Hold(device, one.reason, one.until) for one in self._active for device in one.devices)

    @property
    def devices(self) -> frozenset[str]:
        """The devices on hold."""
        return frozenset(device for one in self._active for device in one.devices)

    async def run(self) -> None:
        """Serve the socket; if it can't be made, the agent runs without it."""
        socket = hold_socket(self._folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            socket.unlink(missing_ok=True)
            server = await asyncio.start_unix_server(self._accept, socket, limit=LONGEST_LINE)
            socket.chmod(0o600)
        except (OSError, ValueError) as error:
            self.problem = f"measurements can't connect: {socket}: {error}"
            log.warning("%s", self.problem)
            return
        try:
            await server.serve_forever()
        finally:
            server.close()
            socket.unlink(missing_ok=True)
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)

    def observe(self, document: object) -> None:
        """Take the DeviceInventory as the API server shows it."""
        if self._active:
            with suppress(InputError):
                self._shown = held_devices(parse_json(document) if isinstance(document, bytes) else document)
                self._news.set()

    def review(self, taken: Collection[str]) -> None:
        """Revoke holds on devices that pods have or are about to get."""
        self._revoke(taken, "a pod needs a device")

    async def vacate(self, devices: Collection[str]) -> str:
        """Wait until no measurement uses the devices, which are about to be allocated; why they can't be, if they can't."""
        now = self._timing.clock()
        self._recent = {device: at for device, at in self._recent.items() if now - at < RECENT_SECONDS}
        self._recent |= dict.fromkeys(devices, now)
        using = self._revoke(devices, "the kubelet allocates a device to a pod")
        try:
            async with asyncio.timeout(self.patience):
                for one in using:
                    await one.ended.wait()
        except TimeoutError:
            names = ", ".join(sorted(set(devices).intersection(*(one.devices for one in using[:1]))))
            return f"device {names} is in use by a measurement that does not end; see the log of the agent on this node"
        return ""

    def _revoke(self, devices: Iterable[str], sentence: str) -> list[_Active]:
        using = [one for one in self._active if not set(devices).isdisjoint(one.devices)]
        for one in using:
            one.revoke(sentence)
        return using

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def write(reply: HoldReply) -> None:
            if not writer.is_closing():
                writer.write(encode_line(reply))

        try:
            await self._answer(reader, write)
        except (ConnectionError, TimeoutError):
            pass
        except LinkwiseError as error:
            write(HoldReply("refused", str(error)))
        except Exception:  # a bug must not keep the node from serving the kubelet
            log.exception("hold request failed")
            write(HoldReply("refused", "internal error; see the log of the agent"))
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, write: Callable[[HoldReply], None]) -> None:
        async with asyncio.timeout(REQUEST_SECONDS):
            try:
                request = decode_request(await reader.readline())
            except ValueError as error:  # InputError, or a line that is too long
                raise InputError(f"invalid request: {error}") from error
        if len(self._serving) > MOST_CONNECTIONS:
            raise InputError("too many measurements are connected")
        devices = self._chosen(request, await self._survey())
        if request.dry_run:
            write(HoldReply("idle", devices=list(devices)))
            return
        until = self._clock() + request.seconds + SPARE_SECONDS
        active = _Active(devices, request.reason, until, write)
        closed = asyncio.create_task(reader.read())
        self._active.append(active)  # from here on, an allocation of one of the devices waits for the end of this hold
        log.info("hold devices=%s seconds=%g: %s", ",".join(devices), request.seconds, request.reason)
        try:
            if await self._granted(active, closed):
                write(HoldReply("held", devices=list(devices)))
                await self._end(active, closed, request.seconds)
        except Exception:
            self._release(active)
            raise
        finally:
            closed.cancel()
        # Not if the agent is stopped: the measurement may still run then, and the plugin must not answer for its devices.
        self._release(active)

    def _chosen(self, request: HoldRequest, survey: Survey) -> tuple[str, ...]:
        """The devices to hold; InputError if they are not idle."""
        if survey.problem:
            raise InputError(survey.problem)
        busy = {**dict.fromkeys(self._recent_devices(), "it was allocated a moment ago"), **survey.busy}
        busy |= dict.fromkeys(self.devices, "another measurement uses it")
        unknown = [device for device in request.devices if device not in survey.healthy]
        if unknown:
            raise InputError(f"device {unknown[0]} is unhealthy, or this node does not have it")
        used = [f"device {device} is not idle: {busy[device]}" for device in request.devices if device in busy]
        if used:
            raise InputError("; ".join(used))
        devices = tuple(request.devices) or tuple(device for device in survey.healthy if device not in busy)
        if len(set(devices)) < 2:
            why = "; ".join(f"{device}: {sentence}" for device, sentence in busy.items())
            raise InputError(f"bandwidth is measured between at least two idle devices, {len(devices)} found ({why})")
        return tuple(dict.fromkeys(devices))

    def _recent_devices(self) -> list[str]:
        now = self._timing.clock()
        return [device for device, at in self._recent.items() if now - at < RECENT_SECONDS]

    async def _granted(self, active: _Active, closed: asyncio.Task[bytes]) -> bool:
        """Publish the hold and check again; False if the connection was closed, InputError if it is refused."""
        active.write(HoldReply("waiting", "publishing the hold"))
        self._shown = frozenset()
        self._changed()
        try:
            async with asyncio.timeout(PUBLISH_SECONDS):
                while not self._shown.issuperset(active.devices):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise InputError("the API server does not show the hold; see /readyz?verbose of the agent") from None
        active.write(HoldReply("waiting", "waiting for binds that are under way"))
        await self._timing.sleep(self.settle)
        survey = await self._survey()
        used = [f"{device}: {survey.busy[device]}" for device in active.devices if device in survey.busy]
        why = active.revoked or survey.problem or "; ".join(used)
        if why:
            raise InputError(f"the devices did not stay idle: {why}")
        return not closed.done()

    async def _end(self, active: _Active, closed: asyncio.Task[bytes], seconds: float) -> None:
        """Wait until the measurement has closed the connection, and revoke the hold when its time is over."""
        done, _ = await asyncio.wait({closed}, timeout=seconds)
        while not done:
            active.revoke("the time limit is over")
            active.until = self._clock() + 2 * SPARE_SECONDS  # its processes still run: nothing may be placed there
            self._changed()
            done, _ = await asyncio.wait({closed}, timeout=SPARE_SECONDS)

    def _release(self, active: _Active) -> None:
        if active in self._active:
            self._active.remove(active)
            active.ended.set()
            log.info("hold ended devices=%s", ",".join(active.devices))
            self._changed()


class HoldConnection:
    """The connection of a hold; processes that inherit it prolong the hold until they end."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket: Final = connection
        self._buffer = b""
        self.devices: tuple[str, ...] = ()
        """UUIDs of the devices held"""

    def fileno(self) -> int:
        """The descriptor, for `select` and for processes that inherit it."""
        return self._socket.fileno()

    def revoked(self) -> str:
        """Why the devices must be left, after the connection has become readable; empty if they need not be."""
        reply = self.receive()
        return (reply.sentence or "the agent needs the devices") if reply.state == "revoked" else ""

    def send(self, request: HoldRequest) -> None:
        """Send a request."""
        self._socket.sendall(encode_line(request))

    def receive(self) -> HoldReply:
        """The next answer; a connection that the agent has closed revokes the hold."""
        while b"\n" not in self._buffer:
            try:
                data = self._socket.recv(4096)
            except TimeoutError:
                raise ClusterError(f"the agent did not answer within {ANSWER_SECONDS:g} s; see its log") from None
            except OSError:
                data = b""
            if not data or len(self._buffer) > LONGEST_LINE:
                return HoldReply("revoked", "the agent has closed the connection; see its log")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return decode_reply(line)


@contextmanager
def hold_devices(path: Path, request: HoldRequest, waiting: Callable[[str], None]) -> Iterator[HoldConnection]:
    """Hold devices until the end of the block; ClusterError if the agent refuses or does not answer."""
    with closing(_connected(path)) as connection:
        hold = HoldConnection(connection)
        hold.send(request)
        while (reply := hold.receive()).state == "waiting":
            waiting(reply.sentence)
        if reply.state not in {"held", "idle"}:
            raise ClusterError(f"the agent refused to hold the devices: {reply.sentence}")
        hold.devices = tuple(reply.devices)
        yield hold


def idle_devices(path: Path, request: HoldRequest) -> tuple[str, ...]:
    """The devices that a request would hold now; ClusterError if it would be refused."""
    request.dry_run = True
    with hold_devices(path, request, lambda _: None) as hold:
        return hold.devices


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(ANSWER_SECONDS)
    try:
        connection.connect(str(path))
    except OSError as error:
        connection.close()
        raise ClusterError(
            f"{path}: {error.strerror or error}; the devices are held by the agent of this node: run `linkwise agent`"
        ) from error
    return connection
