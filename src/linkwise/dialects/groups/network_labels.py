"""Network labels of nodes: which labels are one level, which of them count on a node, and which are invalid.

Source: contract dra, section 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from linkwise.model.network_labels import ACCELERATOR, FABRIC, NVIDIA, TIERS, TOPOGRAPH
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Labels", "current_labels", "invalid_labels", "label_problem", "same_level"]

Labels = Mapping[str, str]

_SAME: Final = {label: level for level in TOPOGRAPH for label in level}
_TIERS: Final = tuple(level[0] for level in TOPOGRAPH if level[0].startswith(FABRIC))
_REPLACED: Final = (
    (frozenset(_TIERS), frozenset(NVIDIA + name for name in ("core", "datacenter", "spine", "leaf", "block"))),
    (frozenset({f"{NVIDIA}core", f"{NVIDIA}leaf"}), frozenset({f"{NVIDIA}datacenter", f"{NVIDIA}block"})),
    (frozenset({f"{ACCELERATOR}domain", f"{ACCELERATOR}sub-domain"}), frozenset({f"{NVIDIA}accelerator"})),
)
"""labels of one version, and those of earlier versions that they replace on a node"""
_SHOWN: Final = 3


def same_level(label: str) -> tuple[str, ...]:
    """Return the labels that name the level of this one, the newest first; most levels have one."""
    return _SAME.get(label, (label,))


def current_labels(labels: Labels) -> Labels:
    """Return the labels without those of earlier versions of topograph on a node that has newer ones.

    An upgrade may leave the old labels in place, so they are not used for levels that the new ones lack.
    """
    stale = [old for new, old in _REPLACED if not new.isdisjoint(labels) and not old.isdisjoint(labels)]
    dropped = frozenset().union(*stale)
    return {label: value for label, value in labels.items() if label not in dropped} if dropped else labels


def invalid_labels(labels: Labels) -> tuple[str, ...]:
    """Return labels of topograph that name no level, and tiers that are missing below a broader one, as `no LABEL`."""
    ours = [label for label in labels if label.startswith((FABRIC, ACCELERATOR))]
    if not ours:
        return ()
    unknown = [label for label in ours if label not in _SAME]
    highest = next((number for number, label in enumerate(_TIERS) if label in labels), TIERS)
    missing = [f"no {label}" for label in _TIERS[highest:] if label not in labels]
    return (*sorted(unknown), *missing)


def label_problem(nodes: Mapping[str, Iterable[str]]) -> Problem:
    """Return one problem for the invalid labels of all nodes."""
    by_label: dict[str, list[str]] = {}
    for node, labels in sorted(nodes.items()):
        for label in labels:
            by_label.setdefault(label, []).append(node)
    named = [f"{label} on {len(names)} node(s) such as {names[0]}" for label, names in sorted(by_label.items())]
    more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    return Problem(
        "nodes", FABRIC, f"{'; '.join(named[:_SHOWN])}{more}; the labels are tier-0 to tier-{TIERS - 1}, 0 is closest"
    )
