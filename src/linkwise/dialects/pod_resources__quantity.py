"""Kubernetes quantities: 1, 500m, 16Gi, 10G, 1e3."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import Final

from linkwise.errors import InputError

__all__ = ["quantity", "whole_quantity"]

_QUANTITY: Final = re.compile(
    r"([+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40}))(?:([eE][+-]?[0-9]{1,3})|([numkMGTPE]i?|Ki|))"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


@lru_cache(maxsize=4096)
def quantity(text: str) -> Decimal:
    """The number that a quantity means; InputError if it is none."""
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or (found[3] or "") not in {*_BINARY, *_DECIMAL}:
        raise InputError(f"{text!r} is no quantity: write 1, 500m or 16Gi")
    number, exponent, suffix = Decimal(found[1]), found[2], found[3] or ""
    if exponent:
        return number.scaleb(int(exponent[1:]))
    return number * Decimal(1024) ** _BINARY[suffix] if suffix in _BINARY else number.scaleb(_DECIMAL[suffix])


@lru_cache(maxsize=4096)
def whole_quantity(text: str) -> int:
    """A quantity that counts things; InputError if it is negative or no whole number."""
    number = quantity(text)
    if number < 0 or number != number.to_integral_value():
        raise InputError(f"{text!r} is no count: a whole number of 0 or more is expected")
    return int(number)
