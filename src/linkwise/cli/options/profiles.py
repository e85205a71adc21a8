"""Option type for machine and hardware profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from linkwise.policies.ring_profiles import RING_PROFILES
from linkwise.vendors.machines import PROFILES

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ProfileName"]


class ProfileName(click.Choice[str]):
    """Profile name; the error for an unknown one suggests a similar name and lists all."""

    def __init__(self, names: Sequence[str] = (*PROFILES, *RING_PROFILES)) -> None:
        super().__init__(list(names))

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:  # noqa: ANN401 - click's own signature
        """Return the error message for an unknown profile."""
        del ctx
        known = f"Profiles: {', '.join(self.choices)}."
        if value in RING_PROFILES:
            return (
                f"{value!r} is a hardware profile without a link matrix; it can be used with `linkwise pick`. {known}"
            )
        near = self._near(str(value).casefold())
        return f"{value!r} is not a known profile{f'; did you mean {near}?' if near else '.'} {known}"

    def _near(self, word: str) -> str:
        from difflib import get_close_matches  # noqa: PLC0415 - only needed for a typo

        completions = [name for name in self.choices if word and name.startswith(word)]
        return next(iter(completions or get_close_matches(word, self.choices, n=1)), "")
