"""Routes for Volcano's extender plugin: bytes in, one verb of the broker, bytes out.

Volcano reads a reply only if its status is 200, so every answer is one, with the reason in it. Pods are known by their UID
from our own watch; what a call carries of them is read only if the watch has not delivered the pod yet.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from linkwise.broker.volcano.bookings import Task
from linkwise.broker.volcano.callbacks import Job
from linkwise.errors import InputError
from linkwise.net.http.routes import Endpoint, Route
from linkwise.wire.volcano import (
    decode_evict,
    decode_job,
    decode_prioritize,
    decode_task,
    enqueue_reply,
    error_reply,
    keys_of,
    overused_reply,
    predicate_reply,
    ready_reply,
    scores_reply,
    victims_reply,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.model.views import PodView
    from linkwise.serve.service import Service
    from linkwise.wire.volcano import JobInfo, PredicateReply, TaskInfo

__all__ = ["PREFIX", "Volcano"]

log: Final = logging.getLogger(__name__)

PREFIX: Final = "/volcano"
ERROR: Final = 1
"""the code of a node that could not be judged"""
REJECT: Final = -1
ABSTAIN: Final = 0
NO_TASK: Final = "the call has no task"
MOST_LOGGED: Final = 1000
"""refused jobs that are remembered: Volcano asks about each of them every second"""


class Volcano:
    """The calls of Volcano's extender plugin.

    Args:
        service: answers them.
        reply: the shape of `status` in the reply of predicate.
    """

    def __init__(self, service: Service, reply: PredicateReply = "string") -> None:
        self._service = service
        self._reply: PredicateReply = reply
        self._refused: dict[str, str] = {}
        """refused jobs, and why"""
        verbs = (
            self._verb("predicate", self._predicate, lambda sentence: predicate_reply(ERROR, sentence, reply)),
            self._verb("prioritize", self._prioritize, lambda sentence: scores_reply({}, sentence)),
            self._verb("preemptable", self._evict, _no_victims),
            self._verb("reclaimable", self._reclaim, _no_victims),
            self._verb("jobEnqueueable", self._enqueue, lambda _: enqueue_reply(ABSTAIN)),
            self._verb("allocateFunc", self._allocate, error_reply),
            self._verb("deallocateFunc", self._deallocate, error_reply),
            self._verb("jobReady", self._ready, lambda _: ready_reply(ready=True)),
            self._verb("queueOverused", self._overused, lambda _: overused_reply(overused=False)),
        )
        self.verbs: Final = {verb.name.removeprefix("volcano_"): verb for verb in verbs}

    def _verb(self, name: str, work: Callable[[bytes], bytes], failure: Callable[[str], bytes]) -> Endpoint:
        return Endpoint(f"volcano_{name}", work, failure, self._service.counting, self._service.refusals)

    def routes(self) -> list[Route]:
        """One route per verb, and the bare prefix, which old versions call for verbs that are not configured."""
        named = [Route("POST", f"{PREFIX}/{name}", verb.handle, verb.refuse) for name, verb in self.verbs.items()]
        bare = self._verb("unnamed", self._by_keys, error_reply)
        return [*named, *(Route("POST", path, bare.handle, bare.refuse) for path in (PREFIX, f"{PREFIX}/"))]

    def _predicate(self, body: bytes) -> bytes:
        """Whether a pod fits on one node."""
        args = decode_task(body)
        pod = self._pod(args.task)
        fit = self._service.predicate(pod, args.node.name if args.node else "")
        return predicate_reply(fit.code, fit.reason, self._reply)

    def _prioritize(self, body: bytes) -> bytes:
        """A score for every node."""
        args = decode_prioritize(body)
        return scores_reply(self._service.open_broker().rank(self._pod(args.task), args.names, self._service.clock()))

    def _evict(self, body: bytes) -> bytes:
        """The candidates that must be evicted."""
        args = decode_evict(body)
        evictees = args.by_uid()
        victims = self._service.open_broker().victims(self._pod(args.evictor), list(evictees), self._service.clock())
        return victims_reply(victims.verdict, evictees, victims.uids)

    def _reclaim(self, body: bytes) -> bytes:
        """The same; versions 1.6 and 1.7 send jobs and queues here too."""
        keys = keys_of(body)
        if "job" in keys:
            return self._enqueue(body)
        return self._overused(body) if "queue" in keys else self._evict(body)

    def _by_keys(self, body: bytes) -> bytes:
        """Answer a call without a verb by what it is about."""
        keys = keys_of(body)
        if "task" in keys and "nodes" in keys:
            return self._prioritize(body)
        if "task" in keys and "node" in keys:
            return self._predicate(body)
        if keys & {"job", "queue", "evictor"}:
            return self._reclaim(body)
        raise InputError("the call has no verb, and none of task with node or nodes, job, queue, evictor")

    def _enqueue(self, body: bytes) -> bytes:
        """Whether a job may be enqueued: invalid ones never; for all others, its queue decides."""
        job = decode_job(body).job
        wrong = self._service.open_broker().invalid_job(_job_of(job), self._service.clock()) if job else ""
        self._service.counting.volcano_job("refused" if wrong else "accepted")
        if job and wrong and self._refused.get(job.uid) != wrong:
            self._refused[job.uid] = wrong
            if len(self._refused) > MOST_LOGGED:
                del self._refused[next(iter(self._refused))]
            log.warning("job refused job=%s/%s reason=%r", job.namespace, job.name, wrong)
            self._service.job_refused(job.namespace, job.name, job.group_uid, wrong)
        return enqueue_reply(REJECT if wrong else ABSTAIN)

    def _allocate(self, body: bytes) -> bytes:
        """Book devices; nothing is written."""
        task = decode_task(body).task
        if task is None:
            raise InputError(NO_TASK)
        error = self._service.book(Task(task.uid, task.node or "", task.view(), task.pipelined))
        return error_reply(error)

    def _deallocate(self, body: bytes) -> bytes:
        """Give devices back."""
        task = decode_task(body).task
        if task is None:
            raise InputError(NO_TASK)
        self._service.unbook(task.uid)
        return error_reply("")

    def _ready(self, body: bytes) -> bytes:
        """A job whose devices are not booked has no task that is allocated: gangs are for Volcano's own plugin to count."""
        del body
        return ready_reply(ready=True)

    def _overused(self, body: bytes) -> bytes:
        """Queues are for Volcano's own plugins."""
        del body
        return overused_reply(overused=False)

    def _pod(self, task: TaskInfo | None) -> PodView:
        """The pod of a task, from the watch if that has delivered it."""
        if task is None:
            raise InputError(NO_TASK)
        pod = self._service.broker.pod(task.uid) or task.view()
        if pod is None:
            raise InputError(f"task {task.namespace}/{task.name} has no pod")
        return pod


def _job_of(job: JobInfo) -> Job:
    tasks = [task for task in (job.tasks or {}).values() if task]
    pods = tuple((task.role or "", view) for task in tasks if (view := task.view()))
    return Job(job.namespace, job.name, pods, job.resources, job.members)


def _no_victims(sentence: str) -> bytes:
    """No eviction for a pod that could not be judged."""
    del sentence
    return victims_reply(REJECT, {}, ())
