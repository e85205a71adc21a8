"""Decision: the facts by which a node and its devices were chosen for a pod, at the moment of the choice.

Explanations are worded from these facts, so a record stays small and never disagrees with the policy that explains it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Decision"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Why a pod has its node and its devices; what is not known is empty."""

    considered: int = 0
    """nodes that the scheduler asked about; 0 if the devices were chosen by a bind or by the plan of a group"""
    terms: tuple[str, ...] = ()
    """names of the policy's terms: a later version may have others"""
    score: tuple[int, ...] = ()
    """of the devices, one number per term"""
    others: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """the next best nodes and their scores, the best first; a record has only the first that could take the pod"""
    free: tuple[int, ...] = ()
    """for whole devices: indices of the devices of the node that were free"""
    rooms: tuple[tuple[int, int, int], ...] = ()
    """for a part of one device: index, free memory and free compute of the devices that the pod might have shared"""
    nominated: bool = False
    """whether the node had been nominated for the pod, as preemption does where it made room"""
