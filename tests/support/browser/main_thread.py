"""CPU time of a page's own thread, task by task: other programs of a busy machine do not lengthen it as they do a pause between frames."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Tasks"]

THREAD: Final = "CrRendererMain"


@dataclass
class Tasks:
    """Records while the `with` lasts; a task is what a page does without an interruption: no frame is drawn meanwhile."""

    browser: Any
    page: Any
    milliseconds: list[float] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.browser.start_tracing(page=self.page, categories=["toplevel"])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        events = json.loads(self.browser.stop_tracing())["traceEvents"]
        threads = {
            (one["pid"], one["tid"]) for one in events if one["name"] == "thread_name" and one["args"]["name"] == THREAD
        }
        self.milliseconds = [
            one["tdur"] / 1000
            for one in events
            if one["name"] == "ThreadControllerImpl::RunTask" and (one["pid"], one["tid"]) in threads and "tdur" in one
        ]

    @property
    def longest(self) -> float:
        """The longest task."""
        assert self.milliseconds, "the trace has no tasks"
        return max(self.milliseconds)
