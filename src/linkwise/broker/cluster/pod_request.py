"""What a pod wants, in the words of whichever system it speaks, and the policy that this is placed by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkwise.broker.cluster.pod_request__policy_table import policy_of
from linkwise.dialects.groups.membership import group_of, may_have_group, owner_group
from linkwise.dialects.registry import owners, understand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.model.ask import Ask
    from linkwise.model.ask__group import Group
    from linkwise.model.verdict__problem import Problem
    from linkwise.model.views import PodView

__all__ = ["Wish", "asks_for_devices", "group_said", "wish_of"]


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
        return None if self.ask else next((found for found in self.problems if owners(found.key)), None)


def wish_of(pod: PodView, by_resource: Mapping[str, str], *, by_owner: bool = False) -> Wish:
    """What the pod says; `by_resource` and `by_owner` are the administrator's choice of policies and of groups."""
    said = understand(pod)
    group = group_said(pod, by_owner=True)[0] if by_owner else said.group
    if said.ask is None:
        return Wish(said.dialect, None, "", group, said.problems)
    policy, wrong = policy_of(pod, said.dialect, said.ask, in_group=group is not None, by_resource=by_resource)
    problems = (*said.problems, wrong) if wrong else said.problems
    return Wish(said.dialect, said.ask, policy, group, problems)


def group_said(pod: PodView, *, by_owner: bool) -> tuple[Group | None, tuple[Problem, ...]]:
    """The group of a pod, and what is wrong with its words; its owner counts where it says nothing and wants devices."""
    if may_have_group(pod):
        return group_of(pod)
    return (owner_group(pod), ()) if by_owner and pod.owner and asks_for_devices(pod) else (None, ())


def asks_for_devices(pod: PodView) -> bool:
    """Whether a container names any resource that some dialect owns: most pods do not, and are passed over quickly."""
    # rule 000.skip: a pod that asks for no managed device is not delayed, not scored, not changed.
    for container in pod.containers:
        for name in container.limits:
            if owners(name):
                return True
        for name in container.requests:
            if owners(name):
                return True
    return False
