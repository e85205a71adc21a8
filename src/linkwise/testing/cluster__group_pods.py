"""Pods of one group, for tests that read as sentences."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.effects import Wake
from linkwise.dialects.groups.koordinator_gang import GROUPS, MINIMUM, NAME as GANG, TOTAL
from linkwise.dialects.groups.membership import NAME, REPLICA

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.effects import Effect
    from linkwise.model.views import PodView

__all__ = ["in_gang", "in_group", "woken"]


def in_group(*pods: PodView, name: str = "g", total: int | None = None) -> list[PodView]:
    """The pods as members of a group that is no gang: of all of them, unless it is said to have more."""
    words = {NAME: name, REPLICA: str(total or len(pods))}
    return [replace(pod, labels=words, created=float(place)) for place, pod in enumerate(pods)]


def in_gang(*pods: PodView, least: int, name: str = "g", total: int | None = None, bundle: str = "") -> list[PodView]:
    """The pods as members of a gang; a bundle names the gangs that start together, with a space between."""
    words = {GANG: name, MINIMUM: str(least), TOTAL: str(total or len(pods))}
    words |= {GROUPS: json.dumps([f"default/{each}" for each in bundle.split()])} if bundle else {}
    return [replace(pod, annotations=words, created=float(place)) for place, pod in enumerate(pods)]


def woken(effects: Iterable[Effect]) -> set[str]:
    """Names of pods that are woken."""
    return {effect.name for effect in effects if isinstance(effect, Wake)}
