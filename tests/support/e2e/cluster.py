"""Operations of tests on a cluster, our own or an external one."""

from __future__ import annotations

import subprocess
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import yaml

from support.e2e.api_client import Api, ApiError, in_parallel, marked, path_of
from support.e2e.cleanup import clear_marked
from support.e2e.config_files import USERS, scheduler_configuration
from support.e2e.processes import wait_for
from support.e2e.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from support.e2e.api_client import Raw

__all__ = ["Cluster"]

RBAC: Final = "rbac.authorization.k8s.io"


class Cluster:
    """What tests do with a cluster, their own or an external one."""

    own = False
    """whether its components can be killed and restarted"""

    def __init__(self, programs: Path, folder: Path, *scheduler_flags: str) -> None:
        self.programs, self.folder = programs, folder
        self._numbers = count(1)
        self._apis: dict[str, Api] = {}
        self.scheduler = Scheduler(programs, folder, self.kubeconfig("scheduler"), *scheduler_flags)

    @property
    def api(self) -> Api:
        """The administrator's connection."""
        return self.connect("admin")

    def connect(self, user: str) -> Api:
        """A user's connection, the same one every time."""
        if user not in self._apis:
            self._apis[user] = self.opened(user)
        return self._apis[user]

    def opened(self, user: str) -> Api:
        """A new connection of a user's."""
        raise NotImplementedError

    def kubeconfig(self, user: str) -> Path:
        """The file by which a user reaches the cluster."""
        raise NotImplementedError

    def scheduling(self, extender: str = "", **settings: Any) -> dict[str, object]:  # noqa: ANN401 - passed on
        """A configuration for `scheduler.run`: plain, or with an extender at this address."""
        return scheduler_configuration(self.kubeconfig("scheduler"), extender, **settings)

    def kubectl(self, *words: str, user: str = "admin", stdin: str = "") -> str:
        """What kubectl prints; AssertionError with its complaint if it fails."""
        code, output, complaint = self.run_kubectl(*words, user=user, stdin=stdin)
        if code:
            raise AssertionError(f"kubectl {' '.join(words)} ended with {code}: {complaint.strip()}")
        return output

    def run_kubectl(self, *words: str, user: str = "admin", stdin: str = "") -> tuple[int, str, str]:
        """The exit code of kubectl, what it prints, and its warnings and errors."""
        command = [str(self.programs / "kubectl"), f"--kubeconfig={self.kubeconfig(user)}", *words]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def apply(self, text: str, namespace: str = "default", user: str = "admin") -> str:
        """Apply YAML with kubectl; what does not name a namespace goes into this one."""
        return self.kubectl("apply", "--namespace", namespace, "--filename", "-", user=user, stdin=text)

    def create(self, things: Iterable[Mapping[str, Any]]) -> None:
        """Make many objects over a few connections, each labeled as an object of the tests."""
        in_parallel(self.api, [partial(Api.create, thing=marked(thing)) for thing in things])

    def install(self, path: Path) -> None:
        """Apply a file of custom resource definitions and wait until they are served."""
        self.kubectl("apply", "--server-side", "--filename", str(path))
        self.kubectl("wait", "--for=condition=Established", "--timeout=20s", "--filename", str(path))

    def define(self, definition: Mapping[str, Any]) -> None:
        """Make a custom resource definition and wait until its objects are served."""
        self.api.create(definition)
        path = f"/apis/{definition['spec']['group']}/{definition['spec']['versions'][0]['name']}"
        plural = definition["spec"]["names"]["plural"]
        wait_for(lambda: self.api.answers(f"{path}/{plural}"), 20, f"{plural} are served")

    def undefine(self, definition: Mapping[str, Any]) -> None:
        """Remove a custom resource definition with all its objects, and wait until it is gone."""
        self.api.delete(path_of(definition))
        wait_for(lambda: not self.api.answers(path_of(definition)), 20, "the definition is gone")

    def namespace(self) -> str:
        """A new namespace that is removed with the rest."""
        name = f"e2e-{next(self._numbers)}"
        try:
            self.api.create(marked({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        except ApiError as error:
            if error.status == 409:  # left by an earlier run
                return self.namespace()
            raise
        if not self.own:
            path = f"/api/v1/namespaces/{name}/serviceaccounts"
            wait_for(lambda: self.api.list(path), 20, f"service accounts of {name}")
        return name

    def grant(self, user: str, rules: Iterable[Mapping[str, object]]) -> None:
        """Give a user a cluster role of these rules, until the next clearing."""
        name = f"{user}-{next(self._numbers)}"
        about = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name}}
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
        role = {**about, "kind": "ClusterRole", "rules": list(rules)}
        self._give(user, [role, {**about, "kind": "ClusterRoleBinding", "roleRef": reference}])

    def grant_printed(self, user: str, manifest: str) -> None:
        """Give a user all roles that a manifest binds to a service account, until the next clearing.

        The role of the election is left out, whose namespace is not there: these services are single replicas.
        """
        things = [thing for thing in yaml.safe_load_all(manifest) if thing["apiVersion"].startswith(RBAC)]
        self._give(user, [thing for thing in things if thing["metadata"].get("namespace") != "linkwise-system"])

    def _give(self, user: str, things: Iterable[Raw]) -> None:
        """Roles and bindings as they are, but for their names and for whom they are; returns when they have effect."""
        subject = {"apiGroup": RBAC, "kind": "User", "name": USERS[user].name}
        for thing in things:
            renamed = {**thing, "metadata": {**thing["metadata"], "name": f"e2e-{thing['metadata']['name']}"}}
            if "roleRef" in thing:
                renamed["roleRef"] = {**thing["roleRef"], "name": f"e2e-{thing['roleRef']['name']}"}
                renamed["subjects"] = [subject]
            made = self.api.create(marked(renamed))
            if "roleRef" in thing:
                wait_for(partial(self._allowed, made), what=f"the roles of {user} have effect")

    def _allowed(self, binding: Raw) -> bool:
        """Whether the API server lets the user of a binding do what the first rule of its role allows."""
        within = binding["metadata"].get("namespace", "")
        where = f"/apis/{RBAC}/v1/{f'namespaces/{within}/roles' if within else 'clusterroles'}"
        rule = self.api.get(f"{where}/{binding['roleRef']['name']}")["rules"][0]
        resource, _, subresource = rule["resources"][0].partition("/")
        attributes = {
            "namespace": within,
            "verb": rule["verbs"][0],
            "group": rule["apiGroups"][0],
            "resource": resource,
            "subresource": subresource,
            "name": (rule.get("resourceNames") or [""])[0],
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": binding["subjects"][0]["name"], "resourceAttributes": attributes},
        }
        return bool(
            self.api.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]
        )

    def pod(self, namespace: str, name: str) -> Raw:
        """A pod as it is now."""
        return dict(self.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}"))

    def wait_bound(self, namespace: str, name: str, seconds: float = 10.0) -> Raw:
        """The pod as soon as it has a node; AssertionError with the last events of it after so many seconds."""

        def bound() -> Raw | None:
            pod = self.pod(namespace, name)
            if not pod["spec"].get("nodeName"):
                raise AssertionError(self.events(namespace, name) or "no events")
            return pod

        return wait_for(bound, seconds, f"pod {namespace}/{name} gets a node")

    def events(self, namespace: str, name: str) -> list[str]:
        """What was said about an object, the newest last."""
        path = f"/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.name%3D{name}"
        found = sorted(self.api.list(path), key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [f"{event.get('reason')}: {event.get('message')}" for event in found]

    def clear(self) -> None:
        """Remove what tests have made."""
        clear_marked(self.api)

    def close(self) -> None:
        """End what was started, the last first."""
        self.scheduler.stop()
        for api in self._apis.values():
            api.close()
