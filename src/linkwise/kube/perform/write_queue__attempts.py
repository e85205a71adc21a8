"""Writes that can be repeated without harm: tried until the server answers, or given up after some time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.errors import ClusterError
from linkwise.kube.client.api import JSON
from linkwise.kube.perform.bind import retry_after
from linkwise.net.http_client import SlowError
from linkwise.net.timing import Backoff, Timing
from linkwise.wire.kubernetes.watch_stream import status_of

if TYPE_CHECKING:
    from linkwise.kube.client.api import Connection
    from linkwise.kube.settings import PerformSettings
    from linkwise.net.http_client import Answer

__all__ = ["Attempts", "Given"]

# A patch that names no version conflicts only where others write all the time: the server has tried it a few times itself.
_AGAIN: Final = {"POST": (408, 429), "PATCH": (408, 409, 429)}


@dataclass(frozen=True, slots=True)
class Given:
    """The server's last word."""

    status: int
    """0 if it never said anything"""
    sentence: str = ""

    @property
    def done(self) -> bool:
        """Whether it was written."""
        return 200 <= self.status < 300


@dataclass(slots=True)
class Attempts:
    """Tries a write as often as the settings allow."""

    connection: Connection
    settings: PerformSettings
    timing: Timing

    async def write(self, method: str, path: str, body: bytes, content: str = JSON) -> Given:
        """The first answer that decides; the last one if the server only ever fails, or can't be reached for long."""
        backoff, begin, answers = Backoff(self.timing, first=0.2, most=10.0), self.timing.clock(), 0
        while True:
            try:
                answer = await self.connection.call(method, path, body, content, self.settings.wait)
            except SlowError as error:
                # It was sent: what one write waits for, such as a webhook of its namespace, may answer all others.
                given, pause, answers = Given(0, str(error)), 0.0, answers + 1
                over = answers >= self.settings.tries
            except ClusterError as error:
                given, pause = Given(0, str(error)), 0.0
                over = self.timing.clock() - begin >= self.settings.outage
            else:
                given, pause, answers = _given(answer), retry_after(answer), answers + 1
                over = answers >= self.settings.tries or not (given.status >= 500 or given.status in _AGAIN[method])
            if over:
                return given
            await backoff.wait(pause)


def _given(answer: Answer) -> Given:
    if answer.status < 300:
        return Given(answer.status)
    return Given(answer.status, status_of(answer.body).message or f"the API server answers {answer.status}")
