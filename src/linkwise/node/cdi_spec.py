"""CDI specification of a node's devices: the file by which container runtimes give them to containers.

The kind is our own, so that specifications which the vendor's toolkit generates do not conflict with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.vendors.container_needs import device_nodes, needs_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from linkwise.model.device import Device
    from linkwise.vendors.container_needs import Mount

__all__ = ["cdi_file", "cdi_names", "cdi_spec"]

VERSION: Final = "0.5.0"
"""the first version with paths on the host"""


def cdi_kind(vendor: str) -> str:
    """Vendor and class of the names."""
    return f"linkwise.dev/{vendor}"


def cdi_file(vendor: str) -> str:
    """Name of the file, as the CDI specification recommends it."""
    return f"linkwise.dev-{vendor}.json"


def cdi_names(vendor: str, devices: Iterable[Device]) -> tuple[str, ...]:
    """Qualified names of devices."""
    return tuple(f"{cdi_kind(vendor)}={device.id}" for device in devices)


def cdi_spec(
    vendor: str,
    devices: Iterable[Device],
    host_path: Callable[[str], str] = str,
    exists: Callable[[str], bool] = lambda _: True,
    mounts: Sequence[Mount] = (),
) -> dict[str, Any]:
    """The specification.

    Args:
        vendor: name of the vendor.
        devices: those whose node is known; containers can't be given others.
        host_path: where the host has a device node.
        exists: whether the host has it.
        mounts: files of the driver, where no vendor's toolkit adds them.
    """
    rule = needs_rules()[vendor]
    # rule 002.libraries, 002.nodes
    shared = [node for node in (*rule.control, *rule.optional) if exists(node)]
    edits: dict[str, Any] = {"deviceNodes": [_node(node, host_path) for node in shared]}
    if mounts:
        edits["mounts"] = [_mount(mount) for mount in mounts]
    return {
        "cdiVersion": VERSION,
        "kind": cdi_kind(vendor),
        "devices": [
            {
                "name": device.id,
                "containerEdits": {"deviceNodes": [_node(node, host_path) for node in device_nodes(rule, device)]},
            }
            for device in devices
            if device.minor is not None or rule.first is not None
        ],
        "containerEdits": edits,
    }


def _node(path: str, host_path: Callable[[str], str]) -> dict[str, str]:
    there = host_path(path)
    return {"path": path, "permissions": "rw"} | ({"hostPath": there} if there != path else {})


def _mount(mount: Mount) -> dict[str, Any]:
    options = ["ro", "nosuid", "nodev", "bind"] if mount.read_only else ["nosuid", "nodev", "bind"]
    return {"hostPath": mount.host_path, "containerPath": mount.container_path, "options": options}
