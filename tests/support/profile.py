"""Test profile: how many examples and rounds tests try, `quick` unless the variable TEST_PROFILE names another one.

The name of the variable does not begin with LINKWISE_, because Linkwise would take it for a setting.
"""

from __future__ import annotations

import os
from typing import Final

__all__ = ["PROFILE", "examples", "rounds"]

_PARTS: Final = {"quick": 5, "full": 1, "soak": 1}
"""by profile: one of so many examples is tried"""

PROFILE: Final = os.environ.get("TEST_PROFILE") or "quick"
if PROFILE not in _PARTS:
    raise ValueError(f'unknown test profile "{PROFILE}" in TEST_PROFILE; use {", ".join(_PARTS)}')


def examples(full: int) -> int:
    """Number of examples, seeds or bytes in this profile, of those in the profile `full`; at least one."""
    return -(-full // _PARTS[PROFILE])


def rounds(few: int, many: int) -> int:
    """Rounds of a test that kills or competes on a real cluster: many in the profile `soak`, as many take minutes."""
    return many if PROFILE == "soak" else few
