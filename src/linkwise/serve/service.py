"""Scheduler service: feeds watch events to one broker, answers calls, performs effects, and plans in the background.

Everything runs on one event loop and no verb of the broker yields: there are no locks, and no two binds can choose the
same device. Only bind waits for the API server, and the pod is assumed in the ledger before it does. Grants written by a
second Linkwise service are detected, since two of them would double-book devices.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.broker.effects import Bind, BindAnswer, Event, FilterAnswer
from linkwise.dialects.linkwise.dialect import GRANT, Linkwise
from linkwise.errors import NotNowError
from linkwise.model.views import PodView
from linkwise.net.timing import LogLimit
from linkwise.serve.explanations.explainer import Explainer
from linkwise.serve.explanations.publisher import Publisher
from linkwise.serve.placeable import Placeable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from linkwise.broker.broker import Broker, BrokerView
    from linkwise.broker.effects import BindResult, Effect, Performer
    from linkwise.broker.volcano.bookings import Task
    from linkwise.broker.volcano.callbacks import Fit
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.config.settings import ExplainSettings
    from linkwise.model.views import NodeView
    from linkwise.net.timing import Timing
    from linkwise.serve.metrics import Counting

__all__ = ["ALONE", "NODES_PER_TURN", "ForeignGrants", "LeaderStatus", "Service", "collect_garbage"]


@dataclass(frozen=True, slots=True)
class LeaderStatus:
    """What a replica knows of the election."""

    enabled: bool = False
    lease: str = ""
    """namespace and name"""
    identity: str = ""
    """of this replica in the Lease"""
    leader: str = ""
    """the holder of the Lease as last seen"""
    leads: bool = False
    """whether this replica decides now"""
    refusal: str = ""
    """why it does not"""
    transitions: int = 0
    """how often the holder of the Lease changed"""
    renewed: float | None = None
    """seconds since this replica last renewed the Lease"""
    takeover: float | None = None
    """seconds from the Lease taken to the first call answered, of this replica"""

    def line(self) -> str:
        """One line for /readyz; empty without an election."""
        if not self.enabled:
            return ""
        if self.leads or self.leader == self.identity:
            return f"leader: this replica, {self.identity}, holds lease {self.lease}"
        return f"standby: {self.leader or 'no replica'} holds lease {self.lease}"


ALONE: Final = LeaderStatus(leads=True)
"""the only replica, without an election"""


STARTUP_GRACE: Final = 60.0  # seconds; writes of a killed predecessor may still arrive
NOTE_SECONDS: Final = 600.0  # how long /readyz reports a foreign grant
_LINKWISE: Final = Linkwise()


class ForeignGrants:
    """Inspects watch events before the broker observes them."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._last = ("", 0.0)

    def restart(self, now: float) -> None:
        """Note that this replica leads from now on; writes of its predecessor may still be delivered."""
        self._started = now

    def look(self, broker: BrokerView, events: Iterable[WatchEvent], now: float) -> None:
        """Report pods that were bound with a Linkwise grant this service did not write."""
        for pod in events:
            if not isinstance(pod, PodView) or not pod.node or GRANT not in pod.annotations:
                continue
            foreign = broker.entry(pod.uid) is None and not broker.is_settled(pod.uid)
            # A grant names the UID and the node of its pod, so what a user put into a manifest is not taken for one.
            if foreign and now - self._started >= STARTUP_GRACE and _LINKWISE.held(pod).grant:
                name = f"{pod.namespace}/{pod.name}"
                log.warning("foreign grant pod=%s node=%s: is a second Linkwise service running?", name, pod.node)
                self._last = (name, now)

    def note(self, now: float) -> str:
        """The note for /readyz about the last foreign grant; empty if there was none recently."""
        name, at = self._last
        if not name or not 0 <= now - at < NOTE_SECONDS:
            return ""
        return (
            f"devices of pod {name} were allocated by another Linkwise service: its replicas must have leader.enabled and the same"
            " Lease, or devices are allocated twice"
        )


log: Final = logging.getLogger(__name__)

STEPS_PER_TURN: Final = 4
"""background steps (planning, score tables) before other tasks get to run"""
NODES_PER_TURN: Final = 50
"""nodes prepared at startup, or evaluated in a simulation, before other tasks get to run"""
POLL_SECONDS: Final = 0.5
"""the background loop checks for expired deadlines this often, even without a notification"""
STATUS_SECONDS: Final = 5.0
"""between two looks at the status of AcceleratorPolicies"""
MAX_BACKOFF: Final = 60.0  # seconds
"""between attempts to find out how a bind ended, after an internal error"""


class Service:
    """The scheduler of one cluster.

    Args:
        broker: makes the decisions.
        performer: writes their effects to the API server.
        counting: counts decisions and binds.
        refusal: why this replica may not decide now, as a sentence; empty if it may. Of several replicas, only one may.
        clock: seconds since the epoch.
        explain: what is published about pending pods; None for nothing.
        timing: when it is published.
        leadership: the election, as shown to people.
    """

    def __init__(  # noqa: PLR0913 - its parts
        self,
        broker: Broker,
        performer: Performer,
        counting: Counting,
        refusal: Callable[[], str] = lambda: "",
        clock: Callable[[], float] = time.time,
        *,
        explain: ExplainSettings | None = None,
        timing: Timing | None = None,
        leadership: Callable[[], LeaderStatus] = lambda: ALONE,
    ) -> None:
        self.broker: Final = broker
        self.counting: Final = counting
        self.clock: Final = clock
        self.refusals: Final = LogLimit(log, timing)
        """logs the calls that are refused"""
        self.synced = False
        """whether the initial lists are complete and, of several replicas, this one leads; calls are refused before"""
        self.standby = False
        """whether the initial lists are complete, and another replica leads"""
        self.trouble = ""
        """why background work (plans, wake-ups) fails while calls are still answered; empty if it succeeds"""
        self.elsewhere: Final = ForeignGrants(clock())
        """grants of a second service in this cluster"""
        self.explainer: Final = Explainer(broker, clock, self._standby_refusal)
        self.placeable: Final = Placeable(self.explainer, lambda: self.leads)
        """counts pods that could be placed, for metrics"""
        self.publisher: Final = (
            Publisher(self.explainer, self._perform, explain, timing) if explain and explain.publish else None
        )
        """publishes the reasons of pending pods"""
        self._performer: Final = performer
        self.refusal: Final = refusal
        self.leadership: Final = leadership
        self._deadline_near: Final = asyncio.Event()
        self._binding: set[asyncio.Task[str]] = set()
        self._settling: set[asyncio.Task[None]] = set()
        self._draining = False
        self._observed = 0
        """batches of watch events"""
        self._next_status = 0.0

    # watch events

    @property
    def leads(self) -> bool:
        """Whether this replica decides."""
        return self.synced and not self.refusal()

    @property
    def changes(self) -> tuple[int, int]:
        """A value that differs once anything has changed that explanations depend on."""
        return self._observed, self.broker.device_changes

    def observe(self, events: Sequence[WatchEvent]) -> None:
        """Apply watch events; effects follow only once the initial lists are complete and this replica leads."""
        self._observed += 1
        if self.publisher:
            self.publisher.observe(events)
        if not self.synced:
            self.broker.see(events)
            return
        self.elsewhere.look(self.broker, events, self.clock())
        self._carry_out(self.broker.observe(events, self.clock()))

    async def prepare(self) -> None:
        """Build inventories and indexes from the initial lists, in slices so that probes are answered meanwhile."""
        while self.broker.prepare(NODES_PER_TURN):  # noqa: ASYNC110 - each call does work; there is nothing to wait for
            await asyncio.sleep(0)

    async def stand_by(self) -> None:
        """Keep inventories and indexes current, for another replica leads; nothing is decided, and no effect follows."""
        self.standby = True
        while self.broker.stand_by(NODES_PER_TURN):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)

    async def start_over(self) -> None:
        """Forget all but what was observed, before this replica leads."""
        for _ in self.broker.start_over():
            await asyncio.sleep(0)

    async def recover(self) -> None:
        """Restore or make the plans of partially bound groups, before other pods can take the devices they need."""
        started = time.perf_counter()
        try:
            while self.broker.recover(self.clock()):  # noqa: ASYNC110 - same
                await asyncio.sleep(0)
        except Exception:
            # Scheduling with a gang that stays partially bound is better than no scheduling at all.
            log.exception("plans not recovered (a bug in Linkwise): groups are planned when their pods are retried")
            return
        log.info("recovered plans=%d seconds=%.2f", len(self.broker.plans()), time.perf_counter() - started)

    def start(self) -> None:
        """Accept calls from now on."""
        started = time.perf_counter()
        self._perform(self.broker.step(self.clock()))
        self._perform(self.broker.unanswered())
        collect_garbage()
        self.synced, self.standby = True, False
        self.elsewhere.restart(self.clock())
        self._notify_loop()
        counts, seconds = self.broker.counts(), time.perf_counter() - started
        log.info("ready nodes=%d pods=%d grants=%d seconds=%.2f", counts.nodes, counts.pods, counts.grants, seconds)

    def not_evicted(self, uid: str) -> None:
        """Report to the broker that an eviction was given up."""
        self._carry_out(self.broker.not_evicted(uid, self.clock()))

    def claim_refused(self, uid: str, sentence: str) -> None:
        """Report to the broker that the API server refused the claim of a pod."""
        self._carry_out(self.broker.claim_refused(uid, sentence, self.clock()))

    # calls

    def open_broker(self) -> Broker:
        """The broker, for calls without effects.

        Raises:
            NotNowError: this replica does not answer calls now.
        """
        self._check_open()
        return self.broker

    def filter(self, pod: PodView, names: Sequence[str], *, keep: bool) -> FilterAnswer:
        """The best feasible nodes, or why no node fits."""
        self._check_open()
        answer = self.broker.filter(pod, names, self.clock(), keep=keep)
        if self.publisher and keep:
            self.publisher.schedulers.add(pod.scheduler)
        self._carry_out(answer.effects)
        log.debug("filter pod=%s/%s offered=%s", pod.namespace, pod.name, answer.nodes)
        return answer

    async def simulate_filter(self, pod: PodView, names: Sequence[str], templates: Sequence[NodeView]) -> FilterAnswer:
        """The nodes and templates on which the pod would fit, or why there is none."""
        answer = FilterAnswer([])
        some = names
        async for part in self._in_turns(templates):
            more = self.broker.simulate_filter(pod, some, part, self.clock())
            self._carry_out(more.effects)
            answer, some = answer.joined(more), ()
        return answer

    async def simulate_prioritize(
        self, pod: PodView, names: Sequence[str], templates: Sequence[NodeView]
    ) -> list[tuple[str, int]]:
        """A score per node and template."""
        if not templates:
            return self.open_broker().prioritize(pod, names, self.clock())
        scores: dict[str, tuple[int, ...]] = {}
        some = names
        async for part in self._in_turns(templates):
            scores |= self.broker.simulate_scores(pod, some, part, self.clock())
            some = ()
        return self.broker.simulated_ranks([*names, *(view.name for view in templates)], scores)

    async def _in_turns(self, templates: Sequence[NodeView]) -> AsyncIterator[Sequence[NodeView]]:
        """The templates in parts, at least one, between which other calls are answered."""
        for start in range(0, max(1, len(templates)), NODES_PER_TURN):
            if start:
                await asyncio.sleep(0)
            self._check_open()
            yield templates[start : start + NODES_PER_TURN]

    def preempt(self, pod: PodView, victims: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
        """The nodes where evictions would make the pod fit, with the pods to evict."""
        self._check_open()
        chosen = self.broker.preempt(pod, victims, self.clock())
        self._notify_loop()
        return chosen

    def predicate(self, pod: PodView, node: str) -> Fit:
        """Whether a pod fits on one node, for Volcano."""
        self._check_open()
        fit = self.broker.predicate(pod, node, self.clock())
        self._carry_out(fit.effects)
        return fit

    def job_refused(self, namespace: str, pod_group: str, uid: str, sentence: str) -> None:
        """Report on its PodGroup why a job is not enqueued; it has no pods yet."""
        if namespace and pod_group:
            self._perform([Event("Warning", "JobRefused", sentence, namespace, pod_group, uid, about="PodGroup")])

    def book(self, task: Task) -> str:
        """Book devices for a pod that Volcano allocated; returns the error, empty on success."""
        self._check_open()
        answer = self.broker.book(task, self.clock())
        self._carry_out(answer.effects)
        self.counting.booking("refused" if answer.error else "booked")
        log.debug("book uid=%s node=%s pipelined=%s reason=%r", task.uid, task.node, task.pipelined, answer.error)
        return answer.error

    def unbook(self, uid: str) -> None:
        """Give the devices of a booking back."""
        self._check_open()
        self._carry_out(self.broker.unbook(uid, self.clock()))
        self.counting.booking("returned")
        log.debug("unbook uid=%s", uid)

    async def bind(self, uid: str, node: str) -> str:
        """Assume the pod on the node and write the binding; returns the error, empty on success.

        The bind runs to its end even if the caller disconnects, so that assumed devices are written or released.
        """
        self._check_open()
        task = asyncio.create_task(self._bind(uid, node))
        self._binding.add(task)
        task.add_done_callback(self._binding.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                raise  # the caller disconnected
            raise NotNowError("this replica of Linkwise stopped before the bind completed; try again") from None

    async def _bind(self, uid: str, node: str) -> str:
        refused = self.broker.unfiltered(uid)
        answer = BindAnswer(refused) if refused else self.broker.bind(uid, node, self.clock())
        binds = [effect for effect in answer.effects if isinstance(effect, Bind)]
        self._carry_out(effect for effect in answer.effects if not isinstance(effect, Bind))
        if answer.error:
            self.counting.bind("conflict" if self.broker.pod(uid) else "unseen")
            log.info("bind refused uid=%s node=%s reason=%r", uid, node, answer.error)
            return answer.error
        for effect in binds:
            if error := await self._write(effect):
                return error
        return ""

    async def _write(self, effect: Bind) -> str:
        try:
            ended = await self._performer.bind(effect)
        except BaseException:
            # The request may have been sent: with "unknown" the assumed devices stay reserved until that is known.
            self.counting.bind("unknown")
            self._perform(self.broker.outcome(effect, "unknown", self.clock()))
            self._settle(effect)
            raise
        self._end(effect, ended)
        if ended.outcome == "unknown":
            self._settle(effect)
        return "" if ended.outcome == "written" else ended.sentence or f"the bind is {ended.outcome}"

    def _settle(self, effect: Bind) -> None:
        task = asyncio.create_task(self._settle_until_known(effect))
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _settle_until_known(self, effect: Bind) -> None:
        backoff = POLL_SECONDS
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
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, MAX_BACKOFF)

    def _end(self, effect: Bind, ended: BindResult) -> None:
        self.counting.bind(ended.outcome)
        self._carry_out(self.broker.outcome(effect, ended.outcome, self.clock()))
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

    # background work

    def _notify_loop(self) -> None:
        """Wake the background loop if a deadline comes before its next poll."""
        deadline = self.broker.next_deadline()
        if deadline is not None and deadline < self.clock() + POLL_SECONDS:
            self._deadline_near.set()

    async def run(self) -> None:
        """Background loop: work on expired deadlines and pending plans, forever; calls are answered between steps."""
        while True:
            self._deadline_near.clear()
            self._report_policies()
            deadline = self.broker.next_deadline() if self.leads else None
            wait = POLL_SECONDS if deadline is None else deadline - self.clock()
            if wait <= 0:
                await asyncio.sleep(0 if self._step() else POLL_SECONDS)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(min(wait, POLL_SECONDS)):
                    await self._deadline_near.wait()

    async def publish(self) -> None:
        """Publish why pods are pending, forever, or do nothing if that is turned off."""
        if self.publisher is None:
            await asyncio.Event().wait()
            return
        await self.publisher.run(lambda: self.leads and not self._draining)

    def _report_policies(self) -> None:
        """Write the status of AcceleratorPolicies and rank tables, every few seconds and only what changed."""
        now = self.clock()
        if not self.leads or self._next_status - STATUS_SECONDS <= now < self._next_status:
            return
        self._next_status = now + STATUS_SECONDS
        for what, made in (
            ("status of AcceleratorPolicies", lambda: self.broker.policy_statuses(now)),
            ("rank tables", self.broker.rank_tables),
        ):
            try:
                self._performer.tell(made())
            except Exception:
                log.exception("%s not computed (a bug in Linkwise)", what)

    def _step(self) -> bool:
        """Run some background steps; a failure is logged and retried, because calls can still be answered."""
        try:
            self._perform(self.broker.step(self.clock(), STEPS_PER_TURN))
        except Exception as error:
            trouble = f"background scheduling work failed (a bug in Linkwise): {type(error).__name__}: {error}"
            if trouble != self.trouble:
                log.exception("%s", trouble)
            self.trouble = trouble
            return False
        self.trouble = ""
        return True

    async def drain(self, seconds: float) -> int:
        """Refuse new calls and wait for binds in flight; returns how many have an unknown outcome in the end."""
        self._draining = True
        if self._binding:
            await asyncio.wait(self._binding, timeout=seconds)
        left = len(self._binding) + len(self._settling)
        for group in (self._binding, self._settling):  # in this order: a cancelled bind starts a settle task
            tasks = tuple(group)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return left

    def _check_open(self) -> None:
        if self._draining:
            raise NotNowError("this replica of Linkwise is stopping; try again")
        refusal = self.refusal()
        if not self.synced and not (refusal and self.standby):
            raise NotNowError("Linkwise is still listing the cluster; try again in a moment")
        if refusal:
            raise NotNowError(f"this replica of Linkwise is not the leader: {refusal}")

    def check_explains(self) -> None:
        """NotNowError if this replica can't explain the cluster: it does not decide, or is still listing it."""
        if refusal := self._standby_refusal():
            raise NotNowError(refusal)
        if self._draining:
            raise NotNowError("this replica of Linkwise is stopping; try again")
        if not self.synced:
            raise NotNowError("Linkwise is still listing the cluster; try again in a moment")

    def _standby_refusal(self) -> str:
        """Why explanations are not for this replica to give; empty if they are."""
        return f"this replica of Linkwise is not the leader: {self.refusal()}" if self.standby else ""

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        """Perform the effects of a verb, and look at the deadlines that it may have set."""
        self._perform(effects)
        self._notify_loop()

    def _perform(self, effects: Iterable[Effect]) -> None:
        # A leader that can't renew its Lease has effects too: they are written when it can, and dropped with the process if not.
        queued = [effect for effect in effects if not isinstance(effect, Bind)]
        if queued:
            self._performer.tell(queued)


def collect_garbage() -> None:
    """Collect garbage, and keep the views of a large cluster out of every later collection."""
    gc.enable()
    gc.unfreeze()
    gc.collect()
    gc.freeze()
