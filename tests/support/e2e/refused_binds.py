"""Admission policy that makes the API server refuse binds to some nodes."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from support.e2e.api_client import ApiError, path_of
from support.e2e.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster

__all__ = ["binds_refused"]

NAME: Final = "e2e-binds"
VERSION: Final = "admissionregistration.k8s.io/v1"
SENTENCE: Final = "no pods for this node today"


@contextmanager
def binds_refused(cluster: Cluster, nodes: Collection[str]) -> Iterator[None]:
    """The API server refuses to bind any pod to these nodes, until the end; no scheduler knows."""
    things = _policy(nodes)
    for thing in things:
        cluster.api.create(thing)
    try:
        wait_for(lambda: all(_refuses(cluster, node) for node in nodes), 20, "binds are refused")
        yield
    finally:
        for thing in reversed(things):
            cluster.api.delete(path_of(thing))
        wait_for(lambda: not any(_refuses(cluster, node) for node in nodes), 20, "binds are not refused any more")


def _policy(nodes: Collection[str]) -> list[Raw]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    check = {"expression": f"!(object.target.name in {json.dumps(sorted(nodes))})", "message": SENTENCE}
    policy = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}, "validations": [check]}
    about = {"apiVersion": VERSION, "metadata": {"name": NAME}}
    return [
        {**about, "kind": "ValidatingAdmissionPolicy", "spec": policy},
        {
            **about,
            "kind": "ValidatingAdmissionPolicyBinding",
            "spec": {"policyName": NAME, "validationActions": ["Deny"]},
        },
    ]


def _refuses(cluster: Cluster, node: str) -> bool:
    """Whether a bind of a pod that is not there is refused for the node's sake."""
    about = {"name": "unknown", "namespace": "default"}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    bind = {"apiVersion": "v1", "kind": "Binding", "metadata": about, "target": target}
    try:
        cluster.api.call("POST", "/api/v1/namespaces/default/pods/unknown/binding", bind)
    except ApiError as error:
        return SENTENCE in error.message
    return False
