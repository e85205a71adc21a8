"""Claims of this node: prepared with a CDI specification and a checkpoint, in this order, before the kubelet is answered.

A process that is killed in between is called again for the same claim, and writes both again.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from linkwise.agent.container_access import write_cdi_spec
from linkwise.agent.dra.checkpoint import read_checkpoint, write_checkpoint
from linkwise.agent.kubelet.dra_plugin import DeviceHealth, GivenDevice
from linkwise.dialects.kubernetes.claims.driver import DRIVER, allocation_of
from linkwise.errors import InputError, LinkwiseError
from linkwise.node.container import claim_cdi_file, claim_cdi_names, claim_cdi_spec
from linkwise.node.dra.claims import PreparedClaim, prepared_claim
from linkwise.node.dra.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from linkwise.agent.container_access import ContainerAccess
    from linkwise.agent.kubelet.dra_plugin import ClaimRef
    from linkwise.model.device import Device
    from linkwise.node.writes import Written

__all__ = ["ClaimReader", "Claims"]

log = logging.getLogger(__name__)

_UID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,62}")
"""of claims; it becomes a part of a file name"""


class ClaimReader(Protocol):
    """Reads claims; no failure of the API server raises."""

    async def claim(self, namespace: str, name: str) -> Written:
        """The claim as the API server has it at this moment, as `document`."""
        ...


class Claims:
    """The prepared claims; `update` it with the devices of the node before claims are prepared.

    Args:
        node: name of the node, which is that of its pool.
        kubelet: root folder of the kubelet.
        cdi: folder for CDI specifications.
        access: what the host has for containers.
        reader: reads claims; None without an API server.
        unknown: why the health of devices is not known; empty if it is.
        changed: called when claims were prepared or taken back.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - its parts
        self,
        node: str,
        kubelet: Path,
        cdi: Path,
        access: ContainerAccess,
        reader: ClaimReader | None,
        unknown: Callable[[], str] = str,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.problem = ""
        """why the claims of an earlier process are not known, or their specifications not written"""
        self._node = node
        self._file = kubelet / "plugins" / DRIVER / "checkpoint.json"
        self._cdi = cdi
        self._access = access
        self._reader = reader
        self._changed = changed
        self._pool = Pool()
        self._devices: Mapping[str, Device] = {}
        self._unknown = unknown
        self._lock = asyncio.Lock()
        self._prepared: dict[str, PreparedClaim] = {}

    @property
    def are_kept(self) -> bool:
        """Whether this agent, or the one before, has served claims on this node."""
        return self._file.exists()

    @property
    def prepared(self) -> Mapping[str, PreparedClaim]:
        """The claims by UID."""
        return self._prepared

    def load(self) -> None:
        """Take over what the agent before has prepared, once it has ended."""
        self._prepared, self.problem = read_checkpoint(self._file)
        if self.problem:
            log.warning("driver=%s %s", DRIVER, self.problem)

    def update(self, pool: Pool, devices: Mapping[str, Device]) -> None:
        """Set the devices by name and by id."""
        self._pool, self._devices = pool, devices

    def restore(self) -> None:
        """Write the specifications of all prepared claims again, and remove those of others: the folder may be a new one."""
        self._remove_leftovers()
        for claim in self._prepared.values():
            try:
                self._write_cdi(claim)
            except LinkwiseError as error:
                log.warning("driver=%s claim %s/%s: %s", DRIVER, claim.namespace, claim.name, error)

    async def prepare(self, claim: ClaimRef) -> Sequence[GivenDevice]:
        """The devices of a claim; LinkwiseError if it can't have them."""
        _check_uid(claim.uid)
        if claim.uid not in self._prepared:
            allocation = allocation_of(await self._read(claim), claim.uid, self._node)
            async with self._lock:
                others = [one for uid, one in self._prepared.items() if uid != claim.uid]
                found = prepared_claim(allocation, self._pool, others)
                self._write_cdi(found)
                self._keep({**self._prepared, claim.uid: found})
            log.info("driver=%s prepared %s/%s devices=%s", DRIVER, found.namespace, found.name, _named(found))
        else:
            async with self._lock:
                self._write_cdi(self._prepared[claim.uid])
        return self._given(self._prepared[claim.uid])

    async def unprepare(self, claim: ClaimRef) -> None:
        """Take the devices back; a claim that has none is no error."""
        _check_uid(claim.uid)
        async with self._lock:
            try:
                (self._cdi / claim_cdi_file(claim.uid)).unlink(missing_ok=True)
            except OSError as error:
                raise LinkwiseError(f"{claim_cdi_file(claim.uid)} can't be removed: {error.strerror}") from error
            if claim.uid in self._prepared:
                self._keep({uid: one for uid, one in self._prepared.items() if uid != claim.uid})
                log.info("driver=%s took back %s/%s", DRIVER, claim.namespace, claim.name)

    def health(self) -> Sequence[DeviceHealth]:
        """The health of all devices and sets of the pool, complete in each answer."""
        if why := self._unknown():
            return [DeviceHealth(self._node, name, "unknown", why) for name in self._pool.members]
        faults = self._pool.faults
        return [
            DeviceHealth(self._node, name, "unhealthy" if name in faults else "healthy", faults.get(name, ""))
            for name in self._pool.members
        ]

    async def _read(self, claim: ClaimRef) -> Mapping[str, object]:
        where = f"ResourceClaim {claim.namespace}/{claim.name}"
        if self._reader is None:
            raise LinkwiseError(f"{where} can't be read: the agent has no API server")
        read = await self._reader.claim(claim.namespace, claim.name)
        if read.document is None:
            raise LinkwiseError(f"{where} can't be read: {read.sentence}")
        return read.document

    def _write_cdi(self, claim: PreparedClaim) -> None:
        missing = [one for ids in claim.requests.values() for one in ids if one not in self._devices]
        if missing:
            raise InputError(f"device {missing[0]} of the claim is not on this node any more")
        requests = {name: [self._devices[one] for one in ids] for name, ids in claim.requests.items()}
        spec = claim_cdi_spec(claim.uid, requests, self._access.options, self._access.host.host_path)
        if problem := write_cdi_spec(self._cdi, claim_cdi_file(claim.uid), spec):
            raise LinkwiseError(problem)

    def _keep(self, claims: dict[str, PreparedClaim]) -> None:
        write_checkpoint(self._file, claims)
        self._prepared, self.problem = claims, ""
        self._changed()

    def _given(self, claim: PreparedClaim) -> list[GivenDevice]:
        return [
            GivenDevice(one.request, self._node, one.device, claim_cdi_names(claim.uid, one.request))
            for one in claim.devices
        ]

    def _remove_leftovers(self) -> None:
        """Remove specifications of claims that are not prepared: an earlier process was killed before it knew of them."""
        known = {claim_cdi_file(uid) for uid in self._prepared}
        for file in self._cdi.glob(claim_cdi_file("*")):
            if file.name not in known:
                with suppress(OSError):
                    file.unlink()


def _check_uid(uid: str) -> None:
    if not _UID.fullmatch(uid):
        raise InputError(f"{uid[:64]!r} is not the UID of a claim")


def _named(claim: PreparedClaim) -> str:
    return ",".join(one.device for one in claim.devices)
