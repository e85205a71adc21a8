"""Rank table writer: puts the rank tables of Ascend jobs into ConfigMaps that their users made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from linkwise.broker.effects import RankTable
from linkwise.dialects.ascend.hccl import KEY, read_table
from linkwise.errors import InputError
from linkwise.kube.client.api import MERGE
from linkwise.kube.perform.write_queue import WriteQueue
from linkwise.wire.decoding import decode_as
from linkwise.wire.kubernetes.writes import encode

if TYPE_CHECKING:
    from linkwise.kube.perform.write_queue import WriteResult

__all__ = ["RankTableWriter"]

LOOK_AGAIN: Final = 30.0  # seconds
"""before a ConfigMap that does not exist, or holds something else, is read again"""
MOST: Final = 10_000
"""tables that are remembered"""


@dataclass(slots=True)
class RankTableWriter(WriteQueue[RankTable]):
    """Writes tables one after the other; the service offers them again every few seconds, and most are written already."""

    past_tense = "given a rank table"
    permission = "get and patch on configmaps"
    role_command = "linkwise manifests rbac --rank-tables"
    _written: dict[str, RankTable] = field(default_factory=dict)
    """the table that each ConfigMap has, as far as this process knows"""
    _later: dict[str, float] = field(default_factory=dict)
    """when to read a ConfigMap again in which there was nothing to write"""

    def tell(self, effect: RankTable) -> None:
        """Queue a table, unless the ConfigMap has it."""
        known = self._written.get(effect.uid)
        if known != effect and self.attempts.timing.clock() >= self._later.get(effect.uid, 0.0):
            self._put(effect)

    async def run(self) -> None:
        """Write queued tables, until cancelled."""
        await self._run(1)

    async def _send(self, effect: RankTable) -> WriteResult | None:
        place = f"/api/v1/namespaces/{quote(effect.namespace, safe='')}/configmaps/{quote(effect.name, safe='')}"
        found = await self.attempts.write("GET", place)
        if not found.done:
            self._wait(effect)
            return None if found.status == 404 else found
        version, text = _current(found.body)
        table = read_table(text)
        if table is None:  # the user's own
            self._wait(effect)
            return None
        if table == read_table(effect.text):
            self._remember(effect)
            return None
        patch = {"metadata": {"resourceVersion": version}, "data": {KEY: effect.text}}
        result = await self.attempts.write("PATCH", place, encode(patch), MERGE, versioned=True)
        if result.done:
            self._remember(effect)
        return result

    def _remember(self, effect: RankTable) -> None:
        if len(self._written) >= MOST:
            self._written.pop(next(iter(self._written)))
        self._written[effect.uid] = effect
        self._later.pop(effect.uid, None)

    def _wait(self, effect: RankTable) -> None:
        if len(self._later) >= MOST:
            self._later.pop(next(iter(self._later)))
        self._later[effect.uid] = self.attempts.timing.clock() + LOOK_AGAIN


def _current(body: bytes) -> tuple[object, object]:
    """The resourceVersion and the table of a ConfigMap; None for what it does not have."""
    try:
        document = decode_as(body, dict[str, object])
    except InputError:
        return None, None
    metadata, data = document.get("metadata"), document.get("data")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version, data.get(KEY) if isinstance(data, dict) else None
