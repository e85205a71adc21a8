"""One broker and all that goes on around it: news in, answers out, effects carried out, plans worked on in between.

Everything runs on one loop, and every verb of the broker runs whole: there are no locks, and no two binds can choose the
same device. Only a bind waits for the cluster, and the promise is in the ledger before it does.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from linkwise.broker.effects import Bind, Evict
from linkwise.errors import NotNowError
from linkwise.explain.inspect import inspect_nodes
from linkwise.serve.foreign_grants import ForeignGrants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from linkwise.broker.answers import FilterAnswer
    from linkwise.broker.broker import Broker
    from linkwise.broker.effects import BindResult, Effect, Performer
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.explain.inspect import NodeInspection
    from linkwise.model.views import PodView
    from linkwise.serve.metrics import Counting

__all__ = ["Service"]

log: Final = logging.getLogger(__name__)

STEPS: Final = 4
"""steps of planning and of filling tables between two looks at what else there is to do"""
NODES: Final = 50
"""nodes that are worked out at the start between two looks at what else there is to do"""
LOOK: Final = 0.5  # seconds
"""after which the loop looks whether something is due, though nobody told it so"""
LONGEST: Final = 60.0  # seconds
"""between two tries to find out how a bind ended, where a fault of ours keeps that from being known"""


class Service:
    """Answers for one cluster.

    Args:
        broker: decides.
        performer: carries out what follows.
        counting: is told what was decided.
        leads: whether this replica may decide now. Where several run, only the one that holds the lease may.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        broker: Broker,
        performer: Performer,
        counting: Counting,
        leads: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.broker: Final = broker
        self.counting: Final = counting
        self.clock: Final = clock
        self.synced = False
        """whether all there is was listed, so that answers can be given"""
        self.trouble = ""
        """why nothing is planned or woken now, though asks are answered; empty if all goes well"""
        self.elsewhere: Final = ForeignGrants(clock())
        """whoever else decides for this cluster"""
        self._performer: Final = performer
        self._leads: Final = leads
        self._news: Final = asyncio.Event()
        self._binding: set[asyncio.Task[str]] = set()
        self._settling: set[asyncio.Task[None]] = set()
        self._draining = False

    # news

    def observe(self, sights: Sequence[WatchEvent]) -> None:
        """Take in what a watch shows."""
        if not self.synced:
            self.broker.see(sights)
            return
        self.elsewhere.look(self.broker, sights, self.clock())
        self._carry_out(self.broker.observe(sights, self.clock()))
        self._look()

    async def prepare(self) -> None:
        """Everything was listed: work out what follows, and let whoever probes be answered meanwhile."""
        while self.broker.prepare(NODES):  # noqa: ASYNC110 - it works, and waits for nothing
            await asyncio.sleep(0)

    def start(self) -> None:
        """Answer from now on."""
        begun = time.perf_counter()
        self._carry_out(self.broker.step(self.clock()))
        self._carry_out(self.broker.unanswered())
        gc.enable()
        gc.collect()
        gc.freeze()  # the views of a large cluster need not be looked through again and again
        self.synced = True
        self._look()
        counts, seconds = self.broker.counts(), time.perf_counter() - begun
        log.info("ready nodes=%d pods=%d grants=%d seconds=%.2f", counts.nodes, counts.pods, counts.grants, seconds)

    def not_evicted(self, uid: str) -> None:
        """Take in that an eviction was given up."""
        self._carry_out(self.broker.not_evicted(uid, self.clock()))
        self._look()

    # answers

    def filter(self, pod: PodView, names: Sequence[str], *, keep: bool) -> FilterAnswer:
        """Nodes of the best class, or why none will do."""
        self._check_open()
        answer = self.broker.filter(pod, names, self.clock(), keep=keep)
        self._carry_out(answer.effects)
        self._look()
        log.debug("filter pod=%s/%s nodes=%d offered=%d", pod.namespace, pod.name, len(names), len(answer.nodes))
        return answer

    def prioritize(self, pod: PodView, names: Sequence[str]) -> list[tuple[str, int]]:
        """A rank for every name."""
        self._check_open()
        return self.broker.prioritize(pod, names, self.clock())

    def preempt(self, pod: PodView, victims: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
        """The nodes where evicting these pods would help."""
        self._check_open()
        return self.broker.preempt(pod, victims, self.clock())

    def sharing(self) -> list[str]:
        """The nodes that hand out memory of devices, by name."""
        self._check_open()
        return sorted(name for name, node in self.broker.usage.items() if node.mode == "share")

    def inspect(self, node: str | None) -> tuple[NodeInspection, ...]:
        """One node device by device, or all that have devices."""
        self._check_open()
        return inspect_nodes(self.broker, node, self.clock())

    async def bind(self, uid: str, node: str) -> str:
        """Promise devices to the pod and write them; why not, or nothing.

        It goes on to its end when the caller hangs up: what was promised is then written or taken back all the same.
        """
        self._check_open()
        task = asyncio.create_task(self._bind(uid, node))
        self._binding.add(task)
        task.add_done_callback(self._binding.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                raise  # the caller hung up
            raise NotNowError("this replica of Linkwise stopped before the bind ended; try again") from None

    async def _bind(self, uid: str, node: str) -> str:
        answer = self.broker.bind(uid, node, self.clock())
        bound = [effect for effect in answer.effects if isinstance(effect, Bind)]
        self._carry_out(effect for effect in answer.effects if not isinstance(effect, Bind))
        self._look()
        if answer.error:
            self.counting.bind("conflict" if self.broker.pod(uid) else "unseen")
            log.info("bind refused uid=%s node=%s reason=%r", uid, node, answer.error)
            return answer.error
        for effect in bound:
            if error := await self._write(effect):
                return error
        return ""

    async def _write(self, effect: Bind) -> str:
        try:
            ended = await self._performer.bind(effect)
        except BaseException:
            # Whatever went wrong, the request may have been sent: nothing that is promised is lost by assuming so.
            self.counting.bind("unknown")
            self._carry_out(self.broker.outcome(effect, "unknown", self.clock()))
            self._settle(effect)
            raise
        self._end(effect, ended)
        if ended.outcome == "unknown":
            self._settle(effect)
        return "" if ended.outcome == "written" else ended.sentence or f"the bind is {ended.outcome}"

    def _settle(self, effect: Bind) -> None:
        task = asyncio.create_task(self._settled(effect))
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _settled(self, effect: Bind) -> None:
        pause = LOOK
        while True:
            try:
                ended = await self._performer.settle(effect)
            except Exception:
                log.exception("bind unsettled pod=%s/%s node=%s", effect.namespace, effect.name, effect.node)
                if not self.broker.is_open(effect):
                    return
            else:
                self._end(effect, ended)
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST)

    def _end(self, effect: Bind, ended: BindResult) -> None:
        self.counting.bind(ended.outcome)
        self._carry_out(self.broker.outcome(effect, ended.outcome, self.clock()))
        self._look()
        log.log(
            logging.INFO if ended.outcome == "written" else logging.WARNING,
            "bind %s pod=%s/%s node=%s devices=%s%s",
            ended.outcome,
            effect.namespace,
            effect.name,
            effect.node,
            ",".join(effect.grant.offer.devices) if effect.grant else "-",
            f" reason={ended.sentence!r}" if ended.sentence else "",
        )

    # in between

    def _look(self) -> None:
        """Wake whoever works on what is due, if something is due before they would look by themselves."""
        due = self.broker.next_deadline()
        if due is not None and due < self.clock() + LOOK:
            self._news.set()

    async def run(self) -> None:
        """Work on what is due, for ever; whoever asks is answered between two steps."""
        while True:
            self._news.clear()
            due = self.broker.next_deadline() if self.synced and self._leads() else None
            wait = LOOK if due is None else due - self.clock()
            if wait <= 0:
                await asyncio.sleep(0 if self._stepped() else LOOK)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(min(wait, LOOK)):
                    await self._news.wait()

    def _stepped(self) -> bool:
        """Some steps; what fails in them is told and tried again, for asks can be answered all the same."""
        try:
            self._carry_out(self.broker.step(self.clock(), STEPS))
        except Exception as error:
            wrong = f"what is due can't be worked out, which is a fault of Linkwise: {type(error).__name__}: {error}"
            if wrong != self.trouble:
                log.exception("%s", wrong)
            self.trouble = wrong
            return False
        self.trouble = ""
        return True

    async def drain(self, seconds: float) -> int:
        """Take no more asks, and let binds that are under way end; how many did not."""
        self._draining = True
        if self._binding:
            await asyncio.wait(self._binding, timeout=seconds)
        left = len(self._binding)
        for tasks in (self._binding, self._settling):  # a bind that is cut short begins to settle
            ended = tuple(tasks)
            for task in ended:
                task.cancel()
            await asyncio.gather(*ended, return_exceptions=True)
        return left

    def _check_open(self) -> None:
        if self._draining:
            raise NotNowError("this replica of Linkwise is stopping; try again")
        if not self.synced:
            raise NotNowError("Linkwise is still reading the cluster; try again in a moment")
        if not self._leads():
            raise NotNowError("this replica of Linkwise does not lead; another one does")

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        later = [effect for effect in effects if not isinstance(effect, Bind)]
        if later and self._leads():
            self._performer.tell(later)
            return
        for effect in later:
            if isinstance(effect, Evict):  # or it would count as asked for when this replica leads
                self.not_evicted(effect.uid)
