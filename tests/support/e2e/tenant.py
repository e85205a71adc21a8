"""User tenant of a real cluster: what the owner of pods reads about them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from support.e2e.processes import wait_for

if TYPE_CHECKING:
    from support.e2e.api_client import Raw
    from support.e2e.service import Placing

__all__ = ["Tenant"]

CONDITION: Final = "linkwise.dev/Schedulable"
SECONDS: Final = 30.0


@dataclass(frozen=True)
class Tenant:
    """The user in one of its namespaces."""

    placing: Placing
    namespace: str

    def command(self, *words: str, user: str = "tenant") -> subprocess.CompletedProcess[str]:
        """What the command line prints for the tenant, or for another user."""
        kubeconfig = str(self.placing.cluster.kubeconfig(user))
        command = [sys.executable, "-m", "linkwise", *words, "--kubeconfig", kubeconfig]
        wide = {**os.environ, "COLUMNS": "300"}
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=wide)

    def condition(self, name: str) -> Raw:
        """Our condition of a pod; empty if it has none."""
        found = self.placing.cluster.connect("tenant").get(f"/api/v1/namespaces/{self.namespace}/pods/{name}")
        conditions = {each["type"]: each for each in found["status"].get("conditions", [])}
        return dict(conditions.get(CONDITION, {}))

    def wait_condition(self, name: str, reason: str) -> Raw:
        """The condition as soon as it has a reason."""

        def there() -> Raw | None:
            found = self.condition(name)
            if found.get("reason") != reason:
                raise AssertionError(found or "no condition")
            return found

        return wait_for(there, SECONDS, f"the condition of {name} is {reason}")

    def events(self, name: str) -> list[str]:
        """Our own events about a pod."""
        said = self.placing.cluster.events(self.namespace, name)
        return [text.removeprefix("Pending: ") for text in said if text.startswith("Pending: ")]
