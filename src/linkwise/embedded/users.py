"""Users of the API server: bearer tokens, and the identities of the components in this process."""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING, Final

from linkwise.model.access_policy import Requester

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ADMIN",
    "ANONYMOUS",
    "AUTHENTICATED",
    "MASTERS",
    "Tokens",
    "controller",
    "service_account",
    "with_implied_groups",
]

MASTERS: Final = "system:masters"
"""group whose members may do everything"""
AUTHENTICATED: Final = "system:authenticated"
ADMIN: Final = Requester("kubernetes-admin", (MASTERS, AUTHENTICATED))
ANONYMOUS: Final = Requester("system:anonymous", ("system:unauthenticated",))
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"


def service_account(namespace: str, name: str) -> Requester:
    """The user of a ServiceAccount."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return Requester(f"{_SERVICE_ACCOUNT}{namespace}:{name}", groups)


def controller(name: str) -> Requester:
    """The user of a controller of the controller manager."""
    return service_account("kube-system", name)


def with_implied_groups(user: str, groups: tuple[str, ...]) -> Requester:
    """A user with the groups that the API server adds to those of an impersonated user."""
    if user.startswith(_SERVICE_ACCOUNT) and not groups and user.count(":") == 3:
        return service_account(*user.split(":")[2:])
    return Requester(user, groups if AUTHENTICATED in groups else (*groups, AUTHENTICATED))


class Tokens:
    """Bearer tokens and their users."""

    def __init__(self, users: Mapping[str, Requester]) -> None:
        self._users = {token.encode(): requester for token, requester in users.items()}

    def add(self, requester: Requester, token: str = "") -> str:
        """Accept a token for a user, by default a generated one; returns the token."""
        token = token or secrets.token_urlsafe(24)
        self._users[token.encode()] = requester
        return token

    def find(self, token: str) -> Requester | None:
        """The user of a token; None if it is unknown."""
        presented = token.encode("latin-1", "replace")
        for known, requester in self._users.items():
            if hmac.compare_digest(presented, known):
                return requester
        return None
