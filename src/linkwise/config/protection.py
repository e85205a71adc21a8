"""Protection of records: ValidatingAdmissionPolicies that the API server itself enforces, with their bindings.

Schedulers, device plugins and node agents believe certain annotations of pods. Anyone who may patch a pod could forge them;
RBAC can't restrict single annotations, and a webhook that is down would let them pass. The keys come from the dialects.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from linkwise.config.yaml_documents import yaml_with_comments
from linkwise.dialects.aliyun import COUNT
from linkwise.dialects.ascend.dialect import Ascend
from linkwise.dialects.ascend.node import NAMESPACE, PREFIX, no_annotations
from linkwise.dialects.kubernetes.claims.driver import DRIVER
from linkwise.dialects.kubernetes.claims.objects import PLAN
from linkwise.dialects.kubernetes.claims.requests import CLAIM_PREFIX, CLAIM_REQUEST, POD_CLAIM
from linkwise.dialects.linkwise.accelerator_policy import CREATOR, GROUPS, SEPARATOR, USER
from linkwise.dialects.linkwise.dialect import IDLE_TAINT, NODE_LABELS, Linkwise
from linkwise.dialects.linkwise.group_plan import GATE
from linkwise.dialects.nvidia import TOPOLOGY
from linkwise.dialects.registry import record_keys, record_patterns
from linkwise.errors import InputError
from linkwise.model.access_policy import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["AGENT_COMPONENT", "POLICIES", "protection_yaml"]

POLICIES: Final = ("records", "templates", "gates", "claims", "agents", "agent-fields")
"""how the names of the policies end"""
AGENT_COMPONENT: Final = "linkwise-agent"
"""source of the agent's events"""

_GROUP: Final = "admissionregistration.k8s.io"
_NODE_NAME: Final = "authentication.kubernetes.io/node-name"
"""in the user info of service account tokens that are bound to a pod or a node"""
_CONTROLLER_MANAGER: Final = "system:kube-controller-manager"
_KUBE_SYSTEM: Final = "system:serviceaccounts:kube-system"
"""the group of the service accounts that kube-controller-manager uses for its controllers"""

_DOMAIN: Final = re.compile(r"(?:[0-9A-Za-z-]|\\\.)+/")
_UNCLEAR: Final = re.compile(r"\\[()|]|\[[^\]]*[()|]")  # brackets and bars that have no meaning

_MOST: Final = 1000
"""annotations of a pod; comparing each with a pattern takes the API server time that grows with the square of their number"""

_CORE: Final = ("",)
_UPDATED: Final = ("pods/status", "pods/ephemeralcontainers", "pods/resize")
_BOUND: Final = ("pods/binding", "bindings")
"""annotations of a Binding are merged into those of the pod; the second is the older path to the same"""


@dataclass(frozen=True, slots=True)
class _Writers:
    """Who may write records."""

    service: str
    agent: str
    users: tuple[str, ...]
    """of other systems' programs, for the records of these systems only"""
    groups: tuple[str, ...]
    controllers: tuple[str, ...]
    binders: tuple[str, ...]
    """whose Bindings repeat the annotations of pods"""

    @property
    def own(self) -> tuple[str, ...]:
        return self.service, self.agent


def protection_yaml(  # noqa: PLR0913 - a builder: every parameter has a default
    *,
    name: str = "linkwise",
    agent: str = "linkwise-agent",
    namespace: str = "linkwise-system",
    user: str | None = None,
    identities: Sequence[str] = (),
    groups: Sequence[str] = (),
    controllers: Sequence[str] = OPERATORS,
    binders: Sequence[str] = (),
    audit: bool = False,
) -> str:
    """Policies and their bindings.

    Args:
        name: the service account of the service.
        agent: the service account of the node agent.
        namespace: that of both accounts.
        user: the user that the service is, instead of a service account.
        identities: users who may write the records of other systems.
        groups: groups whose members may write them.
        controllers: users who create pods that keep the user of their template.
        binders: schedulers whose Bindings repeat the annotations of the pod.
        audit: whether a violation is only a warning and an audit annotation.
    """
    given = {
        "--identity": identities,
        "--identity-group": groups,
        "--controller": controllers,
        "--binder": binders,
        "--user": [user] if user is not None else [],
    }
    for option, names in given.items():
        for wrong in (each for each in names if not each or not each.isprintable()):
            raise InputError(f"{option}: {wrong!r} is not a name; use one that `kubectl auth whoami` prints")
    account = f"system:serviceaccount:{namespace}"
    writers = _Writers(
        user or f"{account}:{name}",
        f"{account}:{agent}",
        tuple(identities),
        tuple(groups),
        tuple(controllers),
        tuple(binders),
    )
    actions = ["Warn", "Audit"] if audit else ["Deny"]
    texts: list[str] = []
    policies = (_records, _templates, _gates, _claims, _agents, _agent_fields)
    for policy in (made(writers) for made in policies):
        texts += [policy.text(), policy.binding(actions)]
    return "---\n".join(texts)


@dataclass(frozen=True, slots=True)
class _Policy:
    name: str
    why: str
    rules: Sequence[Mapping[str, Any]]
    conditions: Mapping[str, str]
    """by name: a request that does not meet all of them is not evaluated further"""
    variables: Mapping[str, str]
    validations: Sequence[tuple[str, str]]
    """expressions, each with the expression of its message"""

    def text(self) -> str:
        document = {
            "apiVersion": f"{_GROUP}/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": _meta(self.name),
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": list(self.rules)},
                "matchConditions": [
                    {"name": name, "expression": expression} for name, expression in self.conditions.items()
                ],
                "variables": [{"name": name, "expression": text} for name, text in self.variables.items()],
                "validations": [
                    {"expression": expression, "messageExpression": message, "reason": "Forbidden"}
                    for expression, message in self.validations
                ],
            },
        }
        return yaml_with_comments(document, {}, self.why)

    def binding(self, actions: Sequence[str]) -> str:
        document = {
            "apiVersion": f"{_GROUP}/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": _meta(self.name),
            "spec": {"policyName": self.name, "validationActions": list(actions)},
        }
        return yaml_with_comments(document, {})


def _records(writers: _Writers) -> _Policy:
    own = tuple(sorted(Linkwise.records))
    allowed = f"request.userInfo.username in {_list(writers.users)}"
    if writers.groups:
        allowed += (
            f"\n|| (has(request.userInfo.groups) && request.userInfo.groups.exists(g, g in {_list(writers.groups)}))"
        )
    others = " and ".join((*writers.own, *writers.users, *(f"members of {group}" for group in writers.groups)))
    return _Policy(
        "linkwise-records",
        "Annotations of pods that record allocated devices and plans: only the programs that write them may set, change or"
        " remove them, whichever way leads to the pod. Requests that leave them as they are pass, from anyone.",
        (
            _rule(_CORE, ("CREATE", "UPDATE"), ("pods",)),
            _rule(_CORE, ("UPDATE",), _UPDATED),
            _rule(_CORE, ("CREATE",), _BOUND),
        ),
        {
            "not-linkwise": f"!(request.userInfo.username in {_list(writers.own)})",
            **_not_repeated(writers),
            "has-records": f"[object, oldObject].exists(o, o != null && {_has_records('o.metadata')})\n|| {_too_many()}",
        },
        {
            "annotations": "has(object.metadata.annotations) ? object.metadata.annotations : {}",
            "before": "oldObject != null && has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}",
            "records": _keys() + (_more() if _matches("k") else ""),
            "changed": (
                "variables.records.filter(k, k in variables.annotations\n"
                "  ? !(k in variables.before) || variables.before[k] != variables.annotations[k]\n"
                "  : k in variables.before)"
            ),
            "own": f"variables.changed.filter(k, k in {_list(own)})",
            "others": f"variables.changed.filter(k, !(k in {_list((*own, *CREATOR, CLAIM_REQUEST))}))",
            "request": f"variables.changed.filter(k, k == {_text(CLAIM_REQUEST)})",
            "creator": f"variables.changed.filter(k, k in {_list(CREATOR)})",
        },
        (
            (
                "variables.own.size() == 0",
                _message(
                    "annotation(s) ",
                    "variables.own.join(', ')",
                    f": only {' and '.join(writers.own)} may set, change or remove records of Linkwise; leave them out of a"
                    " new pod, and as they are on an existing one",
                ),
            ),
            (
                f"variables.others.size() == 0\n|| {allowed}",
                _message(
                    "annotation(s) ",
                    "variables.others.join(', ')",
                    f": device plugins take them for allocated devices, so only {others} may set, change or remove them, and not"
                    " ",
                    "request.userInfo.username",
                    "; leave them out of a new pod, and as they are on an existing one. An administrator can allow a device"
                    " plugin or a scheduler with: linkwise manifests protection --identity NAME",
                ),
            ),
            (
                (
                    'variables.creator.size() == 0 || (request.operation == "CREATE" && request.kind.kind == "Pod"\n'
                    f"  && ({_controller(writers.controllers)}\n"
                    f"    || ({_named('variables.annotations')})))"
                ),
                _message(
                    "annotation(s) ",
                    "variables.creator.join(', ')",
                    " are the user who created the pod and groups of that user, and are not changed later; leave them out of a new"
                    " pod, which ",
                    "request.userInfo.username",
                    " creates",
                ),
            ),
            (
                (
                    'variables.request.size() == 0 || (request.operation == "CREATE" && request.kind.kind == "Pod"\n'
                    "  && has(object.spec.resourceClaims) && object.spec.resourceClaims.exists(c, "
                    f"c.name == {_text(POD_CLAIM)}\n    && {_names_own_claim('c')}))"
                ),
                _message(
                    f"annotation {CLAIM_REQUEST}: the webhook sets it on a new pod, with the claim that it names; leave"
                    " it out of a new pod, and as it is on an existing one"
                ),
            ),
            (
                f"!{_too_many()}",
                _message(f"a pod with devices and more than {_MOST} annotations can't be checked; remove some"),
            ),
        ),
    )


def _not_repeated(writers: _Writers) -> dict[str, str]:
    """Leaves out Bindings of schedulers that repeat the pod's annotations: only we write records on pods, so a copy is ours."""
    if not writers.binders:
        return {}
    return {
        "not-repeated": f'!(request.kind.kind == "Binding" && request.userInfo.username in {_list(writers.binders)})'
    }


def _templates(writers: _Writers) -> _Policy:
    """The same for templates of pods: controllers copy them into pods of their own requests."""
    templates = (
        "(has({0}.spec.tasks) ? {0}.spec.tasks.filter(t, has(t.template)).map(t, t.template)\n"
        "  : has({0}.spec.jobTemplate) ? [{0}.spec.jobTemplate.spec.template]\n"
        "  : has({0}.spec.template) ? [{0}.spec.template] : [])"
    )
    having = f"has(t.metadata) && {_has_records('t.metadata')}"
    annotations = ".map(t, has(t.metadata) && has(t.metadata.annotations) ? t.metadata.annotations : {})"
    same = "variables.before.exists(b, k in b && b[k] == a[k])"
    # More than one template may have keys of a pattern, so that they are joined per template.
    few = f"variables.annotations.filter(a, a.size() <= {_MOST})"
    matching = f"{few}.map(a, a.filter(k, ({_matches('k') or 'false'}) && !{same}).join(', '))"
    return _Policy(
        "linkwise-templates",
        "Records in the pod templates of workloads: pods created from them would be refused, and the user who creates a"
        " workload must not name another one as the user of its pods. Controllers copy templates.",
        (
            _rule(("apps",), ("CREATE", "UPDATE"), ("deployments", "replicasets", "statefulsets", "daemonsets")),
            _rule(("batch",), ("CREATE", "UPDATE"), ("jobs", "cronjobs")),
            _rule(("batch.volcano.sh",), ("CREATE", "UPDATE"), ("jobs",)),
            _rule(_CORE, ("CREATE", "UPDATE"), ("replicationcontrollers",)),
        ),
        {
            "not-a-controller": f"!({_controller(writers.controllers)})",
            "has-records": f"[object, oldObject].exists(o, o != null && {templates.format('o')}.exists(t, {having}))",
        },
        {
            "annotations": templates.format("object") + annotations,
            "before": f"oldObject != null ? {templates.format('oldObject')}{annotations} : []",
            "changed": f"{_keys()}.filter(k, variables.annotations.exists(a, k in a && !{same}))",
            "others": f"variables.changed.filter(k, !(k in {_list(CREATOR)}))\n+ {matching}.filter(k, k != '')",
            "creator": f"variables.changed.filter(k, k in {_list(CREATOR)})",
        },
        (
            (
                "variables.others.size() == 0",
                _message(
                    "annotation(s) ",
                    "variables.others.join(', ')",
                    " in the pod template record devices of one pod, and pods that have them from a template are refused; remove"
                    " them from the template",
                ),
            ),
            (
                f"variables.creator.size() == 0\n|| variables.annotations.all(a, {_named('a')})",
                _message(
                    "annotation(s) ",
                    "variables.creator.join(', ')",
                    " in the pod template are the user who writes the template and groups of that user; remove them, or name ",
                    "request.userInfo.username",
                    "",
                ),
            ),
        ),
    )


def _gates(writers: _Writers) -> _Policy:
    gated = "has({0}.spec.schedulingGates) && {0}.spec.schedulingGates.exists(g, g.name == " + _text(GATE) + ")"
    return _Policy(
        "linkwise-gates",
        "The scheduling gate of gang members: only the service removes it, when the whole gang has a place. A member that"
        " starts early would hold devices for a gang that can't start.",
        (_rule(_CORE, ("UPDATE",), ("pods",)),),
        {
            "not-linkwise": f"request.userInfo.username != {_text(writers.service)}",
            "was-gated": gated.format("oldObject"),
        },
        {},
        (
            (
                gated.format("object"),
                _message(
                    f"scheduling gate {GATE}: only {writers.service} removes it, when there is a place for the whole gang;"
                    " delete the pod to give it up",
                ),
            ),
        ),
    )


def _claims(writers: _Writers) -> _Policy:
    plan = f"has({{0}}.metadata.annotations) && {_text(PLAN)} in {{0}}.metadata.annotations"
    kept = f"object.metadata.annotations[{_text(PLAN)}] == oldObject.metadata.annotations[{_text(PLAN)}]"
    names = " || ".join(
        f"(has(object.metadata.{field}) && object.metadata.{field}.startsWith({_text(CLAIM_PREFIX)}))"
        for field in ("name", "generateName")
    )
    return _Policy(
        "linkwise-claims",
        "ResourceClaims that name the planned devices of a pod: only the service creates them, and a pod names only the one that the"
        " webhook made for it. A claim can be shared by several pods.",
        (
            _rule(("resource.k8s.io",), ("CREATE", "UPDATE"), ("resourceclaims",)),
            _rule(_CORE, ("CREATE",), ("pods",)),
        ),
        {"not-linkwise": f"request.userInfo.username != {_text(writers.service)}"},
        {
            "claim": 'request.resource.resource == "resourceclaims"',
            "used": "has(dyn(object).spec.resourceClaims) ? dyn(object).spec.resourceClaims : []",
        },
        (
            (
                f'!variables.claim || request.operation != "CREATE" || !({names}\n  || ({plan.format("object")}))',
                _message(
                    f"ResourceClaims whose names begin with {CLAIM_PREFIX}, or with the annotation {PLAN}, are created by"
                    f" {writers.service} only; use another name"
                ),
            ),
            (
                (
                    f'!variables.claim || request.operation != "UPDATE" || (({plan.format("object")})\n'
                    f"  == ({plan.format('oldObject')}) && (!({plan.format('object')})\n  || {kept}))"
                ),
                _message(f"annotation {PLAN}: only {writers.service} sets it; leave it as it is"),
            ),
            (
                (
                    "variables.claim || variables.used.all(c,\n"
                    f"  !has(c.resourceClaimName) || !c.resourceClaimName.startsWith({_text(CLAIM_PREFIX)})\n"
                    f"  || (has(object.metadata.annotations) && {_text(CLAIM_REQUEST)} in object.metadata.annotations\n"
                    f"    && {_names_own_claim('c')}))"
                ),
                _message(
                    f"ResourceClaims whose names begin with {CLAIM_PREFIX} belong to the pod that they were made for; name another"
                    " claim, or request the devices as an extended resource"
                ),
            ),
        ),
    )


def _names_own_claim(claim: str) -> str:
    """Whether a claim of a pod is the one in its annotation."""
    text = f"object.metadata.annotations[{_text(CLAIM_REQUEST)}]"
    return f"has({claim}.resourceClaimName) && {text}.contains('\"claim\":\"' + {claim}.resourceClaimName + '\"')"


def _agents(writers: _Writers) -> _Policy:
    """Rule of least privilege that RBAC can't express: names of objects are not known when a role is written."""
    return _Policy(
        "linkwise-agents",
        "A node agent changes its own node only: the Node, its DeviceInventory, Koordinator's Device of that name, the ConfigMap"
        " of Huawei's device plugin for that node, ResourceSlices of it, and pods bound to it. The node is the one that the agent's token is bound"
        " to.",
        (
            _rule(("linkwise.dev",), ("*",), ("deviceinventories", "deviceinventories/status")),
            _rule(("scheduling.koordinator.sh",), ("*",), ("devices", "devices/status")),
            _rule(("resource.k8s.io",), ("*",), ("resourceslices",)),
            _rule(_CORE, ("*",), ("nodes", "nodes/status")),
            _rule(_CORE, ("*",), ("configmaps",)),
            _rule(_CORE, ("CREATE", "UPDATE", "DELETE"), ("pods", *_UPDATED, *_BOUND)),
        ),
        {"is-agent": f"request.userInfo.username == {_text(writers.agent)}"},
        {
            "node": f"has(request.userInfo.extra) && {_text(_NODE_NAME)} in request.userInfo.extra\n"
            f"? request.userInfo.extra[{_text(_NODE_NAME)}][0] : ''",
            "pod": 'request.resource.resource in ["pods", "bindings"]',
            "name": f'request.resource.resource == "configmaps"\n? {_text(PREFIX)} + variables.node : variables.node',
            "inside": f'request.resource.resource != "configmaps" || request.namespace == {_text(NAMESPACE)}',
            "slice": 'request.resource.resource == "resourceslices"',
            "slices": "[object, oldObject].all(o, o == null || (has(o.spec.nodeName) && o.spec.nodeName == variables.node\n"
            f"  && o.spec.driver == {_text(DRIVER)}))",
            "where": 'variables.pod && request.operation == "UPDATE" && has(oldObject.spec.nodeName)'
            " ? oldObject.spec.nodeName : ''",
        },
        (
            (
                "variables.node != ''",
                _message(
                    f"the token of {writers.agent} is not bound to a node, so that it is unknown which node the agent is on; run"
                    " the agent with the projected service account token of its pod (Kubernetes 1.30 or later)",
                ),
            ),
            (
                (
                    "variables.node == '' || (variables.slice ? variables.slices\n"
                    "  : variables.pod ? variables.where == variables.node\n"
                    "  : request.name == variables.name && variables.inside)"
                ),
                _message(
                    "the agent of node ",
                    "variables.node",
                    " may change this node, its DeviceInventory, its Device and its ConfigMap"
                    f" {NAMESPACE}/{PREFIX}NODE and ResourceSlices of it, and update pods bound to it, and not ",
                    "request.resource.resource + '/' + request.name",
                    "; check the NODE_NAME of the agent",
                ),
            ),
        ),
    )


_OWNERSHIP: Final = ("finalizers", "ownerReferences")
_NODE_SPEC: Final = ("unschedulable", "podCIDR", "podCIDRs", "providerID")
_NODE_STATUS: Final = (
    "conditions",
    "addresses",
    "daemonEndpoints",
    "nodeInfo",
    "images",
    "volumesAttached",
    "volumesInUse",
)
"""what the kubelet and controllers report of a node, beside its resources"""


def _agent_fields(writers: _Writers) -> _Policy:
    """What an agent may change within objects: RBAC lets it write them as a whole."""
    annotations = sorted({TOPOLOGY, *(key for resource in Ascend.resources for key in no_annotations(resource))})
    records = f"k in {_list(record_keys())}" + (f" || {matches}" if (matches := _matches("k")) else "")
    own = _text(AGENT_COMPONENT)
    return _Policy(
        "linkwise-agent-fields",
        "What a node agent may change within its Node and the pods on it: its own labels, annotations and taint, the number of"
        " shared devices, and records. Its events are about pods and name the agent.",
        (
            _rule(_CORE, ("*",), ("nodes", "nodes/status")),
            _rule(_CORE, ("UPDATE",), ("pods",)),
            _rule(_CORE, ("*",), ("events",)),
        ),
        {"is-agent": f"request.userInfo.username == {_text(writers.agent)}"},
        {
            "node": 'request.resource.resource == "nodes" && request.operation == "UPDATE"',
            "pod": 'request.resource.resource == "pods"',
            "ownership": _all_same("metadata", _OWNERSHIP),
            "labels": _changed("metadata.labels"),
            "annotations": _changed("metadata.annotations"),
            "resources": f"{_changed('status.capacity')}\n+ {_changed('status.allocatable')}",
            "taints": f"{_other_taints('object')} == {_other_taints('oldObject')}",
        },
        (
            (
                'request.resource.resource != "nodes" || request.operation == "UPDATE"',
                _message(
                    "the agent may not ",
                    "request.operation.lowerAscii()",
                    " nodes; leave that to the kubelet and to administrators",
                ),
            ),
            (
                (
                    f"!variables.node || (variables.ownership && variables.labels.all(k, k in {_list(NODE_LABELS)})\n"
                    f"  && variables.annotations.all(k, k in {_list(annotations)}))"
                ),
                _message(
                    "the agent may change the labels linkwise.dev/accelerator-... of its node and the annotations that it"
                    " writes, and not ",
                    "(variables.labels + variables.annotations).join(', ')",
                    "; leave these as they are",
                ),
            ),
            (
                f"!variables.node || (variables.taints && {_all_same('spec', _NODE_SPEC)})",
                _message(
                    f"the agent may change the taint {IDLE_TAINT} of its node; leave the rest of its spec as it is"
                ),
            ),
            (
                (
                    f"!variables.node || (variables.resources.all(k, k == {_text(COUNT)})\n"
                    f"  && {_all_same('status', _NODE_STATUS)})"
                ),
                _message(f"the agent may change {COUNT} in the status of its node; leave the rest as it is"),
            ),
            (
                (
                    f"!variables.pod || (variables.ownership && {_all_same('metadata', ['labels'])}\n"
                    f"  && object.spec == oldObject.spec && variables.annotations.all(k, {records}))"
                ),
                _message("the agent may change records in the annotations of pods; leave the rest as it is"),
            ),
            (
                (
                    'request.resource.resource != "events" || (request.operation in ["CREATE", "UPDATE"]\n'
                    '  && object.involvedObject.kind == "Pod" && [object, oldObject].all(o, o == null\n'
                    f"    || (has(o.reportingComponent) && o.reportingComponent == {own}\n"
                    f"      && has(o.source) && has(o.source.component) && o.source.component == {own})))"
                ),
                _message(
                    f"the agent may write events about pods that name {AGENT_COMPONENT} as their source; leave others to their writers"
                ),
            ),
        ),
    )


def _changed(field: str) -> str:
    """The keys of a map whose values differ from before."""
    now, before = (f"(has({of}.{field}) ? {of}.{field} : {{}})" for of in ("object", "oldObject"))
    changed = f"{now}.filter(k, !(k in {before}) || {before}[k] != {now}[k])"
    return f"{changed}\n+ {before}.filter(k, !(k in {now}))"


def _all_same(parent: str, names: Sequence[str]) -> str:
    """Whether optional fields are as before."""
    pairs = ((f"object.{parent}.{name}", f"oldObject.{parent}.{name}") for name in names)
    return "\n  && ".join(f"has({now}) == has({old}) && (!has({now}) || {now} == {old})" for now, old in pairs)


def _other_taints(of: str) -> str:
    """The taints of a Node but for the agent's own, which keeps its effect."""
    own = f'(t.key == {_text(IDLE_TAINT)} && t.effect == "PreferNoSchedule")'
    return f"(has({of}.spec.taints) ? {of}.spec.taints.filter(t, !{own}) : [])"


def _more() -> str:
    """Further records: annotations, of now and before, that match a pattern."""
    now, before, matches = "variables.annotations", "variables.before", _matches("k")
    added = f"({now}.size() > {_MOST} ? [] : {now}.filter(k, {matches}))"
    return f"\n+ {added}\n+ ({before}.size() > {_MOST} ? [] : {before}.filter(k, !(k in {now}) && ({matches})))"


def _named(annotations: str) -> str:
    """Whether annotations name the user of the request and no other, and only groups of that user."""
    user, groups = f"{annotations}[{_text(USER)}]", f"{annotations}[{_text(GROUPS)}]"
    return (
        f"(!({_text(USER)} in {annotations}) || {user} == request.userInfo.username)\n"
        f"  && (!({_text(GROUPS)} in {annotations}) || (has(request.userInfo.groups)\n"
        f"    && {groups}.split({_text(SEPARATOR)}).all(g, g in request.userInfo.groups)))"
    )


def _keys() -> str:
    """All annotations that are protected, one per line."""
    return "[" + ",\n".join(f"  {_text(key)}" for key in (*record_keys(), *CREATOR, CLAIM_REQUEST)).lstrip() + "]"


def _has_records(metadata: str) -> str:
    """Whether an object has any of the annotations; listed keys are looked up, so that their cost does not depend on it."""
    there = f"{_keys()}.exists(k, k in {metadata}.annotations)"
    if matches := _matches("k"):
        few = f"{metadata}.annotations.size() <= {_MOST}"
        there = f"({there}\n|| ({few} && {metadata}.annotations.exists(k, {matches})))"
    return f"has({metadata}.annotations) && {there}"


def _too_many() -> str:
    """Whether a request makes a pod with devices have more annotations than are compared with patterns.

    Other pods may have any number: a device plugin is asked only for pods that request an extended resource, and no pod
    requests one later. A Binding does not show what its pod requests.
    """
    many = "has({0}.metadata.annotations) && {0}.metadata.annotations.size() > " + str(_MOST)
    return f"({many.format('object')} && !(oldObject != null && {many.format('oldObject')})\n&& {_has_devices()})"


def _has_devices() -> str:
    """Whether a container of a pod has an extended resource, which is in a domain; true for a Binding."""
    lists = [f"(has(object.spec.{name}) ? object.spec.{name} : [])" for name in ("containers", "initContainers")]
    extended = "has(c.resources) && has(c.resources.limits) && c.resources.limits.exists(k, k.contains('/'))"
    return f"(!has(object.spec) || ({' + '.join(lists)}).exists(c, {extended}))"


def _matches(key: str) -> str:
    """Whether a key matches a pattern of the dialects; empty if they have none.

    The domain is compared first: regular expressions for thousands of annotations would exceed the cost limit of CEL.
    """
    tests = [
        f"{f'{key}.startsWith({_text(domain)}) && ' if (domain := _domain(pattern)) else ''}"
        f"{key}.matches({_text(f'^(?:{pattern})$')})"
        for pattern in record_patterns()
    ]
    return " || ".join(tests)


def _domain(pattern: str) -> str:
    """The domain, with its slash, of all keys that a regular expression matches; empty if that is not obvious."""
    match = _DOMAIN.match(pattern)
    rest = pattern[match.end() :] if match else ""
    if match is None or rest[:1] in tuple("?*{") or _UNCLEAR.search(rest):
        return ""
    depths = accumulate((character == "(") - (character == ")") for character in rest)
    alternatives = any(character == "|" and not depth for character, depth in zip(rest, depths, strict=True))
    return "" if alternatives else match[0].replace("\\.", ".")


def _controller(named: Sequence[str]) -> str:
    """Whether the request is one of a controller that copies templates."""
    return (
        f"request.userInfo.username in {_list((_CONTROLLER_MANAGER, *named))}"
        f" || (has(request.userInfo.groups) && {_text(_KUBE_SYSTEM)} in request.userInfo.groups)"
    )


def _message(*parts: str) -> str:
    """An expression: texts and expressions in turns."""
    return " + ".join(part if number % 2 else _text(part) for number, part in enumerate(parts) if part)


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"


def _text(text: str) -> str:
    """A string of CEL; its escapes are those of JSON."""
    return json.dumps(text)


def _rule(groups: Sequence[str], operations: Sequence[str], resources: Sequence[str]) -> dict[str, list[str]]:
    return {
        "apiGroups": list(groups),
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": list(resources),
    }


def _meta(name: str) -> dict[str, Any]:
    return {"name": name, "labels": {"app.kubernetes.io/name": "linkwise"}}
