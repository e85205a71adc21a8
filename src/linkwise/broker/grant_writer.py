"""Grant annotations: the keys of the pod's own dialect, beside our own record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.dialects.groups.membership import NAME as GROUP_NAME
from linkwise.dialects.koordinator.allocation import seed_text
from linkwise.dialects.linkwise.dialect import Linkwise
from linkwise.dialects.registry import BY_NAME, cleared_records

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.dialects.dialect import Writing

__all__ = ["GrantWriter"]

LATEST: Final = 9e9  # seconds since the epoch; in nanoseconds 64 bits hold little more


class GrantWriter:
    """Writes grants; the times it gives are different and increase on each node, whatever the clock does."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def annotations(self, writing: Writing, dialect: str, now: float) -> dict[str, str]:
        """All keys to write on the pod, with a time of their own."""
        node = writing.grant.offer.node
        # gpushare's device plugin takes the pod with the lowest time first, so no two pods of a node may share one.
        time = self._last[node] = max(int(1e9 * min(LATEST, max(0.0, now))), self._last.get(node, 0) + 1)
        writing = replace(writing, now=time)
        keys = {**BY_NAME[dialect].write(writing), **BY_NAME[Linkwise.name].write(writing)}
        # rule 001.record: a pod with Koordinator's group labels gets that system's record, whichever resource it requests.
        seed = seed_text(writing) if GROUP_NAME in writing.pod.labels else {}
        # Plugins believe records of their own before ours, so one that the pod was created with must not stay.
        return {**cleared_records(writing.pod), **seed, **keys}

    def forget(self, node: str) -> None:
        """The node is gone."""
        self._last.pop(node, None)

    def times(self) -> dict[str, int]:
        """The last time given on each node, for a snapshot."""
        return dict(self._last)

    def restore(self, times: Mapping[str, int]) -> None:
        """Become what a snapshot holds."""
        self._last = dict(times)
