"""RBAC authorizer: evaluates the stored Roles, ClusterRoles and their bindings.

Members of system:masters may do everything. There are no aggregated ClusterRoles, and users who may write roles may grant
more than they have themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from linkwise.embedded.kinds.cluster_roles import RBAC
from linkwise.embedded.kinds.object_types import ApiType
from linkwise.embedded.users import MASTERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.embedded.storage.collection import Change, Collection
    from linkwise.embedded.storage.database import Database
    from linkwise.model.access_policy import Requester

__all__ = ["Access", "Authorizer", "PolicyRule"]

_CLUSTER_ROLES: Final = f"clusterroles.{RBAC}"
_CLUSTER_BINDINGS: Final = f"clusterrolebindings.{RBAC}"
_ROLES: Final = f"roles.{RBAC}"
_BINDINGS: Final = f"rolebindings.{RBAC}"


@dataclass(frozen=True, slots=True)
class Access:
    """What a request does: a verb on a resource, or on a path that is not a resource."""

    verb: str
    group: str = ""
    resource: str = ""
    """plural; empty for a path"""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class PolicyRule(ApiType, frozen=True):
    """A rule of a role."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")

    def allows(self, access: Access) -> bool:
        """Whether the rule allows this."""
        if "*" not in self.verbs and access.verb not in self.verbs:
            return False
        if access.path:
            return any(_path_matches(pattern, access.path) for pattern in self.non_resource_urls)
        if "*" not in self.api_groups and access.group not in self.api_groups:
            return False
        if self.resource_names and access.name not in self.resource_names:
            return False
        part = access.subresource
        wanted = {"*", f"{access.resource}/{part}", f"*/{part}"} if part else {"*", access.resource}
        return any(resource in wanted for resource in self.resources)


def _path_matches(pattern: str, path: str) -> bool:
    return pattern in {"*", path} or (pattern.endswith("*") and path.startswith(pattern[:-1]))


class _Subject(ApiType, frozen=True):
    kind: str = ""
    name: str = ""
    namespace: str = ""

    def includes(self, requester: Requester, binding_namespace: str) -> bool:
        if self.kind == "Group":
            return self.name in requester.groups
        if self.kind == "ServiceAccount":
            return requester.user == f"system:serviceaccount:{self.namespace or binding_namespace}:{self.name}"
        return self.kind == "User" and self.name == requester.user


class _RoleReference(ApiType, frozen=True):
    kind: str = ""
    name: str = ""


class _BindingObject(ApiType, frozen=True):
    role_ref: _RoleReference = _RoleReference()
    subjects: tuple[_Subject, ...] = ()


class _RoleObject(ApiType, frozen=True):
    rules: tuple[PolicyRule, ...] = ()


@dataclass(frozen=True, slots=True)
class _Grant:
    """A binding with the rules of its role."""

    description: str
    namespace: str
    """empty for the whole cluster"""
    subjects: tuple[_Subject, ...]
    rules: tuple[PolicyRule, ...]


class Authorizer:
    """Answers whether a user may do something."""

    def __init__(self, database: Database) -> None:
        self._roles, self._cluster_roles, self._bindings, self._cluster_bindings = (
            database.collection(database.kinds.by_name(name))
            for name in (_ROLES, _CLUSTER_ROLES, _BINDINGS, _CLUSTER_BINDINGS)
        )
        self._grants: list[_Grant] | None = None
        """decoded at the first request after a change"""
        for collection in (self._roles, self._cluster_roles, self._bindings, self._cluster_bindings):
            collection.listeners.add(self._forget)

    def allows(self, requester: Requester, access: Access) -> bool:
        """Whether a user may do this."""
        return self.reason(requester, access) is not None

    def reason(self, requester: Requester, access: Access) -> str | None:
        """Why a user may do this; None if not."""
        if MASTERS in requester.groups:
            return ""
        for grant, subject in self._grants_of(requester, access.namespace):
            if any(rule.allows(access) for rule in grant.rules):
                to = f"{subject.kind} {msgspec.json.encode(subject.name).decode()}"
                return f"RBAC: allowed by {grant.description} to {to}"
        return None

    def rules(self, requester: Requester, namespace: str) -> list[PolicyRule]:
        """All rules that a user has in a namespace."""
        return [rule for grant, _ in self._grants_of(requester, namespace) for rule in grant.rules]

    def _grants_of(self, requester: Requester, namespace: str) -> Iterator[tuple[_Grant, _Subject]]:
        if self._grants is None:
            self._grants = [*self._read(self._cluster_bindings), *self._read(self._bindings)]
        for grant in self._grants:
            if not grant.namespace or grant.namespace == namespace:
                for subject in grant.subjects:
                    if subject.includes(requester, grant.namespace):
                        yield grant, subject
                        break

    def _read(self, bindings: Collection) -> Iterator[_Grant]:
        for stored in bindings.page():
            binding = msgspec.json.decode(stored.data, type=_BindingObject)
            reference = binding.role_ref
            if reference.kind == "ClusterRole":
                role = self._cluster_roles.objects.get(("", reference.name))
            else:
                role = self._roles.objects.get((stored.namespace, reference.name))
            if role is None:
                continue
            where = (
                f'RoleBinding "{stored.name}/{stored.namespace}"'
                if stored.namespace
                else (f'ClusterRoleBinding "{stored.name}"')
            )
            description = f'{where} of {reference.kind} "{reference.name}"'
            rules = msgspec.json.decode(role.data, type=_RoleObject).rules
            yield _Grant(description, stored.namespace, binding.subjects, rules)

    def _forget(self, _: Change) -> None:
        self._grants = None
