"""Usage of GPUs by NVML: memory, utilization and processes; what a GPU does not report is missing, not an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.drivers.device_facts import Failure
from linkwise.drivers.nvml.library import NOT_FOUND
from linkwise.model.usage import DeviceUsage, ProcessUsage, UsageReading

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.drivers.nvml.library import Library

__all__ = ["UsageReader"]

_LISTS: Final = (
    ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
    ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
)
"""the current function and the one of drivers before R510; the binding raises an error for names without a version"""


class UsageReader:
    """Reads the usage of all GPUs; it remembers which samples of utilization it has seen."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        """by UUID, the time of the last sample in microseconds"""

    def read(self, library: Library, most: int) -> UsageReading:
        """Read at most that many GPUs."""
        count = library.number("nvmlDeviceGetCount")
        if isinstance(count, Failure):
            return UsageReading(problems=(f"NVML can't count the GPUs ({count})",))
        found: dict[str, DeviceUsage] = {}
        problems: list[str] = []
        for index in range(min(count, most)):
            usage = self._device(library, index)
            if isinstance(usage, Failure):
                problems.append(f"device {index}: its usage can't be read ({usage})")
            else:
                found.setdefault(usage.id, usage)
        self._seen = {uuid: time for uuid, time in self._seen.items() if uuid in found}
        return UsageReading(tuple(found.values()), tuple(problems))

    def _device(self, library: Library, index: int) -> DeviceUsage | Failure:
        handle = library.call("nvmlDeviceGetHandleByIndex", index)
        if isinstance(handle, Failure):
            return handle
        uuid = library.call("nvmlDeviceGetUUID", handle)
        if isinstance(uuid, Failure):
            return uuid
        memory = library.call("nvmlDeviceGetMemoryInfo", handle)
        if isinstance(memory, Failure) and memory.dead:
            return memory
        rates = library.call("nvmlDeviceGetUtilizationRates", handle)
        return DeviceUsage(
            uuid,
            None if isinstance(memory, Failure) else int(memory.total),
            None if isinstance(memory, Failure) else int(memory.used),
            None if isinstance(rates, Failure) else int(rates.gpu),
            self._processes(library, handle, uuid),
        )

    def _processes(self, library: Library, handle: object, uuid: str) -> tuple[ProcessUsage, ...] | None:
        """The processes that compute or draw; None if the GPU lists none of both kinds."""
        lists = [_listed(library, handle, *functions) for functions in _LISTS]
        if all(one is None for one in lists):
            return None
        listed = [process for one in lists for process in one or ()]
        busy = self._busy(library, handle, uuid) if listed else None
        return tuple(
            ProcessUsage(
                int(process.pid),
                None if process.usedGpuMemory is None else int(process.usedGpuMemory),
                None if busy is None else busy.get(int(process.pid), 0),
            )
            for process in listed
        )

    def _busy(self, library: Library, handle: object, uuid: str) -> dict[int, int] | None:
        """Percent of compute by process since the last call, averaged over the samples; None if it is not reported.

        A process without a sample has computed nothing since.
        """
        seen = self._seen.get(uuid, 0)
        samples = library.call("nvmlDeviceGetProcessUtilization", handle, seen)
        if isinstance(samples, Failure):
            return {} if samples.code == NOT_FOUND else None
        own = [one for one in samples if one.pid and one.timeStamp > seen]
        self._seen[uuid] = max((int(one.timeStamp) for one in own), default=seen)
        return {pid: _mean(int(one.smUtil) for one in own if one.pid == pid) for pid in {int(one.pid) for one in own}}


def _listed(library: Library, handle: object, function: str, older: str) -> list[Any] | None:
    found = library.call(function, handle)
    if isinstance(found, Failure) and found.unsupported:
        found = library.call(older, handle)
    return None if isinstance(found, Failure) else list(found)


def _mean(values: Iterable[int]) -> int:
    """The mean of the values that are percents; 0 if none is."""
    valid = [value for value in values if 0 <= value <= 100]
    return round(sum(valid) / len(valid)) if valid else 0
