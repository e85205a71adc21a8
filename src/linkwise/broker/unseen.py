"""Pods that asked and that the watch has not shown: newer than the watch, or made up by whoever asked.

The first are seen within moments. The others never are: few of them are kept, so that nobody fills our memory by asking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from linkwise.broker.state import State

__all__ = ["UNSEEN", "forget_unseen"]

UNSEEN: Final = 10_000
"""pods that are kept though nobody has seen them"""


def forget_unseen(state: State, most: int = UNSEEN) -> None:
    """Forget the older half of what was never seen and was promised nothing, if there are too many of them.

    One that is real after all asks again, or is bound when it is seen.
    """
    # Of those who asked, no more can have been seen than there are: only beyond that is it worth a look at each.
    if len(state.asked) <= len(state.cluster.pods) + most:
        return
    unseen = [
        pod
        for uid, pod in state.asked.items()
        if uid not in state.cluster.pods and state.cluster.ledger.get(uid) is None
    ]
    unseen.sort(key=lambda pod: (pod.created, pod.uid))
    for pod in unseen[: max(0, len(unseen) - most // 2)]:
        state.groups.lose(pod.uid)
        state.forget(pod.uid)
