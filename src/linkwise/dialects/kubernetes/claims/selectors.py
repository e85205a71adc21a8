"""Selectors of devices in CEL, as far as they are evaluated here.

Comparisons of the driver and of attributes with literals, joined by `&&`. Anything else is unknown: then the device counts
as selected, because kube-scheduler evaluates the complete expression and names only nodes that have enough devices.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.dialects.kubernetes.claims.objects import SliceDevice

__all__ = ["is_known", "selects"]

_TEXT: Final = r"""(?:"[^"\\]*"|'[^'\\]*')"""
_LITERAL: Final = rf"(?:{_TEXT}|true|false|-?[0-9]{{1,18}})"
_OPERAND: Final = (
    rf"device\.(?:(?P<driver>driver)|attributes\[(?P<domain>{_TEXT})\]"
    rf"(?:\.(?P<name>\w+)|\[(?P<quoted>{_TEXT})\]))"
)
_COMPARISON: Final = re.compile(
    rf"{_OPERAND}\s*(?:(?P<operator>==|!=)\s*(?P<value>{_LITERAL})"
    rf"|in\s*\[\s*(?P<values>{_LITERAL}(?:\s*,\s*{_LITERAL})*)\s*\])"
)
_FLAG: Final = re.compile(rf"(?P<not>!?){_OPERAND}")
_LONGEST: Final = 10 * 1024
"""characters of an expression, as in Kubernetes' validation"""


def selects(expression: str, driver: str, device: SliceDevice) -> bool | None:
    """Whether a device is selected; None if that is not known."""
    verdicts = [_verdict(part, driver, device) for part in _conjuncts(expression)]
    if False in verdicts:
        return False
    return None if None in verdicts else True


def is_known(expression: str) -> bool:
    """Whether the complete expression is supported."""
    return all(part == "true" or _match(part) for part in _conjuncts(expression))


@lru_cache(maxsize=256)
def _conjuncts(expression: str) -> tuple[str, ...]:
    """The operands of `&&`; an expression that can't be divided is one."""
    if len(expression) > _LONGEST:
        return ("",)
    return tuple(_without_parentheses(part) for part in _split(expression))


def _split(expression: str) -> Iterator[str]:
    start, depth, quote = 0, 0, ""
    for place, sign in enumerate(expression):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif depth == 0 and expression.startswith("||", place):
            yield ""  # an alternative: what is on its sides need not be true
            return
        elif depth == 0 and expression.startswith("&&", place):
            yield expression[start:place]
            start = place + 2
    yield expression[start:]


def _without_parentheses(text: str) -> str:
    text = text.strip()
    inner = text[1:-1]
    alone = text.startswith("(") and text.endswith(")") and not set(inner) & set("()")
    return inner.strip() if alone else text


def _verdict(part: str, driver: str, device: SliceDevice) -> bool | None:
    if part == "true":
        return True
    match = _match(part)
    if match is None:
        return None
    found = driver if match["driver"] else device.attribute(f"{match['domain'][1:-1]}/{_name(match)}")
    if found is None:
        return False  # a missing attribute is an error in CEL, and the device is not selected
    if match.re is _FLAG:
        return found is not bool(match["not"]) if isinstance(found, bool) else None
    if match["values"]:
        return any(_equal(found, _literal(text)) for text in re.findall(_LITERAL, match["values"]))
    return _equal(found, _literal(match["value"])) == (match["operator"] == "==")


def _match(part: str) -> re.Match[str] | None:
    return _COMPARISON.fullmatch(part) or _FLAG.fullmatch(part)


def _name(match: re.Match[str]) -> str:
    return match["name"] or match["quoted"][1:-1]


def _literal(text: str) -> str | int | bool:
    if text in {"true", "false"}:
        return text == "true"
    return text[1:-1] if text[0] in "\"'" else int(text)


def _equal(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other
