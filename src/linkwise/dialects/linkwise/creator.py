"""Creator of a pod: the annotations by which the webhook records who created it, or the workload that it belongs to.

They are believed because users can't choose them: the webhook overwrites what a manifest has, and an admission policy of
the API server refuses any other value. Of the groups only those are recorded that access policies name, one per line, so
that the policy of the API server can compare them with the requester's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.model.views import PodView

__all__ = ["CREATOR", "GROUPS", "SEPARATOR", "USER", "creator_annotations", "recorded_creator"]

USER: Final = "linkwise.dev/user"
GROUPS: Final = "linkwise.dev/groups"
CREATOR: Final = (USER, GROUPS)
SEPARATOR: Final = "\n"
"""between groups"""


def creator_annotations(user: str, groups: Iterable[str], named: Iterable[str]) -> dict[str, str]:
    """Return the annotations for a user; `named` are the groups that policies name."""
    recorded = sorted(set(named).intersection(groups))
    return {USER: user, **({GROUPS: SEPARATOR.join(recorded)} if recorded else {})}


def recorded_creator(pod: PodView) -> tuple[str, tuple[str, ...]]:
    """Return the recorded user, empty if there is none, and the recorded groups."""
    lines = pod.annotations.get(GROUPS, "").split(SEPARATOR)
    return pod.annotations.get(USER, ""), tuple(line for line in lines if line)
