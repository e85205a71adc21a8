"""What a pod wants, in the words of whichever system it speaks, and the policy that this is placed by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from linkwise.broker.policy_table import policy_of
from linkwise.dialects.registry import DIALECTS, understand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.ask import Ask
    from linkwise.model.group import Group
    from linkwise.model.problem import Problem
    from linkwise.model.views import PodView

__all__ = ["Wish", "asks_for_devices", "wish_of"]


@dataclass(frozen=True, slots=True)
class Wish:
    """An ask that can be put to nodes, or what is wrong with it."""

    dialect: str = ""
    ask: Ask | None = None
    policy: str = ""
    group: Group | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def broken(self) -> Problem | None:
        """What keeps devices that are asked for from being understood; what a group's words lack stops nobody."""
        return None if self.ask else next((found for found in self.problems if _owned(found.key)), None)


def wish_of(pod: PodView, by_resource: Mapping[str, str]) -> Wish:
    """What the pod says; `by_resource` is the administrator's choice of policies."""
    said = understand(pod)
    if said.ask is None:
        return Wish(said.dialect, None, "", said.group, said.problems)
    policy, wrong = policy_of(pod, said.dialect, said.ask, in_group=said.group is not None, by_resource=by_resource)
    problems = (*said.problems, wrong) if wrong else said.problems
    return Wish(said.dialect, said.ask, policy, said.group, problems)


def asks_for_devices(pod: PodView) -> bool:
    """Whether a container names any resource that some dialect owns: most pods do not, and are passed over quickly."""
    # rule 000.skip: a pod that asks for no managed device is not delayed, not scored, not changed.
    for container in pod.containers:
        for name in container.limits:
            if _owned(name):
                return True
        for name in container.requests:
            if _owned(name):
                return True
    return False


@lru_cache(maxsize=4096)
def _owned(resource: str) -> bool:
    return any(dialect.owns(resource) for dialect in DIALECTS)
