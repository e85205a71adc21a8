"""Reports how each object of a manifest is interpreted, as data and as text."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from linkwise.broker.cluster.pod_request import policy_of
from linkwise.cli.inputs.manifests import load_manifests
from linkwise.cli.options.io import file_name
from linkwise.dialects.amd import RESOURCE as ANY_COUNT
from linkwise.dialects.dialect import where_pod
from linkwise.dialects.groups.membership import group_by_owner, may_have_group
from linkwise.dialects.groups.owners import counts_every_pod
from linkwise.dialects.kubernetes.pod_templates import job_stamp, pod_templates
from linkwise.dialects.linkwise.dialect import ACCELERATOR
from linkwise.dialects.misspelt_keys import misspelt_keys
from linkwise.dialects.nvidia import opaque
from linkwise.dialects.pod_resources import effective, resources_of, with_resources_renamed
from linkwise.dialects.registry import DIALECTS, held_by, owners, understand
from linkwise.engine.reasons.catalog import refusal
from linkwise.engine.reasons.phrases import count_text
from linkwise.errors import InputError
from linkwise.manifests.objects import NODE_KINDS, WITHOUT_PODS
from linkwise.model.verdict import Problem
from linkwise.model.views import NodeView
from linkwise.policies.registry import POLICIES
from linkwise.wire.kubernetes.objects import node_view, pod_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import yaml

    from linkwise.dialects.kubernetes.pod_templates import PodTemplate
    from linkwise.dialects.registry import Understood
    from linkwise.manifests.objects import Manifest
    from linkwise.model.ask import Ask
    from linkwise.model.inventory import NodeFacts
    from linkwise.model.views import PodView

__all__ = ["read_file", "show"]


def read_file(file: str) -> list[dict[str, Any]]:
    """Return one entry per pod template and node of the file; InputError if it can't be read."""
    return [
        {"file": file_name(file), **entry} for manifest in load_manifests(file) for entry in _entries(file, manifest)
    ]


def _entries(file: str, manifest: Manifest) -> Iterable[dict[str, Any]]:
    if manifest.kind == "Node" or manifest.kind in NODE_KINDS:
        return [_node_entry(manifest)]
    try:
        entries = [_pod_entry(manifest, template) for template in pod_templates(manifest)]
    except InputError as error:
        where, _, message = str(error).partition(": ")
        entry = {"kind": manifest.kind, "name": manifest.name, "line": manifest.place().line, "pods": 1}
        return [_invalid(entry, manifest, Problem(f"{manifest.kind} {manifest.name}", where, message), None)]
    if not entries and manifest.kind not in WITHOUT_PODS:
        what = f"{manifest.kind or 'an object without kind'} {manifest.name}".rstrip()
        click.echo(f"note: {file_name(file)}:{manifest.place().line}: {what} is skipped: unsupported kind", err=True)
    return entries


def _pod_entry(manifest: Manifest, template: PodTemplate) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "kind": manifest.kind,
        "name": template.name,
        "line": manifest.place("", manifest.part(template.path)).line,
        "pods": template.count,
    }
    try:
        pod = pod_view(template.document)
    except InputError as error:
        where, _, message = str(error).partition(": ")
        invalid = Problem(f"{manifest.kind} {template.name}", where if message else "", message or where)
        return _invalid(entry, manifest, invalid, manifest.part(template.path))
    request, record = _understand(pod), held_by(pod)
    problems, policy = [*request.problems, *record.problems, *misspelt_keys(pod)], ""
    if request.ask is not None:
        policy, wrong = _policy(pod, request)
        problems += wrong
    return {
        **entry,
        "namespace": pod.namespace,
        "dialect": request.dialect,
        "policy": policy,
        "asks": _asks(request.ask),
        "left_to": _left_to(pod) if request.ask is None else "",
        "holds": {part.container: list(part.devices) for part in record.grant.offer.parts} if record.grant else {},
        "group": asdict(request.group) if request.group else None,
        "owner_group": _owner_group(manifest, template, pod, requests=request.ask is not None),
        "note": template.note,
        "problems": _placed(manifest, problems, manifest.part(template.path)),
    }


def _understand(pod: PodView) -> Understood:
    """Return the request; one for devices of any vendor as it is for a vendor without rules for their number."""
    request = understand(pod)
    if [name for name in resources_of(pod) if owners(name)] != [ACCELERATOR]:
        return request
    try:
        effective(pod, ACCELERATOR)
    except InputError:
        return request
    variant = understand(with_resources_renamed(pod, {ACCELERATOR: ANY_COUNT}))
    ask = replace(variant.ask, resource=ACCELERATOR) if variant.ask else None
    return replace(variant, dialect=request.dialect, ask=ask)


def _invalid(entry: dict[str, Any], manifest: Manifest, problem: Problem, root: yaml.Node | None) -> dict[str, Any]:
    empty: dict[str, Any] = {
        "namespace": "",
        "dialect": "",
        "policy": "",
        "asks": {},
        "left_to": "",
        "holds": {},
        "group": None,
        "owner_group": None,
        "note": "",
    }
    return {**entry, **empty, "problems": _placed(manifest, [problem], root)}


def _owner_group(manifest: Manifest, template: PodTemplate, pod: PodView, *, requests: bool) -> dict[str, Any] | None:
    """Return the group that the pods form where groups by owner are set; None if they declare one or have no such owner."""
    stamp = template.stamp(0) if template.stamp else job_stamp(manifest)
    if stamp is None or may_have_group(pod) or not (requests or counts_every_pod(pod)):
        return None
    labels, annotations = {**pod.labels, **stamp.labels}, {**pod.annotations, **stamp.annotations}
    group, _ = group_by_owner(replace(pod, labels=labels, annotations=annotations, owner=stamp.owner), "group")
    return asdict(group) if group else None


def _policy(pod: PodView, request: Understood) -> tuple[str, list[Problem]]:
    """Return the policy of the pod, and the problems for which it would be refused on every node."""
    if request.ask is None or request.ask.resource == ACCELERATOR:
        return "", []
    policy, wrong = policy_of(pod, request.dialect, request.ask, in_group=request.group is not None)
    problems = [wrong] if wrong else []
    invalid = POLICIES[policy].admit(request.ask)
    if invalid is None:
        return policy, problems
    key = "accelerator-type" if invalid.kind == "unknown profile" else request.ask.resource
    return policy, [*problems, Problem(where_pod(pod), key, refusal(invalid))]


def _left_to(pod: PodView) -> str:
    """Return what else allocates the devices of the pod; empty if Linkwise does."""
    if pod.claims or pod.hosted_by_claims:
        return "resource claims"
    return "the vendor's device plugin" if opaque(pod) else ""


def _node_entry(manifest: Manifest) -> dict[str, Any]:
    entry = {"kind": manifest.kind, "name": manifest.name, "line": manifest.place().line}
    try:
        view = node_view(manifest.document) if manifest.kind == "Node" else NodeView(manifest.name)
    except InputError as error:
        where, _, message = str(error).partition(": ")
        return {**entry, "facts": [], "problems": _placed(manifest, [Problem(manifest.name, where, message)])}
    objects = {} if manifest.kind == "Node" else {manifest.kind: manifest.document}
    all_facts = (dialect.node(view, objects) for dialect in DIALECTS)
    facts = [one for one in all_facts if one is not None]
    problems = [problem for one in facts for problem in one.problems]
    return {**entry, "facts": [_facts(one) for one in facts], "problems": _placed(manifest, problems)}


def _asks(ask: Ask | None) -> dict[str, Any]:
    if ask is None:
        return {}
    fields = {"resource": ask.resource, "mode": ask.mode, "profile": ask.profile}
    containers = {
        part.container: {key: value for key, value in asdict(part).items() if key != "container" and value}
        for part in ask.containers
    }
    required = {"requires": ask.requirement.by_source()} if ask.requirement else {}
    return {**{key: value for key, value in fields.items() if value}, "containers": containers, **required}


def _facts(facts: NodeFacts) -> dict[str, Any]:
    return {
        "source": facts.source,
        "mode": facts.mode,
        "unit": facts.unit,
        "profile": facts.profile,
        "devices": [asdict(device) for device in facts.devices],
        "links": [list(row) for row in facts.topology.links] if facts.topology else [],
        "bandwidth": [list(row) for row in facts.topology.bandwidth] if facts.topology else [],
        "labels": dict(facts.labels),
        "allocations": {pod: list(devices) for pod, devices in facts.allocations.items()},
    }


def _placed(manifest: Manifest, problems: Iterable[Problem], root: yaml.Node | None = None) -> list[dict[str, Any]]:
    return [asdict(problem) | asdict(manifest.place(problem.key, root)) for problem in dict.fromkeys(problems)]


def show(entries: list[dict[str, Any]], *, as_json: bool) -> None:
    """Print the entries as text or JSON."""
    if as_json:
        click.echo(json.dumps(entries, indent=2))
        return
    if not entries:
        click.echo("no pods or device descriptions found")
    several = len({entry["file"] for entry in entries}) > 1
    for entry in entries:
        count = f" x {entry['pods']}" if entry.get("pods", 1) != 1 else ""
        place = f"{entry['file']}:{entry['line']}" if several else f"line {entry['line']}"
        click.secho(f"{entry['kind']} {entry['name']}{count} ({place})", bold=True)
        for line in _lines(entry, f"{entry['file']}:" if several else ""):
            click.echo(f"  {line}")


def _lines(entry: dict[str, Any], file: str) -> Iterable[str]:
    if "facts" in entry:
        for facts in entry["facts"]:
            data = "links" if facts["links"] else "bandwidth" if facts["bandwidth"] else ""
            if data and not facts["devices"]:
                yield f"{facts['source']}: {data} only; the devices come from another source"
                continue
            more = f" with {data}" if data else ""
            yield f"{facts['source']}: {_devices(len(facts['devices']))}{more}, {MODES[facts['mode']]}"
    elif entry["asks"]:
        yield from _request_lines(entry["asks"])
        yield f"api      {entry['dialect']}"
        yield f"policy   {entry['policy'] or 'that of the vendor which the admission webhook chooses'}"
    elif entry["left_to"]:
        yield f"requests allocated by {entry['left_to']}"
    else:
        yield "requests invalid" if entry["dialect"] or entry["problems"] else "requests no devices"
    for name, devices in entry.get("holds", {}).items():
        yield f"holds    {name}: {', '.join(devices)}"
    yield from _group_lines(entry)
    if entry.get("note"):
        yield f"note     {entry['note']}"
    for problem in entry["problems"]:
        key = f"{problem['key']}: " if problem["key"] else ""
        yield f"problem  {file}{problem['line']}:{problem['column']} {key}{problem['sentence']}"


def _request_lines(asks: dict[str, Any]) -> Iterable[str]:
    for name, wants in asks["containers"].items():
        amounts = ", ".join(AMOUNTS[key](amount) for key, amount in wants.items())
        yield f"requests {name}: {amounts} ({asks['resource']})"
    for source, text in asks.get("requires", {}).items():
        yield f"requires {text} ({source})"


def _group_lines(entry: dict[str, Any]) -> Iterable[str]:
    if group := entry.get("group"):
        size = f", {count_text(group['total'], 'member')}" if group["total"] else ""
        gang = f", {group['minimum']} start together" if group["minimum"] else ""
        yield f"group    {group['key']} ({group['source']}{size}{gang})"
    if group := entry.get("owner_group"):
        size = f", {count_text(group['total'], 'member')}" if group["total"] else ""
        yield f"owner    {group['key']} (a group where groups by owner are on{size})"


def _devices(count: int) -> str:
    return f"{count} device" if count == 1 else f"{count} devices"


MODES = {
    "any": "sharing mode set by the first pod",
    "whole": "allocated whole",
    "share": "shared by memory",
    "percent": "shared by percent",
}
AMOUNTS: dict[str, Callable[[int], str]] = {
    "devices": _devices,
    "share": lambda share: f"{share} of one device's memory",
    "core": lambda core: f"{core}% of its compute",
}
