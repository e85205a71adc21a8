"""Machines and hardware that are known by name, as a word of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from linkwise.policies.ring_profiles import RING_PROFILES
from linkwise.vendors.machines import PROFILES

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ProfileName"]


class ProfileName(click.Choice[str]):
    """One of these names; of a wrong one a near name is told, and all that there are."""

    def __init__(self, names: Sequence[str] = (*PROFILES, *RING_PROFILES)) -> None:
        super().__init__(list(names))

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:  # noqa: ANN401 - as click has it
        """A sentence in which the answer is."""
        del ctx
        known = f"Known are {', '.join(self.choices)}."
        if value in RING_PROFILES:
            return f"{value!r} tells how devices must lie and has no links to show; `linkwise pick` knows it. {known}"
        near = self._near(str(value).casefold())
        return f"{value!r} is not known{f'; did you mean {near}?' if near else '.'} {known}"

    def _near(self, word: str) -> str:
        from difflib import get_close_matches  # noqa: PLC0415 - only a typing mistake needs it

        begun = [name for name in self.choices if word and name.startswith(word)]
        return next(iter(begun or get_close_matches(word, self.choices, n=1)), "")
