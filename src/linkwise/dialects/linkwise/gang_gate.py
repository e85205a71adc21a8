"""Scheduling gate of gangs: kube-scheduler does not try a member before its gang is planned and the gate removed.

The webhook adds it to members of gangs. Gates of other systems, such as Kueue's, are theirs to remove.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from linkwise.model.views import PodView

__all__ = ["GATE", "has_other_gates", "is_gated"]

GATE: Final = "linkwise.dev/gang"


def is_gated(pod: PodView) -> bool:
    """Return whether the pod has the gate of gangs."""
    return GATE in pod.gates


def has_other_gates(pod: PodView) -> bool:
    """Return whether the pod has gates of other systems."""
    return any(gate != GATE for gate in pod.gates)
