"""Helpers of the conformance tests, which every API server must pass: a namespace per test and short request methods.

Known differences between the embedded server and kube-apiserver, which no conformance test covers:

- Watches and lists can use the last ten thousand changes of each resource; kube-apiserver keeps about five minutes.
- Bookmarks are sent exactly once a minute, and before a watch that allows them times out.
- When an object stops matching a selector, the DELETED event has its new state, not the previous one.
- A list at a future resourceVersion fails immediately, not after three seconds.
- A Binding without a node is invalid (422); kube-apiserver returns 500. The same holds for non-numeric resourceVersions, and
  for creating objects with a resourceVersion.
- managedFields are not tracked: server-side apply never conflicts, and only removes fields that the same manager applied.
- RBAC does not prevent escalation, ClusterRoles are not aggregated, and of several Impersonate-Group headers the last counts.
- matchConditions count as met, and ValidatingAdmissionPolicies have no effect: there is no CEL interpreter.
- A review of a patch has UpdateOptions, one of a scale has the workload, and webhooks are not called for reviews of access.
- Type errors in fields have another message, and quantities are not normalized (1000m stays 1000m).
- Versions of a custom resource differ only in their name; conversion webhooks, CEL rules and schema defaults have no effect.
- Of CEL selectors of devices only quotes and brackets are checked at creation. Taints and capacities of devices have fewer rules.
- Resources without a controller stay as written: Services get no address, quotas count nothing.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from support.e2e.api_client import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.e2e.api_client import Api, Raw

__all__ = ["JSON_PATCH", "MERGE", "STRATEGIC", "Space", "gated", "pod"]

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"
_PATIENCE: Final = 100.0  # seconds


def pod(name: str, *, limits: Raw | None = None, labels: Raw | None = None, **spec: Any) -> Raw:  # noqa: ANN401 - JSON
    """A pod of one container, for a scheduler that does not run: on a real cluster no other writer changes it."""
    container = {"name": "main", "image": "example.com/none:1", "resources": {"limits": limits or {}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [container], "schedulerName": "none", **spec},
    }


def gated(name: str, *gates: str) -> Raw:
    """A pod that waits to be let go."""
    return pod(name, schedulingGates=[{"name": gate} for gate in gates or ("example.com/wait",)])


@dataclass(slots=True)
class Space:
    """A namespace that no other test uses."""

    api: Api
    name: str

    def path(self, plural: str, name: str = "", part: str = "", group: str = "") -> str:
        """Where something of the namespace is; `group` has its version behind a slash."""
        root = f"/apis/{group}" if group else "/api/v1"
        return "/".join(filter(None, [f"{root}/namespaces/{self.name}/{plural}", name, part]))

    def make(self, plural: str, document: Raw, group: str = "", query: str = "") -> Raw:
        """Create something."""
        return self.call("POST", self.path(plural, group=group) + query, document)

    def config(self, name: str, labels: Raw | None = None, **data: str) -> Raw:
        """Create a ConfigMap, with a label by which tests find theirs."""
        mine = {"ours": "yes", **(labels or {})}
        about = {"name": name, "labels": mine}
        return self.make("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data})

    def get(self, plural: str, name: str, part: str = "") -> Raw:
        """Read something."""
        return self.call("GET", self.path(plural, name, part))

    def names(self, plural: str, query: str) -> list[str]:
        """The names in a list."""
        return [found["metadata"]["name"] for found in self.call("GET", f"{self.path(plural)}?{query}")["items"]]

    def patch(self, plural: str, name: str, change: object, how: str = MERGE, part: str = "") -> Raw:
        """Change something."""
        return self.call("PATCH", self.path(plural, name, part), change, how)

    def bind(self, name: str, node: str = "somewhere", **meta: Any) -> Raw:  # noqa: ANN401 - JSON
        """Give a pod to a node."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        return self.call(
            "POST",
            self.path("pods", name, "binding"),
            {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **meta}, "target": target},
        )

    def call(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Raw:
        """Any request; ApiError if it is refused."""
        return dict(self.api.call(method, path, body, kind))

    def refused(self, method: str, path: str, body: object = None, kind: str = "application/json") -> ApiError:
        """How a request is refused; AssertionError if it is not."""
        try:
            self.api.call(method, path, body, kind)
        except ApiError as error:
            return error
        raise AssertionError(f"{method} {path} was not refused")

    def status(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Raw:
        """The whole answer, as JSON."""
        raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        return dict(json.loads(self.api.raw(method, path, raw, kind)[1]))

    @contextmanager
    def watch_all(self, path: str, accept: str = "application/json") -> Iterator[Iterator[Raw]]:
        """A watch of ConfigMaps that begins with what is there, which must be something.

        A server whose watches lag behind its writes asks to be asked again. One that was restarted may lag for minutes, until
        something of the same kind is written.
        """
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            with self.api.watch(path, accept) as lines:
                first = next(lines)
                if first["type"] != "ERROR" or first["object"]["code"] != 504:
                    yield chain([first], lines)
                    return
            about = {"generateName": "not-watched-"}
            self.make("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about})
        raise AssertionError(f"watches lag behind writes for more than {_PATIENCE:g} s: {first['object']['message']}")

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait for what controllers do."""
        end = time.monotonic() + _PATIENCE
        while not holds():
            if time.monotonic() > end:
                raise AssertionError(f"not within {_PATIENCE:g} s: {what}")
            time.sleep(0.02)

    def is_gone(self, plural: str, name: str, group: str = "") -> bool:
        """Whether something is not there."""
        return self.api.raw("GET", self.path(plural, name, group=group))[0] == 404
