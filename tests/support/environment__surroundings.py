"""The environment that tests give to programs: that of whoever runs them, without what would change what is shown."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["surroundings"]

_OTHERS: Final = ("KUBE", "LINKWISE", "FORCE_COLOR", "NO_COLOR", "TTY_", "LINES")
"""clusters, settings and terminals of somebody else"""


def surroundings() -> dict[str, str]:
    """All variables but those."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OTHERS)}
