"""Access: reviews of tokens and permissions, impersonation, and RBAC for users who are not administrators."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from support.embedded.conformance import pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from support.e2e.api_client import Api
    from support.embedded.conformance import Space

from contextlib import contextmanager

AUTHENTICATION = "/apis/authentication.k8s.io/v1"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
RBAC = "rbac.authorization.k8s.io"
RULES = f"{RBAC}/v1"


def review(api: Api, path: str, kind: str, **spec: object) -> dict[str, Any]:
    version = path.removeprefix("/apis/").split("/namespaces")[0].rpartition("/")[0]
    document = {"apiVersion": version, "kind": kind, "spec": spec}
    return dict(api.call("POST", path, document)["status"])


def grant(space: Space, role: str, kind: str, name: str, **more: str) -> None:
    """Bind a ClusterRole in the namespace."""
    subject = {"kind": kind, "name": name, **({"apiGroup": RBAC} if kind != "ServiceAccount" else {}), **more}
    space.make(
        "rolebindings",
        {
            "apiVersion": RULES,
            "kind": "RoleBinding",
            "metadata": {"generateName": "test-"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [subject],
        },
        group=RULES,
    )


def acting(space: Space, user: str, group: str = "") -> AbstractContextManager[Api]:
    @contextmanager
    def opened() -> Iterator[Api]:
        api = space.api.acting_as(user, group)
        yield api
        api.close()

    return opened()


def may(space: Space, api: Api, verb: str, resource: str, **more: str) -> bool:
    attributes = {"namespace": space.name, "verb": verb, "resource": resource, **more}
    path = f"{AUTHORIZATION}/selfsubjectaccessreviews"
    return bool(review(api, path, "SelfSubjectAccessReview", resourceAttributes=attributes)["allowed"])


def test_an_unknown_token_is_not_authenticated(space: Space) -> None:
    status = review(space.api, f"{AUTHENTICATION}/tokenreviews", "TokenReview", token="unknown")  # noqa: S106 - of no user
    assert not status.get("authenticated")
    assert status["user"] == {}
    assert "invalid bearer token" in status["error"]


def test_the_token_of_a_service_account_is_reviewed_as_its_user(space: Space) -> None:
    about = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    space.make("serviceaccounts", about)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = space.call("POST", space.path("serviceaccounts", "robot", "token"), request)["status"]["token"]
    user = review(space.api, f"{AUTHENTICATION}/tokenreviews", "TokenReview", token=token)["user"]
    assert user["username"] == f"system:serviceaccount:{space.name}:robot"
    groups = {"system:serviceaccounts", f"system:serviceaccounts:{space.name}", "system:authenticated"}
    assert set(user["groups"]) == groups


def test_a_service_account_may_do_what_it_is_granted(space: Space) -> None:
    space.make("serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    grant(space, "view", "ServiceAccount", "robot", namespace=space.name)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = space.call("POST", space.path("serviceaccounts", "robot", "token"), request)["status"]["token"]
    robot = space.api.another(token)
    space.until(lambda: robot.raw("GET", space.path("pods"))[0] == 200, "the role is granted")
    assert robot.raw("DELETE", space.path("pods"))[0] == 403
    robot.close()


def test_a_client_can_ask_who_it_is(space: Space) -> None:
    with acting(space, "jane", "team") as jane:
        user = review(jane, f"{AUTHENTICATION}/selfsubjectreviews", "SelfSubjectReview")["userInfo"]
    assert user["username"] == "jane"
    assert set(user["groups"]) == {"team", "system:authenticated"}


def test_an_impersonated_service_account_is_in_its_groups(space: Space) -> None:
    with acting(space, f"system:serviceaccount:{space.name}:robot") as robot:
        user = review(robot, f"{AUTHENTICATION}/selfsubjectreviews", "SelfSubjectReview")["userInfo"]
    groups = {"system:serviceaccounts", f"system:serviceaccounts:{space.name}", "system:authenticated"}
    assert set(user["groups"]) == groups


def test_a_user_without_a_role_may_do_nothing(space: Space) -> None:
    with acting(space, "jane") as jane:
        status = json.loads(jane.raw("GET", space.path("pods"))[1])
        named = json.loads(jane.raw("DELETE", space.path("pods", "a"))[1])
        nodes = json.loads(jane.raw("GET", "/api/v1/nodes")[1])
    cannot = f'User "jane" cannot list resource "pods" in API group "" in the namespace "{space.name}"'
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"] == f"pods is forbidden: {cannot}"
    assert status["details"] == {"kind": "pods"}
    cannot = f'User "jane" cannot delete resource "pods" in API group "" in the namespace "{space.name}"'
    assert named["message"] == f'pods "a" is forbidden: {cannot}'
    assert nodes["message"].endswith('cannot list resource "nodes" in API group "" at the cluster scope')


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("view", {"get pods", "list pods", "get pods/log", "get configmaps"}),
        (
            "edit",
            {
                *("get pods", "list pods", "get pods/log", "get configmaps"),
                *("create pods", "delete pods", "get secrets", "create pods/eviction", "get services/proxy"),
            },
        ),
        (
            "admin",
            {
                *("get pods", "list pods", "get pods/log", "get configmaps"),
                *("create pods", "delete pods", "get secrets", "create pods/eviction", "get services/proxy"),
                "create roles",
            },
        ),
    ],
)
def test_the_usual_roles_have_their_usual_permissions(space: Space, role: str, allowed: set[str]) -> None:
    grant(space, role, "User", "jane")
    asked = {
        *("get pods", "list pods", "get pods/log", "get configmaps", "create pods", "delete pods", "get secrets"),
        *("create pods/eviction", "get services/proxy", "create roles", "create pods/binding", "get nodes"),
    }
    with acting(space, "jane") as jane:
        space.until(lambda: may(space, jane, "get", "pods"), "the role is granted")
        found = set()
        for question in asked:
            verb, _, resource = question.partition(" ")
            resource, _, part = resource.partition("/")
            group = RBAC if resource == "roles" else ""
            if may(space, jane, verb, resource, subresource=part, group=group):
                found.add(question)
    assert found == allowed


def test_a_role_of_a_namespace_ends_at_its_border(space: Space) -> None:
    grant(space, "edit", "Group", "team")
    with acting(space, "jane", "team") as jane:
        space.until(lambda: may(space, jane, "create", "pods"), "the role is granted")
        made = jane.call("POST", space.path("pods"), pod("a"))
        assert made["metadata"]["name"] == "a"
        assert jane.raw("GET", "/api/v1/namespaces/default/pods")[0] == 403
        assert jane.raw("GET", "/api/v1/pods")[0] == 403
        assert jane.raw("GET", f"/api/v1/namespaces/{space.name}")[0] == 200
        assert jane.raw("GET", "/api/v1")[0] == 200


def test_a_role_can_name_its_objects(space: Space) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get"]}]
    about = {"apiVersion": RULES, "metadata": {"name": "reader"}}
    space.make("roles", {**about, "kind": "Role", "rules": rules}, group=RULES)
    reference = {"apiGroup": RBAC, "kind": "Role", "name": "reader"}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": "jane"}]
    space.make(
        "rolebindings", {**about, "kind": "RoleBinding", "roleRef": reference, "subjects": subjects}, group=RULES
    )
    for name in ("a", "b"):
        space.config(name)
    with acting(space, "jane") as jane:
        space.until(lambda: may(space, jane, "get", "configmaps", name="a"), "the role is granted")
        assert [jane.raw("GET", space.path("configmaps", name))[0] for name in ("a", "b")] == [200, 403]


def test_a_taken_role_has_no_effect_any_more(space: Space) -> None:
    grant(space, "view", "User", "jane")
    with acting(space, "jane") as jane:
        space.until(lambda: jane.raw("GET", space.path("pods"))[0] == 200, "the role is granted")
        space.call("DELETE", space.path("rolebindings", group=RULES))
        space.until(lambda: jane.raw("GET", space.path("pods"))[0] == 403, "the role is taken")


def test_permissions_of_others_are_reviewed(space: Space) -> None:
    grant(space, "view", "User", "jane")
    attributes = {"namespace": space.name, "verb": "get", "resource": "pods", "name": "a"}
    path = f"{AUTHORIZATION}/subjectaccessreviews"

    def status(**spec: object) -> dict[str, Any]:
        return review(space.api, path, "SubjectAccessReview", resourceAttributes=attributes, **spec)

    space.until(lambda: status(user="jane")["allowed"], "the role is granted")
    assert "RBAC: allowed by RoleBinding" in status(user="jane")["reason"]
    assert status(user="joe")["allowed"] is False
    assert status(user="joe", groups=["system:masters"])["allowed"] is True


def test_only_some_may_review_tokens_and_permissions(space: Space) -> None:
    attributes = {"namespace": space.name, "verb": "get", "resource": "pods"}
    with acting(space, "jane") as jane:
        for path, kind in ((AUTHENTICATION, "TokenReview"), (AUTHORIZATION, "SubjectAccessReview")):
            document = {
                "apiVersion": path.removeprefix("/apis/"),
                "kind": kind,
                "spec": {"user": "x", "token": "y", "resourceAttributes": attributes},
            }
            body = json.dumps(document).encode()
            assert jane.raw("POST", f"{path}/{kind.lower()}s", body, "application/json")[0] == 403


def test_a_review_is_not_stored(space: Space) -> None:
    assert space.api.raw("GET", f"{AUTHORIZATION}/subjectaccessreviews")[0] == 405
