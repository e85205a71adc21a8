"""What pods want, read once for all that are made from one template."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.pod_request import wish_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.broker.cluster.pod_request import Wish
    from linkwise.model.views import PodView

__all__ = ["LONGEST", "TEMPLATES", "Wishes"]

TEMPLATES: Final = 4_096
LONGEST: Final = 8_192
"""characters of annotations; what stays in mind when its pod is gone must not be large"""

_words: Final = attrgetter(
    *("containers", "labels", "annotations", "overhead", "node_selector", "owner"),
    *("scheduling_group", "claims", "hosted_by_claims"),
)
"""all that dialects read of a pod to learn what it wants, beside its namespace"""


class Wishes:
    """Answers for pods that are made again and again.

    Args:
        by_resource: the administrator's choice of policies.
        by_owner: whether pods of one owner are a group though they do not say so.
        most: templates that are remembered; pods of others are read again.
    """

    def __init__(self, by_resource: Mapping[str, str], *, by_owner: bool, most: int = TEMPLATES) -> None:
        self._by_resource = by_resource
        self._by_owner = by_owner
        self._most = most
        self._known: dict[tuple[str, int, int, str | None], tuple[PodView, Wish]] = {}

    def of(self, pod: PodView) -> Wish:
        """What the pod wants; its words are compared, for a version alone is no proof: whoever asks may have made it up."""
        # Views of one template share these parts, and the view that is kept keeps them from being anybody else's.
        template = (pod.namespace, id(pod.containers), id(pod.labels))
        for name in (None, pod.name):
            known = self._known.get((*template, name))
            if known and _words(known[0]) == _words(pod):
                return known[1]
        wish = wish_of(pod, self._by_resource, by_owner=self._by_owner)
        if sum(map(len, pod.annotations.values())) <= LONGEST:
            self._known[*template, pod.name if wish.problems else None] = (pod, wish)  # problems name the pod
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        return wish
