"""Cluster whose kube-scheduler calls a running service: creates nodes and pods, reads grants."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from support.e2e.api_client import path_of
from support.e2e.pod_objects import device_definition, pod
from support.e2e.processes import wait_for
from support.e2e.scheduler import Serve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster


__all__ = ["SINGLE", "Granted", "Placing", "grant", "printed", "running_service", "running_service_for_koordinator"]

GRANT: Final = "linkwise.dev/grant"
SECONDS: Final = 15.0
SINGLE: Final = ("--without", "leader", "--without", "tenants")
"""of the role of a service that is alone, and that users do not ask"""


@dataclass(frozen=True, slots=True)
class Granted:
    """Where a pod is and what it holds, as the API object alone tells it."""

    node: str
    devices: tuple[str, ...]
    """ids, as they are written; each once"""
    containers: Mapping[str, Mapping[str, Any]]
    """by name: `devices`, `share` and `core`"""
    annotations: Mapping[str, str]

    def positions(self, ids: Iterable[str]) -> tuple[int, ...]:
        """Which of a node's devices these are, in order."""
        known = list(ids)
        return tuple(sorted(known.index(one) for one in self.devices))


def grant(found: Raw) -> Granted:
    """What a bound pod holds; nothing but its node if it has no record."""
    annotations = found["metadata"].get("annotations") or {}
    containers = json.loads(annotations[GRANT])["containers"] if GRANT in annotations else {}
    devices = dict.fromkeys(device for part in containers.values() for device in part["devices"])
    return Granted(found["spec"].get("nodeName", ""), tuple(devices), containers, annotations)


class Placing:
    """A cluster with the service under its shipped role; its kube-scheduler asks it for `default-scheduler` too.

    Tell nodes with `nodes`, which returns when both have seen them: only then is it sure which of them a pod gets.
    """

    def __init__(self, cluster: Cluster, serve: Serve) -> None:
        self.cluster, self.serve = cluster, serve

    def namespace(self) -> str:
        """A new namespace."""
        return self.cluster.namespace()

    def nodes(self, *things: Raw) -> None:
        """Make nodes and what tells of them, and wait until the service and kube-scheduler have seen them all."""
        self.cluster.create(things)
        self.seen(things)
        self._scheduler_sees_nodes()

    def seen(self, things: Iterable[Raw]) -> None:
        """Wait until the service has seen these as the API server has them now."""
        wanted = [self.cluster.api.get(path_of(thing)) for thing in things]
        versions = {found["metadata"]["resourceVersion"] for found in wanted if found["kind"] != "Node"}
        names = {found["metadata"]["name"] for found in wanted if found["kind"] == "Node"}

        def all_known() -> bool:
            known = self.snapshot()
            documents = [document for kinds in known["objects"].values() for document in kinds.values()]
            observed = {document["metadata"].get("resourceVersion") for document in documents}
            return names <= {found["metadata"]["name"] for found in known["nodes"]} and versions <= observed

        wait_for(all_known, SECONDS, "the service has seen what the test made")

    def seen_pods(self, namespace: str, count: int) -> None:
        """Wait until the service has seen so many pods of a namespace."""

        def known() -> bool:
            found = [pod["metadata"]["namespace"] for pod in self.snapshot()["pods"]]
            return found.count(namespace) == count

        wait_for(known, SECONDS, f"the service has seen {count} pods of {namespace}")

    def empty(self) -> None:
        """Wait until the service knows of no nodes and no pods."""
        wait_for(lambda: not self._left(), SECONDS, "the service has seen the end of the test before")

    def counted(self, pods: int) -> None:
        """Wait until the service counts the devices of so many pods."""
        wait_for(lambda: self.metric("linkwise_grants") == pods, SECONDS, f"{pods} pods hold devices")

    def create(self, namespace: str, name: str, limits: Mapping[str, int | str] | None = None, **more: Any) -> Raw:  # noqa: ANN401 - as `pod` has them
        """Make a pod; further words are those of `pod`."""
        return self.cluster.api.create(pod(namespace, name, limits, **more))

    def place(self, namespace: str, name: str, limits: Mapping[str, int | str] | None = None, **more: Any) -> Granted:  # noqa: ANN401 - same
        """Make a pod and wait until it has a node: what it was given."""
        self.create(namespace, name, limits, **more)
        return self.placed(namespace, name)

    def placed(self, namespace: str, name: str, seconds: float = SECONDS) -> Granted:
        """What a pod is given, as soon as it has a node."""
        return grant(self.cluster.wait_bound(namespace, name, seconds))

    def grant(self, found: Raw) -> Granted:
        """What a pod holds, from its API object alone."""
        return grant(found)

    def refused(self, namespace: str, name: str, word: str = "", seconds: float = SECONDS) -> str:
        """Why a pod has no node, in kube-scheduler's event, as soon as that holds a word."""

        def sentence() -> str | None:
            said = [text for text in self.cluster.events(namespace, name) if text.startswith("FailedScheduling")]
            if not any(word in text for text in said):
                raise AssertionError(said or "no such event")
            return next(text for text in reversed(said) if word in text)

        found = wait_for(sentence, seconds, f"pod {namespace}/{name} is refused for {word!r}")
        if there := self.cluster.pod(namespace, name)["spec"].get("nodeName"):
            raise AssertionError(f"{name} is on {there}: {found}")
        return found

    def wait_for_event(self, namespace: str, name: str, reason: str, seconds: float = SECONDS) -> str:
        """Wait for an event of this reason about a pod; the last one."""

        def sentence() -> str | None:
            said = self.cluster.events(namespace, name)
            found = [text for text in said if text.startswith(f"{reason}: ")]
            if not found:
                raise AssertionError(said or "no events")
            return found[-1]

        return wait_for(sentence, seconds, f"event {reason} about {namespace}/{name}")

    def gone(self, namespace: str, *names: str) -> None:
        """Remove pods and wait until the service knows."""
        for name in names:
            self.cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}")

        def none_known() -> bool:
            left = {(found["metadata"]["namespace"], found["metadata"]["name"]) for found in self.snapshot()["pods"]}
            return not left & {(namespace, name) for name in names}

        wait_for(none_known, SECONDS, "the service has seen that pods are gone")

    def explain(self, namespace: str, name: str) -> str:
        """What the service says about a pod, line by line, as soon as it has seen it."""
        path = f"/debug/explain/{namespace}/{name}"
        return "\n".join(json.loads(wait_for(lambda: self.text(path), SECONDS, path))["lines"])

    def text(self, path: str) -> str:
        """What the service answers under a path."""
        status, content = self.serve.http.raw("GET", path)
        if status != 200:
            raise AssertionError(f"{path}: {status} {content.decode(errors='replace')}")
        return content.decode()

    def metric(self, name: str) -> float:
        """One of its numbers, by its name with labels as Prometheus writes it; 0 if it has none."""
        lines = dict(line.rsplit(" ", 1) for line in self.text("/metrics").splitlines() if not line.startswith("#"))
        return float(lines.get(name, 0))

    def snapshot(self) -> Raw:
        """All that the service knows."""
        return dict(json.loads(self.text("/debug/snapshot")))

    def unschedulable(self) -> set[str]:
        """The UIDs of pods that no node fits, as the service knows."""
        queue = self.snapshot()["state"].get("queue", [])
        pods = [queued["pod"] for queued in queue if queued["state"] in {"UNSCHEDULABLE", "WOKEN"}]
        return {pod if isinstance(pod, str) else pod["metadata"]["uid"] for pod in pods}

    def entries(self) -> list[Raw]:
        """The ledger of the service."""
        return list(self.snapshot()["state"].get("entries", []))

    def _left(self) -> set[tuple[str, str]]:
        """What the service knows and the API server does not."""
        known, api = self.snapshot(), self.cluster.api
        nodes = {("node", found["metadata"]["name"]) for found in known["nodes"]}
        nodes |= {("node", name) for name in known["objects"]}
        pods = {("pod", found["metadata"]["uid"]) for found in known["pods"]}
        there = {("node", found["metadata"]["name"]) for found in api.list("/api/v1/nodes")}
        return (nodes | pods) - there - {("pod", found["metadata"]["uid"]) for found in api.list("/api/v1/pods")}

    def _scheduler_sees_nodes(self) -> None:
        """A pod that wants nothing goes to the newest node: a scheduler that has seen that one has seen them all."""
        newest = max(self.cluster.api.list("/api/v1/nodes"), key=lambda node: int(node["metadata"]["resourceVersion"]))
        name, probe = newest["metadata"]["name"], f"probe-{newest['metadata']['resourceVersion']}"
        there = {"kubernetes.io/hostname": name}
        self.place("default", probe, nodeSelector=there, tolerations=[{"operator": "Exists"}])
        self.gone("default", probe)


@contextmanager
def running_service(
    cluster: Cluster,
    name: str,
    *,
    kubeconfig: Path | None = None,
    configuration: Mapping[str, object] | None = None,
    without: Iterable[str] = ("leader", "tenants"),
) -> Iterator[Serve]:
    """A service of the user linkwise under the shipped role, which outlasts a clearing; kube-scheduler asks it."""
    less = [word for feature in without for word in ("--without", feature)]
    role = printed("manifests", "rbac", "--user", "linkwise", "--name", f"e2e-{name}", *less)
    cluster.apply(role, "kube-system")
    serve = Serve(
        kubeconfig or cluster.kubeconfig("linkwise"), cluster.folder, name=f"serve-{name}", configuration=configuration
    )
    try:
        serve.start()
        way = ["--kubeconfig", str(cluster.kubeconfig("scheduler")), "--no-leader-elect"]
        cluster.scheduler.run(printed("config", "scheduler", "--url", serve.url, "--default-scheduler", *way))
        yield serve
    finally:
        cluster.scheduler.stop()
        serve.stop()
        cluster.kubectl("delete", "--ignore-not-found", "--filename", "-", stdin=role)


@contextmanager
def running_service_for_koordinator(
    cluster: Cluster, name: str, configuration: Mapping[str, object] | None = None
) -> Iterator[Serve]:
    """The same with Koordinator's kind of objects, which is looked for when the service starts."""
    cluster.define(device_definition())
    try:
        with running_service(cluster, name, configuration=configuration) as serve:
            yield serve
    finally:
        cluster.undefine(device_definition())


def printed(*words: str) -> str:
    """What the command line prints."""
    command = [sys.executable, "-m", "linkwise", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
