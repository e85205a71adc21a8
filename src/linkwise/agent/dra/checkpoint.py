"""Checkpoint of prepared claims: a file that is replaced as a whole, so that a restart of the agent forgets none."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from linkwise.errors import LinkwiseError
from linkwise.node.dra.claims import PreparedClaim, PreparedDevice

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["read_checkpoint", "write_checkpoint"]

KEY: Final = "claims/v1"
"""names the format of what it holds"""


def read_checkpoint(file: Path) -> tuple[dict[str, PreparedClaim], str]:
    """The claims by UID, and why the file can't be read; the kubelet then prepares its claims again.

    A file that can't be read is kept under another name.
    """
    try:
        document = json.loads(file.read_bytes())
        return {uid: _claim(uid, one) for uid, one in document[KEY].items()}, ""
    except FileNotFoundError:
        return {}, ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        aside = file.with_suffix(".unreadable")
        with suppress(OSError):
            file.replace(aside)
        return {}, f"the checkpoint {file} can't be read ({error!r}) and is now {aside.name}"


def write_checkpoint(file: Path, claims: Mapping[str, PreparedClaim]) -> None:
    """Write the claims, whole or not at all; LinkwiseError if that fails."""
    document = {KEY: {uid: _document(claim) for uid, claim in sorted(claims.items())}}
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("w") as stream:
            json.dump(document, stream)
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(file)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink()
        raise LinkwiseError(f"the checkpoint {file} can't be written: {error.strerror or error}") from error


def _document(claim: PreparedClaim) -> dict[str, Any]:
    devices = [
        {"request": one.request, "device": one.device, "ids": list(one.ids), "shared": one.shared}
        for one in claim.devices
    ]
    return {"namespace": claim.namespace, "name": claim.name, "devices": devices}


def _claim(uid: str, raw: dict[str, Any]) -> PreparedClaim:
    devices = tuple(
        PreparedDevice(str(one["request"]), str(one["device"]), tuple(map(str, one["ids"])), bool(one["shared"]))
        for one in raw["devices"]
    )
    return PreparedClaim(str(raw["namespace"]), str(raw["name"]), uid, devices)
