"""Why something is refused, in a sentence: what was asked, what was found.

Every reason has two forms. The long one has numbers and names, for the person who waits. The short one is equal
across nodes, because kube-scheduler counts equal texts in its event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.devices import DEVICE_WORDS
from linkwise.engine.reasons.groups import GROUP_WORDS
from linkwise.engine.reasons.nodes import LACKS, NODE_WORDS
from linkwise.engine.reasons.phrases import choice_text, size_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.model.verdict import Reason

__all__ = ["WORDS", "choice_text", "devices_text", "refusal", "short_refusal", "shortage", "size_text"]

WORDS: Final = {**DEVICE_WORDS, **NODE_WORDS, **GROUP_WORDS}
"""every refusal, by rule and kind"""


def refusal(reason: Reason) -> str:
    """What was asked and what was found."""
    return WORDS[reason.rule, reason.kind].long(reason)


def short_refusal(reason: Reason) -> str:
    """The same without numbers and names."""
    return WORDS[reason.rule, reason.kind].short


def devices_text(devices: Iterable[int]) -> str:
    """A set of devices as people write it: {0,3}."""
    return "{" + ",".join(map(str, devices)) + "}"


def shortage(reason: Reason) -> str:
    """What a node lacks whose devices would do: `lacks 3 cpu`, `is cordoned`."""
    said = LACKS.get(reason.kind)
    return said(reason) if said else f"can't take the pod: {refusal(reason)}"
