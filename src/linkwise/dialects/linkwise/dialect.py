"""Linkwise's own API: the grant on a pod, the policy it names, and the resource that any vendor can serve.

A restart reads the grant, which has everything that the ledger needs. Why the devices were chosen is written beside it, in
the field `why`, and read only to explain it: it is for people, and an invalid one is as good as none.
Source: DESIGN, state of record.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, ClassVar, Final

from linkwise.dialects.dialect import Dialect, Held, SourcePriority, where_pod
from linkwise.dialects.json_fields import Fields, Report, json_value, shown, versioned_fields
from linkwise.dialects.linkwise.group_plan import GROUP_PLAN
from linkwise.dialects.linkwise.inventory import KIND, SOURCE, inventory_facts
from linkwise.dialects.pod_resources import effective
from linkwise.errors import InputError
from linkwise.model.inventory import NodeFacts
from linkwise.model.verdict import Decision, Grant, Offer, Part, Problem
from linkwise.speed.fast_dataclass import fast_constructor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkwise.dialects.dialect import Writing
    from linkwise.model.ask import Ask
    from linkwise.model.device import Device
    from linkwise.model.node import AskMode
    from linkwise.model.views import NodeView, PodView

__all__ = [
    "ACCELERATOR",
    "COUNT_LABEL",
    "DISTINCT_DEVICES",
    "GRANT",
    "IDLE_TAINT",
    "LABELS",
    "MEMORY_LABEL",
    "MODELS",
    "MODEL_LABEL",
    "NODE_LABELS",
    "POLICY",
    "VENDOR_LABEL",
    "VERSION",
    "WRITTEN",
    "Linkwise",
    "any_model",
    "decision_document",
    "distinct_devices",
    "grant_text",
    "policy_of",
    "recorded_decision",
]

_NUMBER: Final = r"(?:0|[1-9][0-9]{0,17})"
_SIGNED_NUMBER: Final = rf"-?{_NUMBER}"
_NUMBERS: Final = rf"\[(?:{_SIGNED_NUMBER}(?:,{_SIGNED_NUMBER})*)?\]"
_ROWS: Final = rf"\[{_NUMBERS}(?:,{_NUMBERS})*\]"
_WORDS: Final = r'\[(?:"[a-z0-9 -]*"(?:,"[a-z0-9 -]*")*)?\]'
_WORD: Final = r'"[ !#-\[\]-~]*"'  # nothing in it that JSON would have to write otherwise
WRITTEN: Final = (
    rf'\{{"considered":{_SIGNED_NUMBER},"free":(?:{_NUMBERS}|{_ROWS})(?:,"nominated":true)?'
    rf'(?:,"runner_up":\{{"node":{_WORD},"score":{_NUMBERS}\}})?,"score":{_NUMBERS},"terms":{_WORDS}\}}'
)
"""pattern of the field exactly as we write it"""
LARGEST: Final = 2**62
MOST: Final = 1024
"""entries of a list that are read; no node has so many devices"""
ACCELERATOR: Final = "linkwise.dev/accelerator"
"""whole devices of any vendor; replaced by the resource of one vendor when the pod is created"""
GRANT: Final = "linkwise.dev/grant"
MODELS: Final = "linkwise.dev/models"
DISTINCT_DEVICES: Final = "linkwise.dev/distinct-devices"
POLICY: Final = "linkwise.dev/policy"
VENDOR_LABEL: Final = "linkwise.dev/accelerator-vendor"
MODEL_LABEL: Final = "linkwise.dev/accelerator-model"
COUNT_LABEL: Final = "linkwise.dev/accelerator-count"
MEMORY_LABEL: Final = "linkwise.dev/accelerator-memory"  # MiB of one device
NODE_LABELS: Final = (VENDOR_LABEL, MODEL_LABEL, COUNT_LABEL, MEMORY_LABEL)
IDLE_TAINT: Final = "linkwise.dev/idle-accelerators"
"""key of the taint of nodes whose devices ordinary pods would make useless"""
LABELS: Final = {VENDOR_LABEL: "vendor", MODEL_LABEL: "model", MEMORY_LABEL: "memory"}
"""labels that the agent writes on its node, by the names of facts"""
_DOMAIN: Final = "linkwise.dev"
VERSION: Final = 1
"""of the format below; other versions are ignored"""
_GRANT_FIELDS: Final = frozenset(
    {"version", "policy", "mode", "node", "pod", "containers", "plan", "generation", "why"}
)
_PART_FIELDS: Final = frozenset({"devices", "indices", "share", "core"})
_MODES: Final[tuple[AskMode, ...]] = ("whole", "share", "percent")
_INDICES: Final = rf'(?:"indices":\[({_NUMBER}(?:,{_NUMBER})*)\],)?'
_PART: Final = rf'({_WORD}):\{{"core":({_NUMBER}),"devices":\[({_WORD}(?:,{_WORD})*)\],{_INDICES}"share":({_NUMBER})\}}'
_GRANT: Final = re.compile(
    rf'\{{"containers":\{{({_PART}(?:,{_PART})*)\}},"generation":({_NUMBER}),"mode":({_WORD}),"node":({_WORD}),'
    rf'"plan":({_WORD}),"pod":({_WORD}),"policy":({_WORD}),"version":{VERSION}(?:,"why":{WRITTEN})?\}}'
)
"""a grant exactly as we write it"""
_EACH_PART: Final = re.compile(_PART)
_MODE_OF: Final[dict[str, AskMode]] = {mode: mode for mode in _MODES}
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode
_quick_part, _quick_offer, _quick_grant = fast_constructor(Part), fast_constructor(Offer), fast_constructor(Grant)
_FINISHED: Final = {"Succeeded", "Failed"}
_NO_DEVICES: Final[Mapping[str, Device]] = {}


def decision_document(decision: Decision) -> dict[str, object]:
    """The field as JSON values, fields by name; of the other nodes only the first."""
    document: dict[str, object] = {"considered": decision.considered, "free": decision.rooms or decision.free}
    if decision.nominated:
        document["nominated"] = True
    if decision.others:
        node, score = decision.others[0]
        document["runner_up"] = {"node": node, "score": score}
    return {**document, "score": decision.score, "terms": decision.terms}


def recorded_decision(pod: PodView, key: str) -> Decision | None:
    """The decision in the record at this key of the pod; None if there is none that can be read."""
    text, report = pod.annotations.get(key), Report(where_pod(pod), key)
    try:
        record = json_value(text) if text else None
    except InputError:
        return None
    fields = Fields.of(record.get("why"), "why", report) if isinstance(record, dict) else None
    decision = _read(fields) if fields else None
    return None if report.broken else decision


class Linkwise(Dialect):
    """Pods request devices by the resources of other systems, or by one that is replaced before they are scheduled."""

    name: ClassVar[str] = SOURCE
    resources = (ACCELERATOR,)
    domains = frozenset({KIND, _DOMAIN})
    inventories = (KIND,)
    records = (GRANT, GROUP_PLAN)
    priority = SourcePriority.INVENTORY

    def ask(self, pod: PodView) -> Ask | Problem | None:
        """A problem: no node has this resource, so the pod was created without the webhook."""
        try:
            requested = effective(pod, ACCELERATOR)
        except InputError as error:
            return Problem(where_pod(pod), ACCELERATOR, str(error))
        if not requested:
            return None
        sentence = (
            "the admission webhook replaces it by the resource of a vendor and did not review this pod; "
            "create the pod again with the webhook, or request a vendor's resource"
        )
        return Problem(where_pod(pod), ACCELERATOR, sentence)

    def held(self, pod: PodView) -> Held:
        """The grant, if it is complete and for the pod's node."""
        text = pod.annotations.get(GRANT)
        if text is None or pod.phase in _FINISHED:
            return Held(None)
        if grant := _as_written(text, pod):
            return Held(grant)
        report = Report(where_pod(pod), GRANT)
        fields = versioned_fields(text, VERSION, report)
        grant = _grant(fields, pod) if fields else None
        return Held(None if report.broken else grant, tuple(report.problems))

    def write(self, writing: Writing) -> dict[str, str]:
        """The grant; InputError if it names one container twice, which would lose devices."""
        return {GRANT: grant_text(writing.grant, writing.decision, writing.devices)}

    def cleared(self, pod: PodView) -> dict[str, str]:
        """An empty text for the plan of its group; the grant is written with every bind."""
        return {GROUP_PLAN: ""} if pod.annotations.get(GROUP_PLAN) else {}

    def node(self, view: NodeView, objects: Mapping[str, Mapping[str, object]]) -> NodeFacts | None:
        """Facts of the node's DeviceInventory, which has the name of the node; without one, those of the agent's labels."""
        raw = objects.get(KIND)
        if raw is not None:
            return inventory_facts(raw, view.name)
        labels = {word: view.labels[key] for key, word in LABELS.items() if view.labels.get(key)}
        if labels.get("memory", "").isdecimal():
            labels["memory"] += "Mi"
        return NodeFacts(SOURCE, labels=labels) if labels else None


def grant_text(grant: Grant, decision: Decision | None = None, devices: Mapping[str, Device] = _NO_DEVICES) -> str:
    """The record of a grant, with the indices of those devices that are given, by id; equal records are equal texts."""
    document = {
        "containers": _containers(grant.offer.parts, devices),
        "generation": grant.generation,
        "mode": grant.mode,
        "node": grant.offer.node,
        "plan": grant.plan,
        "pod": grant.pod,
        "policy": grant.policy,
        "version": VERSION,
    }
    if decision:
        document["why"] = decision_document(decision)
    return _encode(document)


def policy_of(pod: PodView) -> str:
    """The policy that the pod names, or an empty string; it may be unknown."""
    return pod.annotations.get(POLICY, "").strip()


def any_model(pod: PodView) -> bool:
    """Whether members of its group may get devices of different models: only if the value is `any`."""
    return pod.annotations.get(MODELS) == "any"


def distinct_devices(pod: PodView) -> bool:
    """Whether no two members of its group may be on one device: only if the value is `true`."""
    return pod.annotations.get(DISTINCT_DEVICES) == "true"


def _read(fields: Fields) -> Decision | None:
    considered, terms, score = fields.number("considered"), fields.texts("terms"), _integers(fields.raw.get("score"))
    if considered is None or terms is None or score is None or len(score) != len(terms):
        return None
    free, rows = _integers(fields.raw.get("free")), _rooms(fields.raw.get("free"))
    if free is None and rows is None:
        return None
    return Decision(
        considered,
        terms,
        score,
        _others(fields, len(terms)),
        free or (),
        rows or (),
        fields.raw.get("nominated") is True,
    )


def _integers(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list) or len(value) > MOST:
        return None
    fits = all(isinstance(each, int) and not isinstance(each, bool) and abs(each) < LARGEST for each in value)
    return tuple(value) if fits else None


def _rooms(value: object) -> tuple[tuple[int, int, int], ...] | None:
    if not isinstance(value, list) or len(value) > MOST:
        return None
    rows = [row for each in value if (row := _integers(each)) and len(row) == 3]
    return tuple((row[0], row[1], row[2]) for row in rows) if len(rows) == len(value) else None


def _others(fields: Fields, terms: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    if "runner_up" not in fields.raw:
        return ()
    other = Fields.of(fields.raw["runner_up"], "why.runner_up", fields.report)
    node, score = (other.text("node"), _integers(other.raw.get("score"))) if other else (None, None)
    return ((node, score),) if node and score is not None and len(score) == terms else ()


def _as_written(text: str, pod: PodView) -> Grant | None:
    """Fast path: the grant if its text is exactly as Linkwise writes it. A start reads many thousands.

    Any other text takes the slow path, which reports problems.
    """
    match = _GRANT.fullmatch(text)
    if match is None:
        return None
    generation, mode_text, node, plan, owner, policy = match.groups()[-6:]
    mode = _MODE_OF.get(mode_text[1:-1])
    parts = tuple([_written_part(*part) for part in _EACH_PART.findall(match[1])])
    if mode is None or owner[1:-1] != pod.uid or pod.node not in ("", node[1:-1]):
        return None
    amounts = any(part.share or part.core for part in parts)
    fits = mode == "percent" or amounts == (mode == "share")
    once = len(parts) == 1 or len({part.container for part in parts}) == len(parts)
    if not fits or not once or not all(map(_plausible, parts)):
        return None
    offer = _quick_offer(pod.node or node[1:-1], parts)
    return _quick_grant(pod.uid, policy[1:-1], offer, plan[1:-1], int(generation), mode)


def _written_part(container: str, core: str, devices: str, indices: str, share: str) -> Part:
    numbers = tuple(map(int, indices.split(","))) if indices else ()
    return _quick_part(container[1:-1], tuple(devices[1:-1].split('","')), int(share), int(core), numbers)


def _plausible(part: Part) -> bool:
    return len(set(part.devices)) == len(part.devices) and _matches(part.devices, part.indices)


def _matches(devices: Sequence[str], indices: Sequence[int]) -> bool:
    """Whether there is one index per device, or none at all."""
    return not indices or len(devices) == len(indices) == len(set(indices))


def _grant(fields: Fields, pod: PodView) -> Grant | None:
    policy, node, owner = fields.text("policy"), fields.text("node"), fields.text("pod")
    mode = _mode(fields)
    plan, generation = fields.text("plan", ""), fields.number("generation", 0)
    parts = _parts(fields)
    fields.unknown(_GRANT_FIELDS)
    if policy is None or node is None or plan is None or generation is None or mode is None or owner is None:
        return None
    _check_mode(mode, parts, fields.report)
    if owner != pod.uid:
        fields.report.refuse(f"it was made for the pod with UID {shown(owner)}, not for this one; it is ignored")
    if pod.node and node != pod.node:
        fields.report.refuse(f"it was made for node {shown(node)} and the pod is on {shown(pod.node)}; it is ignored")
    return Grant(pod.uid, policy, Offer(node, parts), plan, generation, mode)


def _mode(fields: Fields) -> AskMode | None:
    text = fields.text("mode")
    if text is None:
        return None
    known = next((mode for mode in _MODES if mode == text), None)
    if known is None:
        fields.report.refuse(f"mode is {shown(text)}; one of {', '.join(_MODES)} is expected")
    return known


def _parts(fields: Fields) -> tuple[Part, ...]:
    parts = [_part(name, entry) for name, entry in fields.named("containers")]
    return tuple(part for part in parts if part)


def _part(container: str, entry: Fields) -> Part | None:
    devices, share, core = entry.texts("devices"), entry.number("share", 0), entry.number("core", 0)
    indices = entry.numbers("indices") if "indices" in entry.raw else ()
    entry.unknown(_PART_FIELDS)
    if devices is None or share is None or core is None or indices is None:
        return None
    if not devices or len(set(devices)) < len(devices):
        entry.report.refuse(f"{entry.path}devices names {'one device twice' if devices else 'no device'}")
    if not _matches(devices, indices):
        entry.report.refuse(f"{entry.path}indices must be unique per device")
    return Part(container, devices, share, core, indices)


def _check_mode(mode: AskMode, parts: tuple[Part, ...], report: Report) -> None:
    """Whole devices have no amounts and shares do: anything else contradicts itself; percents may be whole cards."""
    amounts = any(part.share or part.core for part in parts)
    if (mode == "whole" and amounts) or (mode == "share" and not amounts):
        report.refuse(f"mode is {mode} and {'amounts are' if amounts else 'no amount is'} given; it is ignored")


def _containers(parts: tuple[Part, ...], devices: Mapping[str, Device]) -> dict[str, dict[str, object]]:
    """In the order of the parts, which a reader of JSON texts keeps."""
    containers: dict[str, dict[str, object]] = {}
    for part in parts:
        entry = containers[part.container] = {"core": part.core, "devices": part.devices}
        indices = [devices[name].index for name in part.devices if name in devices and not name.startswith("#")]
        if part.indices or len(indices) == len(part.devices):
            entry["indices"] = part.indices or indices
        entry["share"] = part.share
    if len(containers) < len(parts):
        raise InputError("a grant names one container twice")
    return containers
