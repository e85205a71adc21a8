"""All dialects, and what a pod says in any of them.

The names of all resources that a pod can ask for, by the dialect whose word it is.
"""
# Joined from registry, resources: one docstring for all.

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.dialects import aliyun, amd
from linkwise.dialects.aliyun import Aliyun
from linkwise.dialects.amd import Amd
from linkwise.dialects.ascend import node as ascend_node
from linkwise.dialects.ascend.dialect import Ascend
from linkwise.dialects.dialect import Held, where_pod
from linkwise.dialects.groups.membership import group_of, may_have_group
from linkwise.dialects.koordinator import quantities as koordinator_quantities
from linkwise.dialects.koordinator.dialect import Koordinator
from linkwise.dialects.linkwise.dialect import Linkwise
from linkwise.dialects.nvidia import dialect as nvidia
from linkwise.dialects.nvidia.dialect import Nvidia
from linkwise.dialects.pod_resources import amount, resources_of
from linkwise.errors import InputError
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.dialects.dialect import Dialect
    from linkwise.model.ask import Ask, Group
    from linkwise.model.views import ContainerView, PodView

__all__ = ["DIALECTS", "NATIVE", "RESOURCES", "Understood", "held_by", "is_native", "owners", "understand"]

# One line a dialect. Our own record is read first: it is the only one that holds everything.
DIALECTS: Final[tuple[Dialect, ...]] = (
    Linkwise(),
    Nvidia(),
    Koordinator(),
    Ascend(),
    Aliyun(),
    Amd(),
)


@dataclass(frozen=True, slots=True)
class Understood:
    """What a pod says: at most one ask, in one dialect's words; group words go with any of them."""

    dialect: str = ""
    ask: Ask | None = None
    group: Group | None = None
    problems: tuple[Problem, ...] = ()


def understand(pod: PodView) -> Understood:
    """What the pod wants and which group it belongs to; what makes no sense is a problem, never a guess."""
    group, problems = group_of(pod) if may_have_group(pod) else (None, ())
    owned = [name for name in resources_of(pod) if owners(name)]
    wanted = [name for name in owned if any(_asks_for(container, name) for container in pod.containers)]
    if not wanted:
        return Understood("", None, group, problems)
    speaking = {dialect for name in wanted for dialect in owners(name)}
    if len(speaking) > 1 and not pod.claims:
        names = [dialect.name for dialect in DIALECTS if dialect in speaking]
        last = next(name for name in reversed(owned) if not speaking.isdisjoint(owners(name)))
        mixed = Problem(
            where_pod(pod), last, f"devices are asked for in the words of {' and '.join(names)}; use one of them"
        )
        return Understood("", None, group, (*problems, mixed))
    dialect = next(dialect for dialect in DIALECTS if dialect in speaking)
    ask = dialect.ask(pod)
    if isinstance(ask, Problem):
        return Understood(dialect.name, None, group, (*problems, ask))
    return Understood(dialect.name, ask, group, problems)


@lru_cache(maxsize=4096)
def owners(resource: str) -> tuple[Dialect, ...]:
    """The dialects that the name of a resource belongs to."""
    return tuple(dialect for dialect in DIALECTS if dialect.owns(resource))


def _asks_for(container: ContainerView, resource: str) -> bool:
    """Whether more than nothing of it is named; what is no number at all is for the dialect to report."""
    try:
        return amount(container, resource) > 0
    except InputError:
        return True


def held_by(pod: PodView) -> Held:
    """What the pod was given: by our own record if it has one, else by the words of the system it speaks."""
    problems: list[Problem] = []
    for dialect in DIALECTS:
        held = dialect.held(pod)
        problems += held.problems
        if held.grant is not None:
            return Held(held.grant, tuple(problems))
    return Held(None, tuple(problems))


# One line a dialect. Parts of Ascend chips are patterns, not names: no list can hold them.
RESOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "nvidia": (nvidia.RESOURCE, nvidia.OLD_RESOURCE),
    "koordinator": tuple(sorted(koordinator_quantities.OWNED)),
    "ascend": tuple(ascend_node.PROFILES),
    "aliyun": (aliyun.MEMORY, aliyun.COUNT),
    "amd": (amd.RESOURCE,),
}


def is_native(name: str) -> bool:
    """Whether kube-scheduler takes the name for one of Kubernetes' own, and refuses it in managedResources."""
    return "/" not in name or "kubernetes.io/" in name


NATIVE: Final = tuple(name for names in RESOURCES.values() for name in names if is_native(name))
"""names that managedResources can't have"""
