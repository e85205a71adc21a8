"""Builders of pods with Koordinator's keys, and of the record of a grant on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.dialects.dialect import Writing
from linkwise.dialects.koordinator.dialect import Koordinator
from linkwise.model.device import Device
from linkwise.model.verdict import Grant, Offer
from linkwise.model.views import ContainerView, PodView
from support.properties.broker_invariants import must

if TYPE_CHECKING:
    from linkwise.dialects.dialect import Held
    from linkwise.model.verdict import Part

__all__ = ["DEVICES", "DIALECT", "box", "granted", "held", "keys", "pod", "written"]

DIALECT: Final = Koordinator()
DEVICES: Final = {f"GPU-{n}": Device(f"GPU-{n}", n, minor=7 - n) for n in range(8)}
"""numbers that are not minors, as on machines whose bus order differs"""


def box(name: str = "main", *, init: bool = False, sidecar: bool = False, **words: str) -> ContainerView:
    """A container that asks for so much."""
    amounts = {f"koordinator.sh/{word.replace('_', '-')}": value for word, value in words.items()}
    return ContainerView(name, amounts, amounts, init, sidecar)


def pod(*containers: ContainerView, **annotations: str) -> PodView:
    """A pod on node n1."""
    return PodView("team", "trainer-0", "uid-1", containers, annotations=annotations, node="n1")


def granted(*parts: Part) -> Grant:
    """A grant to that pod."""
    return Grant("uid-1", "", Offer("n1", parts), mode="percent")


def written(asking: PodView, *parts: Part, siblings: tuple[str, ...] = ()) -> dict[str, str]:
    """The record of a grant, as annotations."""
    return DIALECT.write(Writing(asking, granted(*parts), DEVICES, 1, siblings))


def held(asking: PodView, annotations: dict[str, str]) -> Held:
    """What the pod holds by such annotations."""
    return DIALECT.held(replace(asking, annotations=annotations))


def keys(found: Held) -> list[str]:
    """What its problems are about."""
    wrong = [problem for problem in found.problems if problem.where != "pod team/trainer-0"]
    must(not wrong, f"problems elsewhere: {wrong}")
    return [problem.key for problem in found.problems]
