"""Explainer: runs explanations in slices between calls of the scheduler, and sends them as text or JSON.

One at a time: debug routes, tenants and published conditions share it, so that together they delay calls no more than one.

The computation runs in a thread of its own, and never at the same time as the loop: the loop waits while a slice lasts,
and the thread waits while the loop has its turn. So nothing needs a lock, and the computation may pause at any depth of
its calls. The state may change in a pause.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from linkwise.errors import NotNowError
from linkwise.explain.group.group import explain_group
from linkwise.explain.node import explain_node
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from linkwise.net.http.messages import JSON, Response, text
from linkwise.views.explanations import document_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.broker.broker import Broker
    from linkwise.explain.node import NodeExplanation
    from linkwise.explain.reports import Explanation, GroupExplanation
    from linkwise.net.http.messages import Request
    from linkwise.views.explanations import AnyExplanation

__all__ = ["SLICE_SECONDS", "Explainer", "Slices", "render_explanation"]

T = TypeVar("T")

ATTEMPTS: Final = 3
"""the last answer counts though the cluster changed meanwhile: a busy cluster would never be explained otherwise"""


class Explainer:
    """Explanations of one broker.

    `refusal` says why this replica can't explain, because it does not decide; empty if it can.
    """

    def __init__(self, broker: Broker, clock: Callable[[], float], refusal: Callable[[], str] = lambda: "") -> None:
        self.broker: Final = broker
        self.clock: Final = clock
        self._refusal: Final = refusal
        self._slices: Final = Slices()
        broker.pause_with(self._slices.pause)

    def pause(self) -> None:
        """Let calls be answered if the slice is over; for work that has loops of its own."""
        self._slices.pause()

    def pod(self, namespace: str, name: str) -> Explanation | None:
        """Explain a pod; to be run by `consistent`."""
        uid = self.broker.find_pod(namespace, name)
        return explain_pod(self.broker, uid, self.clock()) if uid else None

    def group(self, key: str) -> GroupExplanation | None:
        """Explain a group; to be run by `consistent`."""
        return explain_group(self.broker, key, self.clock())

    def node(self, name: str) -> NodeExplanation | None:
        """Explain a node; to be run by `consistent`."""
        return explain_node(self.broker, name, self.clock())

    async def consistent(self, explain: Callable[[], T]) -> T:
        """Explain in slices; again if devices changed meanwhile, because parts of the answer may contradict each other.

        A busy cluster changes all the time: the last attempt counts anyway. NotNowError if even that one failed, because
        something that it needed went away.
        """
        if refusal := self._refusal():
            raise NotNowError(refusal)
        attempt = 0
        while True:
            attempt, changes = attempt + 1, self.broker.device_changes
            try:
                explanation = await self._slices.run(explain)
            except Exception as error:
                if attempt == ATTEMPTS and self.broker.device_changes == changes:
                    raise
                if attempt == ATTEMPTS:
                    raise NotNowError("the cluster changed while it was being explained; try again") from error
            else:
                if attempt == ATTEMPTS or self.broker.device_changes == changes:
                    return explanation

    async def once(self, explain: Callable[[], T]) -> T | None:
        """Explain in slices, once; None if that failed because the cluster changed meanwhile."""
        changes = self.broker.device_changes
        try:
            return await self._slices.run(explain)
        except Exception:
            if self.broker.device_changes == changes:
                raise
            return None


SLICE_SECONDS: Final = 0.005
"""after which a computation pauses; a pause comes at the end of the piece of work in progress"""


class _AbandonedError(BaseException):
    """Ends a computation whose caller is gone."""


class _Computation(Generic[T]):
    """One computation in its thread; `advance` runs a slice of it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Final = work
        self._turn: Final = threading.Semaphore(0)
        self._back: Final = threading.Semaphore(0)
        self._abandoned = False
        self._end = 0.0
        self.results: Final[list[T]] = []
        self.error: Exception | None = None
        self.done = False
        self.thread: Final = threading.Thread(target=self._run, name="linkwise-explain", daemon=True)
        self.thread.start()

    def advance(self, seconds: float) -> None:
        """Run until the next pause, or to the end."""
        self._end = time.perf_counter() + seconds
        self._turn.release()
        self._back.acquire()

    def pause(self) -> None:
        """Wait for the next slice if this one is over."""
        if time.perf_counter() < self._end:
            return
        self._back.release()
        self._turn.acquire()
        if self._abandoned:
            raise _AbandonedError

    def abandon(self) -> None:
        """End the thread."""
        self._abandoned = True
        self._turn.release()
        self.thread.join()

    def _run(self) -> None:
        self._turn.acquire()
        try:
            if not self._abandoned:
                self.results.append(self._work())
        except _AbandonedError:
            pass
        except Exception as error:  # noqa: BLE001 - raised again by the caller
            self.error = error
        finally:
            self.done = True
            self._back.release()


class Slices:
    """Runs computations one after the other, each in slices."""

    def __init__(self, seconds: float = SLICE_SECONDS) -> None:
        self._seconds: Final = seconds
        self._one_at_a_time: Final = asyncio.Lock()
        self._running: _Computation[Any] | None = None

    def pause(self) -> None:
        """Let others run if the slice is over; does nothing outside of a computation."""
        running = self._running
        if running is not None and threading.get_ident() == running.thread.ident:
            running.pause()

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of the computation, which calls `pause` between small pieces of work."""
        async with self._one_at_a_time:
            computation, collecting = _Computation(work), gc.isenabled()
            gc.disable()  # one collection of a large explanation's values would take longer than many slices
            try:
                while not computation.done:
                    self._running = computation
                    computation.advance(self._seconds)
                    self._running = None
                    await asyncio.sleep(0)
            finally:
                if not computation.done:
                    computation.abandon()
                if collecting:
                    gc.enable()
        if computation.error:
            raise computation.error
        return computation.results[0]


def render_explanation(request: Request, explanation: AnyExplanation) -> Response:
    """Answer with an explanation, in the format that the caller accepts."""
    if JSON in request.header(b"accept"):
        return Response(msgspec.json.encode(document_of(explanation)))
    return text("\n".join(explanation_lines(explanation)))
