"""Missing parts: for each rule that is not implemented, the planned parts of Linkwise that it depends on.

A test checks that the table lists every such rule and no implemented one.
"""

from collections.abc import Mapping
from typing import Final

__all__ = ["WAITING", "parts_by_rule"]

WAITING: Final[Mapping[str, tuple[str, ...]]] = {}
"""rules by the part they depend on; a rule may depend on several"""


def parts_by_rule(waiting: Mapping[str, tuple[str, ...]] = WAITING) -> dict[str, tuple[str, ...]]:
    """Invert the table: the parts that each rule depends on."""
    parts: dict[str, tuple[str, ...]] = {}
    for part, rules in waiting.items():
        for rule in rules:
            parts[rule] = (*parts.get(rule, ()), part)
    return parts
