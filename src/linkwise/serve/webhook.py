"""Admission webhook: AdmissionReview in, one decision, AdmissionReview out.

It answers before the initial lists are complete, because decisions depend on the object and on settings: a restart must
not refuse pods. What the cluster knows adds warnings, and filter checks requests again.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from linkwise.broker.admission import (
    UNCHANGED,
    Validator,
    change_pod,
    copies_workloads,
    is_managed,
    set_template_creator,
)
from linkwise.dialects.kubernetes.pod_templates import (
    WorkloadObject,
    is_operator_job,
    pod_templates,
    templates,
    workload_of,
)
from linkwise.errors import InputError
from linkwise.model.access_policy import Requester
from linkwise.net.http.routes import Endpoint, Route
from linkwise.net.timing import LogLimit
from linkwise.wire.admission import allow, decode_review, deny, document_of
from linkwise.wire.kubernetes.objects import decode_pod, pod_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from linkwise.broker.admission import AdmissionVerdict, Task
    from linkwise.broker.broker import Broker
    from linkwise.dialects.kubernetes.pod_templates import Template, Workload
    from linkwise.model.settings import AdmissionSettings
    from linkwise.model.views import PodView
    from linkwise.net.timing import Timing
    from linkwise.serve.metrics import Counting
    from linkwise.wire.admission import AdmissionRequest

__all__ = ["Webhook"]

log: Final = logging.getLogger(__name__)

CREATE, UPDATE = "CREATE", "UPDATE"
_PODS: Final = ("", "pods")


class Webhook:
    """The two calls: /mutate changes new objects, /validate refuses or warns."""

    def __init__(
        self, broker: Broker, counting: Counting, settings: AdmissionSettings, timing: Timing | None = None
    ) -> None:
        self._broker, self._counting = broker, counting
        refusals = LogLimit(log, timing)
        self._settings = settings
        self._validator = Validator(broker, settings)
        self._calls: Final = (
            Endpoint("mutate", self._answer("mutate", self._mutate), _no_review, counting, refusals),
            Endpoint("validate", self._answer("validate", self._validate), _no_review, counting, refusals),
        )

    def routes(self) -> list[Route]:
        """One route per call; the API server adds a query with its time-out."""
        return [Route("POST", f"/{call.name}", call.handle, call.refuse) for call in self._calls]

    def _answer(self, name: str, decide: Callable[[AdmissionRequest], AdmissionVerdict]) -> Callable[[bytes], bytes]:
        """Bytes in, one decision, bytes out; counted by verdict."""

        def answer(body: bytes) -> bytes:
            request = decode_review(body)
            try:
                verdict = decide(request)
            except InputError as error:
                self._counting.admission(name, "unreadable")
                return deny(request.uid, f"Linkwise can't read the object: {error}")
            if verdict.refusal:
                self._counting.admission(name, "refused")
                return deny(request.uid, verdict.refusal, verdict.warnings)
            kind = "changed" if verdict.patch else "warned" if verdict.warnings else "unchanged"
            self._counting.admission(name, kind)
            return allow(request.uid, verdict.patch, verdict.warnings)

        return answer

    def _mutate(self, request: AdmissionRequest) -> AdmissionVerdict:
        requester = _requester(request)
        if _is_new_pod(request):
            pod = _pod(request)
            if not self._settings.hide_devices and not is_managed(pod, self._settings):
                return UNCHANGED  # most pods: their document need not be read
            additions = self._broker.additions(pod, requester, review=request.uid)
            return change_pod(document_of(request.object), pod, requester, self._settings, additions)
        workload = _workload(request, requester)
        if workload is None:
            return UNCHANGED
        before = _templates_before(request, workload) if request.operation == UPDATE else ()
        document = document_of(request.object)
        managed = [
            template
            for template in templates(workload, document)
            if is_managed(_template_pod(request, template), self._settings)
        ]
        return set_template_creator(managed, before, self._broker.creator(requester))

    def _validate(self, request: AdmissionRequest) -> AdmissionVerdict:
        requester = _requester(request)
        if _is_new_pod(request):
            return self._validator.pod(_pod(request), requester)
        if is_operator_job(request.resource.group, request.resource.resource):
            return self._validator.operator_job(_operator_pods(request), requester)
        workload = _workload(request, requester)
        if workload is None:
            return UNCHANGED
        pods = tuple(templates(workload, document_of(request.object)))
        if request.operation == UPDATE and _documents(pods) == _documents(_templates_before(request, workload)):
            return UNCHANGED  # an object of before the webhook may be scaled and annotated
        tasks: list[Task] = [(one.task, one.pods, _template_pod(request, one)) for one in pods]
        return self._validator.workload(tasks, requester, is_job=workload.is_job)


def _is_new_pod(request: AdmissionRequest) -> bool:
    about = request.resource
    return (about.group, about.resource) == _PODS and request.operation == CREATE and not request.sub_resource


def _workload(request: AdmissionRequest, requester: Requester) -> Workload | None:
    """The kind of a workload that a user creates or changes; controllers copy templates that were reviewed before."""
    if request.operation not in {CREATE, UPDATE} or request.sub_resource or copies_workloads(requester):
        return None
    return workload_of(request.resource.group, request.resource.resource)


def _templates_before(request: AdmissionRequest, workload: Workload) -> tuple[Template, ...]:
    return tuple(templates(workload, document_of(request.old_object)))


def _documents(found: Iterable[Template]) -> list[Mapping[str, Any]]:
    return [template.document for template in found]


def _requester(request: AdmissionRequest) -> Requester:
    return Requester(request.user_info.username, tuple(request.user_info.groups or ()))


def _pod(request: AdmissionRequest) -> PodView:
    return decode_pod(bytes(request.object))


def _template_pod(request: AdmissionRequest, template: Template) -> PodView:
    """A pod of a template; it has the name of its workload."""
    meta: object = template.document.get("metadata")
    own: Mapping[str, Any] = meta if isinstance(meta, dict) else {}
    name = request.name or "pod"
    return pod_view({**template.document, "metadata": {**own, "name": name, "namespace": request.namespace}})


def _operator_pods(request: AdmissionRequest) -> list[PodView]:
    """One pod per template; none if the object can't be read, which its operator decides on."""
    if request.operation != CREATE or request.sub_resource:
        return []
    try:
        found = pod_templates(WorkloadObject(dict(document_of(request.object))))
        return [replace(pod_view(template.document), namespace=request.namespace) for template in found]
    except InputError:
        return []


def _no_review(sentence: str) -> None:
    """Without the uid of a request there is no valid response: the status reports the error."""
    del sentence
