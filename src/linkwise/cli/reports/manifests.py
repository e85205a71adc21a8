"""What is understood of each object of a file, as plain data and as text for a person."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from linkwise.broker.cluster.pod_request import policy_of
from linkwise.cli.inputs.manifests import load_manifests, pod_templates
from linkwise.cli.options.files import file_name
from linkwise.dialects.dialect import where_pod
from linkwise.dialects.nvidia.dialect import opaque
from linkwise.dialects.registry import DIALECTS, held_by, understand
from linkwise.engine.reasons.catalog import refusal
from linkwise.errors import InputError
from linkwise.model.verdict import Problem
from linkwise.model.views import NodeView
from linkwise.policies.registry import POLICIES
from linkwise.wire.kubernetes.objects import node_view, pod_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import yaml

    from linkwise.cli.inputs.manifests import Manifest, PodTemplate
    from linkwise.dialects.registry import Understood
    from linkwise.model.ask import Ask
    from linkwise.model.inventory import NodeFacts
    from linkwise.model.views import PodView

__all__ = ["read_file", "show"]

NODE_KINDS = ("Device", "DeviceInventory")
# Kinds of everyday manifests that make no pods: nothing needs to be said about them.
WITHOUT_PODS = frozenset(
    (
        *("Service", "ServiceAccount", "ConfigMap", "Secret", "Namespace", "Role", "RoleBinding", "ClusterRole"),
        *("ClusterRoleBinding", "PersistentVolumeClaim", "PodGroup", "Queue", "Ingress", "NetworkPolicy"),
    )
)


def read_file(file: str) -> list[dict[str, Any]]:
    """One entry for every pod template and node of the file; InputError if it can't be read at all."""
    return [
        {"file": file_name(file), **entry} for manifest in load_manifests(file) for entry in _entries(file, manifest)
    ]


def _entries(file: str, manifest: Manifest) -> Iterable[dict[str, Any]]:
    if manifest.kind == "Node" or manifest.kind in NODE_KINDS:
        return [_node_entry(manifest)]
    found = [_pod_entry(manifest, template) for template in pod_templates(manifest)]
    if not found and manifest.kind not in WITHOUT_PODS:
        what = f"{manifest.kind or 'an object without kind'} {manifest.name}".rstrip()
        click.echo(f"note: {file_name(file)}:{manifest.place().line}: {what} is not looked into", err=True)
    return found


def _pod_entry(manifest: Manifest, template: PodTemplate) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "kind": manifest.kind,
        "name": template.name,
        "line": manifest.place("", template.root).line,
        "pods": template.count,
    }
    try:
        pod = pod_view(template.document)
    except InputError as error:
        where, _, said = str(error).partition(": ")
        broken = Problem(f"{manifest.kind} {template.name}", where if said else "", said or where)
        nothing: dict[str, Any] = {
            "namespace": "",
            "dialect": "",
            "policy": "",
            "asks": {},
            "left_to": "",
            "holds": {},
            "group": None,
        }
        return {**entry, **nothing, "problems": _placed(manifest, [broken], template.root)}
    said_by_pod, held = understand(pod), held_by(pod)
    problems, policy = [*said_by_pod.problems, *held.problems], ""
    if said_by_pod.ask is not None:
        policy, wrong = _policy(pod, said_by_pod)
        problems += wrong
    return {
        **entry,
        "namespace": pod.namespace,
        "dialect": said_by_pod.dialect,
        "policy": policy,
        "asks": _asks(said_by_pod.ask),
        "left_to": _left_to(pod),
        "holds": {part.container: list(part.devices) for part in held.grant.offer.parts} if held.grant else {},
        "group": asdict(said_by_pod.group) if said_by_pod.group else None,
        "problems": _placed(manifest, problems, template.root),
    }


def _policy(pod: PodView, said: Understood) -> tuple[str, list[Problem]]:
    """The policy that the pod is placed by, and why that would refuse it on every node."""
    if said.ask is None:
        return "", []
    policy, wrong = policy_of(pod, said.dialect, said.ask, in_group=said.group is not None)
    problems = [wrong] if wrong else []
    refused = POLICIES[policy].admit(said.ask)
    if refused is None:
        return policy, problems
    key = "accelerator-type" if refused.kind == "unknown profile" else said.ask.resource
    return policy, [*problems, Problem(where_pod(pod), key, refusal(refused))]


def _left_to(pod: PodView) -> str:
    """Who else serves the pod's devices, if anybody."""
    if pod.claims or pod.hosted_by_claims:
        return "resource claims"
    return "the vendor's plugin" if opaque(pod) else ""


def _node_entry(manifest: Manifest) -> dict[str, Any]:
    entry = {"kind": manifest.kind, "name": manifest.name, "line": manifest.place().line}
    try:
        view = node_view(manifest.document) if manifest.kind == "Node" else NodeView(manifest.name)
    except InputError as error:
        where, _, said = str(error).partition(": ")
        return {**entry, "facts": [], "problems": _placed(manifest, [Problem(manifest.name, where, said)])}
    objects = {} if manifest.kind == "Node" else {manifest.kind: manifest.document}
    facts = [found for dialect in DIALECTS if (found := dialect.node(view, objects)) is not None]
    problems = [problem for found in facts for problem in found.problems]
    return {**entry, "facts": [_facts(found) for found in facts], "problems": _placed(manifest, problems)}


def _asks(ask: Ask | None) -> dict[str, Any]:
    if ask is None:
        return {}
    told = {"resource": ask.resource, "mode": ask.mode, "profile": ask.profile}
    containers = {
        found.container: {key: value for key, value in asdict(found).items() if key != "container" and value}
        for found in ask.containers
    }
    return {**{key: value for key, value in told.items() if value}, "containers": containers}


def _facts(found: NodeFacts) -> dict[str, Any]:
    return {
        "source": found.source,
        "mode": found.mode,
        "unit": found.unit,
        "profile": found.profile,
        "devices": [asdict(device) for device in found.devices],
        "links": [list(row) for row in found.topology.links] if found.topology else [],
        "bandwidth": [list(row) for row in found.topology.bandwidth] if found.topology else [],
        "labels": dict(found.labels),
        "allocations": {pod: list(devices) for pod, devices in found.allocations.items()},
    }


def _placed(manifest: Manifest, problems: Iterable[Problem], root: yaml.Node | None = None) -> list[dict[str, Any]]:
    return [asdict(problem) | asdict(manifest.place(problem.key, root)) for problem in dict.fromkeys(problems)]


def show(entries: list[dict[str, Any]], *, as_json: bool) -> None:
    """Print what was understood."""
    if as_json:
        click.echo(json.dumps(entries, indent=2))
        return
    if not entries:
        click.echo("nothing here asks for devices or describes them")
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
            linked = "links" if facts["links"] else "bandwidth" if facts["bandwidth"] else ""
            if linked and not facts["devices"]:
                yield f"{facts['source']}: {linked} alone, of devices that somebody else counts"
                continue
            more = f" with {linked}" if linked else ""
            yield f"{facts['source']}: {_devices(len(facts['devices']))}{more}, {MODES[facts['mode']]}"
    elif entry["asks"]:
        for name, wants in entry["asks"]["containers"].items():
            amounts = ", ".join(AMOUNTS[key](amount) for key, amount in wants.items())
            yield f"asks     {name}: {amounts} ({entry['asks']['resource']})"
        yield f"words    {entry['dialect']}"
        yield f"policy   {entry['policy']}"
    elif entry["left_to"]:
        yield f"asks     left to {entry['left_to']}"
    else:
        yield "asks     not understood" if entry["dialect"] or entry["problems"] else "asks     for no device"
    for name, devices in entry.get("holds", {}).items():
        yield f"holds    {name}: {', '.join(devices)}"
    if entry.get("group"):
        group = entry["group"]
        size = f", {group['total']} members" if group["total"] else ""
        gang = f", {group['minimum']} start together" if group["minimum"] else ""
        yield f"group    {group['key']} ({group['source']}{size}{gang})"
    for problem in entry["problems"]:
        key = f"{problem['key']}: " if problem["key"] else ""
        yield f"problem  {file}{problem['line']}:{problem['column']} {key}{problem['sentence']}"


def _devices(count: int) -> str:
    return f"{count} device" if count == 1 else f"{count} devices"


MODES = {
    "any": "handed out as the first pod asks",
    "whole": "handed out whole",
    "share": "handed out by memory",
    "percent": "handed out by percent",
}
AMOUNTS: dict[str, Callable[[int], str]] = {
    "devices": _devices,
    "share": lambda share: f"{share} of one device's memory",
    "core": lambda core: f"{core} % of its compute",
}
