"""What a pod of Volcano waits for: its PodGroup, the plan of its devices, or Volcano itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.records.stages import BackingOff
from linkwise.broker.volcano.pins import describe_pod_group, lost_pin, pinned_node
from linkwise.broker.volcano.scope import is_volcano
from linkwise.dialects.groups.conventions import VOLCANO
from linkwise.dialects.groups.pod_group_objects import names_no_node
from linkwise.dialects.linkwise.gang_gate import is_gated
from linkwise.dialects.linkwise.group_plan import GROUP_PLAN

if TYPE_CHECKING:
    from linkwise.broker.state import State
    from linkwise.model.views import PodView

__all__ = ["NO_POD_GROUP", "awaits_pod_group", "volcano_notes"]

NO_POD_GROUP: Final = (
    f"it waits for its PodGroup: Volcano's controllers create one and name it in the annotation {VOLCANO[0]}; if that takes"
    " longer than a few seconds, check that vc-controller-manager runs"
)


def awaits_pod_group(state: State, pod: PodView) -> bool:
    """Whether a gated pod of Volcano is in no group yet."""
    return is_gated(pod) and is_volcano(state.settings, pod) and not state.groups.key_of(pod.uid)


def volcano_notes(state: State, pod: PodView) -> tuple[str, ...]:
    """What is expected of Volcano for a pending pod, what it reports, and the nodes that it refused; none for other pods."""
    if pod.node or not is_volcano(state.settings, pod):
        return ()
    return (*_expected(state, pod), *_reported(pod), *_refused_nodes(state, pod))


def _reported(pod: PodView) -> tuple[str, ...]:
    """The message of Volcano about a pod whose nodes it tried."""
    message = pod.unschedulable_message
    return (f"Volcano reports: {message}",) if names_no_node(message) else ()


def _refused_nodes(state: State, pod: PodView) -> tuple[str, ...]:
    refused = sorted(state.groups.demoted.get(state.groups.key_of(pod.uid), ()))
    text = f"node {', '.join(refused)} is used only if no other fits: Volcano did not bind a pod of its group there"
    return (text,) if refused else ()


def _expected(state: State, pod: PodView) -> tuple[str, ...]:
    steered = GROUP_PLAN in pod.annotations and not is_gated(pod)
    if not steered:
        return ()
    if gone := lost_pin(state, pod):
        return (gone,)
    entry, stage = state.cluster.ledger.get(pod.uid), state.groups.stage(state.groups.key_of(pod.uid))
    if entry:
        return (f"Volcano is expected to bind it to node {entry.node}; if it does not, run: {describe_pod_group(pod)}",)
    late = f"Volcano did not bind it in time; run: {describe_pod_group(pod)}"
    pinned = (
        f"it was pinned to node {pinned_node(pod)} when its scheduling gate was removed, and is planned again there only; delete it"
        " to let its job create one that may go elsewhere"
    )
    return (late, pinned) if isinstance(stage, BackingOff) and stage.reason.kind == "resting" else (pinned,)
