"""Audit of a user: the rights that its role grants, and those by which its calls were let through."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import yaml

from support.e2e.config_files import write_json

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from support.e2e.api_client import Raw

__all__ = ["Right", "Trail", "audit_flags", "granted_by", "right", "trail_of"]

Right = tuple[str, str, str, str]
"""namespace or nothing, API group, resource, verb"""

LOG: Final = "audit.jsonl"


@dataclass(frozen=True, slots=True)
class Trail:
    """What a program did that had a lot to do, as the API server has logged it."""

    granted: set[Right]
    calls: list[Raw]

    @property
    def used(self) -> set[Right]:
        """Rights by which calls were let through, as the role writes them."""
        found = {right(call["verb"], call["objectRef"]) for call in self.calls if "objectRef" in call}
        namespaces = {one[1:]: one[0] for one in self.granted}
        return {(namespaces.get(one[1:], "") and one[0], *one[1:]) for one in found}

    @property
    def refused(self) -> list[tuple[str, str]]:
        """Verb and path of calls that the role does not allow."""
        forbidden = [call for call in self.calls if call["responseStatus"].get("code") == 403]
        return [(call["verb"], call["requestURI"]) for call in forbidden]


def audit_flags(folder: Path, *users: str) -> list[str]:
    """Flags of an API server that logs every call of these users in this folder."""
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": list(users)}, {"level": "None"}],
    }
    file = write_json(folder / "audit.json", policy)
    return [f"--audit-policy-file={file}", f"--audit-log-path={folder / LOG}"]


def trail_of(role: str, folder: Path, user: str = "") -> Trail:
    """The calls that were logged, of one user if it is named, and the rights of a role as it is printed."""
    calls = [json.loads(line) for line in (folder / LOG).read_text().splitlines()]
    own = [call for call in calls if not user or call["user"]["username"] == user]
    return Trail(granted_by(yaml.safe_load_all(role)), own)


def granted_by(things: Iterable[Raw]) -> set[Right]:
    """The rights of roles."""
    return {
        (thing["metadata"].get("namespace", ""), group, resource, verb)
        for thing in things
        for rule in thing.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def right(verb: str, about: Raw) -> Right:
    """The right that a call needs, by what the audit says it is about."""
    resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
    return about.get("namespace", ""), about.get("apiGroup", ""), resource, verb
