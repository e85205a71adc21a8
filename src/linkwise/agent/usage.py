"""Usage monitor: reads what devices do once per interval, attributes it to pods, and decides what is published.

Metrics show every reading. The DeviceInventory gets a summary: seldom, and only if it differs enough, because every write
is stored by the API server and sent to all watchers.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from linkwise.agent.discovering import DRIVER_THREADS
from linkwise.dialects.linkwise.usage import usage_fields
from linkwise.errors import LinkwiseError
from linkwise.model.driver import WrappedDriver
from linkwise.model.usage import NodeUsage, UsageReading
from linkwise.node.usage import (
    OverUse,
    attributed,
    averaged,
    checked,
    differs,
    owner_by_cgroup,
    owner_by_mounts,
    pids_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from linkwise.broker.effects import Event
    from linkwise.config.settings import UsageSettings
    from linkwise.model.driver import Driver
    from linkwise.model.inventory import Discovery
    from linkwise.model.usage import Holding
    from linkwise.net.timing import Timing

__all__ = ["NodePods", "SerialDriver", "UsageMonitor"]

log = logging.getLogger(__name__)

FAILURES: Final = 3
"""readings that fail in a row before the published summary is removed"""
REFRESH: Final = (
    300.0  # seconds after which a summary is written even if it is the same: readers see that it is current
)
_MOST_READINGS: Final = 64
"""that are averaged"""
_NO_PROCESSES: Final = "no process on a device is in /proc, so that only pods with whole devices are charged: run the agent with hostPID: true"


class SerialDriver(WrappedDriver):
    """A driver of which one method runs at a time, except `wait` and `close`; they are called in several threads."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self._lock: Final = threading.Lock()

    def discover(self) -> Discovery:
        """Read all devices."""
        with self._lock:
            return super().discover()

    def usage(self) -> UsageReading:
        """Read what the devices do."""
        with self._lock:
            return super().usage()


@dataclass(frozen=True, slots=True)
class NodePods:
    """The pods of the node, and the devices that they have."""

    names: Mapping[str, tuple[str, str]]
    """namespace and name by UID"""
    holdings: tuple[Holding, ...]


class UsageMonitor:
    """Reads the usage until it is cancelled.

    Args:
        node: its name.
        driver: reads the devices.
        settings: how often.
        timing: clocks.
        pods: the pods of the node as they are now.
        changed: called when `summary` has changed.
        tell: reports events.
        proc: the file system of processes, of the host's PID namespace.
    """

    def __init__(  # noqa: PLR0913 - everything it reads and calls
        self,
        node: str,
        driver: SerialDriver,
        settings: UsageSettings,
        timing: Timing,
        *,
        pods: Callable[[], NodePods],
        changed: Callable[[], None],
        tell: Callable[[Iterable[Event]], None],
        proc: Path = Path("/proc"),
    ) -> None:
        self.latest = NodeUsage()
        """the last reading; empty if it failed"""
        self.summary: Mapping[str, object] | None = None
        """the field `status.usage` of the DeviceInventory; None if it has none"""
        self.rounds = 0
        self.failures = 0
        """readings that failed, of all"""
        self.seconds = 0.0
        """that the last reading took"""
        self.problem = ""
        self._node, self._driver, self._settings, self._timing, self._proc = node, driver, settings, timing, proc
        self._pods, self._changed, self._tell = pods, changed, tell
        self._over: Final = OverUse()
        self._recent: Final[deque[NodeUsage]] = deque(maxlen=_MOST_READINGS)
        """readings since they were last compared with the summary"""
        self._published: NodeUsage | None = None
        self._published_at = self._compared_at = float("-inf")
        self._failed = 0
        """readings that failed in a row"""

    async def run(self) -> None:
        """Read until cancelled; not at all if the interval is 0."""
        while self._settings.interval:
            began = self._timing.clock()
            await self.read()
            self.seconds = self._timing.clock() - began
            await self._timing.sleep(max(0.0, self._settings.interval - self.seconds))

    async def read(self) -> None:
        """One reading; what is wrong with it is a problem, not an error."""
        try:
            reading, owners = await asyncio.get_running_loop().run_in_executor(DRIVER_THREADS, self._measure)
        except LinkwiseError as error:
            self._fail(str(error))
            return
        except Exception:
            log.exception("driver=%s usage not read", self._driver.name)
            self._fail(f"driver {self._driver.name}: the usage can't be read because of an internal error; see the log")
            return
        pods = self._pods()
        self.latest = attributed(reading, pods.holdings, owners, pods.names)
        self.rounds += 1
        self._failed = 0
        self._report("; ".join(self.latest.problems))
        self._tell(self._over.events(self.latest, self._node, self._timing.clock()))
        self._publish()

    def _measure(self) -> tuple[UsageReading, dict[int, str]]:
        """The checked reading, and pod UIDs by process id; blocks."""
        reading = checked(self._driver.usage())
        pids = pids_of(reading)
        owners = {pid: owner for pid in pids if (owner := self._owner(pid)) is not None}
        if pids and not owners:
            reading = replace(reading, problems=(*reading.problems, _NO_PROCESSES))
        return reading, owners

    def _owner(self, pid: int) -> str | None:
        """The pod UID of a process, empty for one of the host; None if the process has ended."""
        text = _text(self._proc / str(pid) / "cgroup")
        if not text:
            return None
        owner = owner_by_cgroup(text) or owner_by_mounts(_text(self._proc / str(pid) / "mountinfo"))
        return owner.pod if owner else ""

    def _publish(self) -> None:
        """Renew the summary if it is due."""
        self._recent.append(self.latest)
        if not self._settings.publish_interval or not self.latest.devices:
            return
        now = self._timing.clock()
        if now - self._compared_at < self._settings.publish_interval:
            return
        usage, before, self._compared_at = averaged(self._recent), self._published, now
        self._recent.clear()
        old = now - self._published_at >= REFRESH
        if before is None or old or differs(before, usage, self._settings.threshold):
            self._published, self._published_at = usage, now
            self.summary = usage_fields(usage, _timestamp(self._timing.now()))
            self._changed()

    def _fail(self, sentence: str) -> None:
        self.failures += 1
        self._failed += 1
        self.latest = NodeUsage()
        self._recent.clear()
        self._report(sentence)
        if self._failed >= FAILURES and self.summary is not None:
            self._published, self.summary = None, None
            self._changed()

    def _report(self, sentence: str) -> None:
        if sentence and sentence != self.problem:
            log.warning("driver=%s usage: %s", self._driver.name, sentence)
        self.problem = sentence


def _text(path: Path) -> str:
    """The text of a file of a process; empty if the process has ended."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _timestamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
