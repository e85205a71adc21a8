"""Recording performer: keeps the effects of a service instead of writing them to a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkwise.broker.effects import BindResult

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from linkwise.broker.effects import Bind, Effect

__all__ = ["Recorder"]


@dataclass(slots=True)
class Recorder:
    """A `Performer` that records every effect and answers binds from a script.

    Binds end as `results` says, one after the other, and as written once it is empty; an exception is raised.
    """

    results: list[BindResult | Exception] = field(default_factory=list)
    settled: BindResult = field(default_factory=lambda: BindResult("written"))
    """the answer to every `settle`"""
    binds: list[Bind] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    """all effects but binds"""
    gate: asyncio.Event | None = None
    """binds wait for this event, if there is one"""

    async def bind(self, effect: Bind) -> BindResult:
        """Record a bind; answer it from the script."""
        self.binds.append(effect)
        if self.gate is not None:
            await self.gate.wait()
        result = self.results.pop(0) if self.results else BindResult("written")
        if isinstance(result, Exception):
            raise result
        return result

    def release(self) -> None:
        """Open the gate."""
        if self.gate is not None:
            self.gate.set()

    async def settle(self, effect: Bind) -> BindResult:
        """Answer what became of a bind of unknown outcome."""
        del effect
        return self.settled

    def tell(self, effects: Iterable[Effect]) -> None:
        """Record effects that need no answer."""
        self.effects += effects
