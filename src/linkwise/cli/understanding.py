"""What is understood of each object of a file, as plain data and as text for a person."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from linkwise.broker.policy_table import policy_of
from linkwise.cli.manifests import load_manifests, pod_documents
from linkwise.dialects.registry import DIALECTS, understand
from linkwise.errors import InputError
from linkwise.model.problem import Problem
from linkwise.model.views import NodeView
from linkwise.wire.objects import node_view, pod_view

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.cli.manifests import Manifest
    from linkwise.model.ask import Ask
    from linkwise.model.node_facts import NodeFacts

__all__ = ["read_file", "show"]

NODE_KINDS = ("Device", "DeviceInventory")


def read_file(file: str) -> list[dict[str, Any]]:
    """One entry for every pod template and node of the file; InputError if it can't be read at all."""
    return [entry for manifest in load_manifests(file) for entry in _entries(manifest)]


def _entries(manifest: Manifest) -> Iterable[dict[str, Any]]:
    if manifest.kind == "Node" or manifest.kind in NODE_KINDS:
        return [_node_entry(manifest)]
    return [_pod_entry(manifest, name, count, document) for name, count, document in pod_documents(manifest)]


def _pod_entry(manifest: Manifest, name: str, count: int, document: dict[str, Any]) -> dict[str, Any]:
    entry = {"kind": manifest.kind, "name": name, "line": manifest.place().line, "pods": count}
    try:
        pod = pod_view(document)
    except InputError as error:
        broken = Problem(f"{manifest.kind} {name}", "", str(error))
        return {
            **entry,
            "dialect": "",
            "policy": "",
            "asks": {},
            "group": None,
            "problems": _placed(manifest, [broken]),
        }
    said = understand(pod)
    problems, policy = list(said.problems), ""
    if said.ask is not None:
        policy, wrong = policy_of(pod, said.dialect, said.ask, in_group=said.group is not None)
        problems += [wrong] if wrong else []
    return {
        **entry,
        "namespace": pod.namespace,
        "dialect": said.dialect,
        "policy": policy,
        "asks": _asks(said.ask),
        "group": asdict(said.group) if said.group else None,
        "problems": _placed(manifest, problems),
    }


def _node_entry(manifest: Manifest) -> dict[str, Any]:
    entry = {"kind": manifest.kind, "name": manifest.name, "line": manifest.place().line}
    try:
        view = node_view(manifest.document) if manifest.kind == "Node" else NodeView(manifest.name)
    except InputError as error:
        return {**entry, "facts": [], "problems": _placed(manifest, [Problem(manifest.name, "", str(error))])}
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


def _placed(manifest: Manifest, problems: Iterable[Problem]) -> list[dict[str, Any]]:
    return [
        {
            "where": problem.where,
            "key": problem.key,
            "sentence": problem.sentence,
            **asdict(manifest.place(problem.key)),
        }
        for problem in problems
    ]


def show(entries: list[dict[str, Any]], *, as_json: bool) -> None:
    """Print what was understood."""
    if as_json:
        click.echo(json.dumps(entries, indent=2))
        return
    if not entries:
        click.echo("nothing here asks for devices or describes them")
    for entry in entries:
        count = f" x {entry['pods']}" if entry.get("pods", 1) != 1 else ""
        click.secho(f"{entry['kind']} {entry['name']}{count} (line {entry['line']})", bold=True)
        for line in _lines(entry):
            click.echo(f"  {line}")


def _lines(entry: dict[str, Any]) -> Iterable[str]:
    if "facts" in entry:
        for facts in entry["facts"]:
            linked = " with links" if facts["links"] else " with bandwidth" if facts["bandwidth"] else ""
            yield f"{facts['source']}: {len(facts['devices'])} devices{linked}, handed out by {facts['mode']}"
    elif entry["asks"]:
        for name, wants in entry["asks"]["containers"].items():
            amounts = ", ".join(f"{amount} {key}" for key, amount in wants.items())
            yield f"asks     {name}: {amounts} of {entry['asks']['resource']}"
        yield f"words    {entry['dialect']}"
        yield f"policy   {entry['policy']}"
    else:
        yield "asks     for no device"
    if entry.get("group"):
        group = entry["group"]
        size = f", {group['total']} members" if group["total"] else ""
        gang = f", {group['minimum']} start together" if group["minimum"] else ""
        yield f"group    {group['key']} ({group['source']}{size}{gang})"
    for problem in entry["problems"]:
        yield f"problem  {problem['line']}:{problem['column']} {problem['key']}: {problem['sentence']}"
