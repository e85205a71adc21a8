"""Pods of Volcano: those whose scheduler is one of `placing.volcano.schedulers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkwise.model.settings import PlacingSettings
    from linkwise.model.views import PodView

__all__ = ["is_volcano"]


def is_volcano(settings: PlacingSettings, pod: PodView) -> bool:
    """Whether a Volcano scheduler schedules the pod."""
    return pod.scheduler in settings.volcano.schedulers
