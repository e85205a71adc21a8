"""Hardware profiles of machines whose devices form rings, meshes, modules or cards, and the shapes of jobs on them.

A profile is data: to add a machine, add an entry. Names in `ALSO_CALLED` are the vendor's own for the same hardware.
Source: seed 003, "Affinity Policy Description", for the Ascend 910; later generations by the vendor's policy names.

The number of pods, and of devices per pod: seed 003, "Resource Application Constraints"; `per-pod` is what the vendor's later
releases allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.errors import InputError
from linkwise.model.device import HardwareProfile
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.settings import JobShape

__all__ = [
    "ALSO_CALLED",
    "DEFAULT",
    "RING_PROFILES",
    "Task",
    "job_refused",
    "known_profile",
    "ring_profile",
    "total_refused",
]

DEFAULT: Final = "ascend-910"

_PROFILES: Final = (
    HardwareProfile(
        "ascend-910",
        devices=8,
        group=4,
        # rule 003.ring: up to four devices come from one ring.
        # rule 003.eight: eight devices are the complete node.
        spans={"one group": (1, 2, 4), "whole groups": (8,)},
        # rule 003.one, 003.two, 003.four: idle devices of the ring, the best first: priority groups A to D.
        preference={1: (1, 3, 2, 4), 2: (2, 4, 3), 4: (4,)},
        noun="ring",
        one_pod_up_to=8,
    ),
    HardwareProfile("ascend-910-half", devices=4, group=4, spans={"count": (1, 2, 4)}, noun="ring"),
    HardwareProfile("ascend-300t", devices=2, group=1, spans={"count": range(1, 9)}, noun="card"),
    HardwareProfile("ascend-910b-card", group=1, spans={"count": range(1, 9)}, noun="card"),
    HardwareProfile("ascend-910b", devices=8, group=8, spans={"count": range(1, 9)}, noun="mesh"),
    HardwareProfile(
        "ascend-910b-16",
        devices=16,
        group=8,
        spans={"one group": range(1, 9), "even split": (10, 12, 14), "whole groups": (16,)},
        noun="ring",
        order="health and fit",
    ),
    HardwareProfile(
        "ascend-910c-16",
        devices=16,
        group=2,
        spans={"one group": (1,), "whole groups": range(2, 17, 2)},
        noun="module",
    ),
    HardwareProfile(
        "ascend-910c-8",
        devices=8,
        group=2,
        spans={"one group": (1,), "whole groups": range(2, 9, 2)},
        noun="module",
    ),
    HardwareProfile(
        "atlas-350-mesh-8",
        devices=8,
        group=4,
        spans={"one group": (1, 2, 3), "whole groups": (4, 8), "count": (5, 6, 7)},
        noun="mesh",
    ),
    HardwareProfile(
        "atlas-350-mesh-16",
        devices=16,
        group=4,
        spans={
            "one group": (1, 2, 3),
            "whole groups": (4, 8, 12, 16),
            "count": (5, 6, 7, 9, 10, 11, 13, 14, 15),
        },
        noun="mesh",
    ),
    HardwareProfile("atlas-350-8", devices=8, group=1, spans={"count": range(1, 9)}, noun="card"),
    HardwareProfile("atlas-350-16", devices=16, group=1, spans={"count": range(1, 17)}, noun="card"),
    HardwareProfile("ascend-310p-duo", group=2, spans={"whole groups first": range(1, 65)}, noun="card"),
    HardwareProfile("ascend-310p-duo-card", group=2, spans={"one group": (1, 2)}, noun="card"),
    HardwareProfile("ascend-310", group=1, spans={"count": range(1, 65)}, noun="chip"),
    HardwareProfile("ascend-310-card", group=4, spans={"one group": (1, 2, 3, 4)}, noun="card"),
)

RING_PROFILES: Final = {profile.name: profile for profile in _PROFILES}

ALSO_CALLED: Final = {
    "module": "ascend-910",
    "half": "ascend-910-half",
    "chip4-node4": "ascend-910-half",
    "card": "ascend-300t",
    "chip1-node2": "ascend-300t",
    "card-910b-2": "ascend-910b-card",
    "card-910b-infer": "ascend-910b-card",
    "module-910b-8": "ascend-910b",
    "chip8-node8": "ascend-910b",
    "module-910b-16": "ascend-910b-16",
    "chip8-node16": "ascend-910b-16",
    "module-a3-16": "ascend-910c-16",
    "chip2-node16": "ascend-910c-16",
    "chip2-node8": "ascend-910c-8",
    "350-Atlas-4p-8": "atlas-350-mesh-8",
    "chip4-node8": "atlas-350-mesh-8",
    "350-Atlas-4p-16": "atlas-350-mesh-16",
    "chip4-node16": "atlas-350-mesh-16",
    "350-Atlas-8": "atlas-350-8",
    "chip1-node8": "atlas-350-8",
    "350-Atlas-16": "atlas-350-16",
    "chip1-node16": "atlas-350-16",
}


def known_profile(name: str) -> HardwareProfile | None:
    """The profile by our name or the vendor's; the Ascend 910 for an empty name, None if unknown."""
    return RING_PROFILES.get(ALSO_CALLED.get(name, name) or DEFAULT)


def ring_profile(name: str) -> HardwareProfile:
    """The profile by our name or the vendor's; the Ascend 910 for an empty name.

    Raises:
        InputError: the name is unknown; the text lists all profiles.
    """
    profile = known_profile(name)
    if profile is None:
        raise InputError(f"hardware profile {name!r} is unknown; use one of {', '.join(RING_PROFILES)}")
    return profile


@dataclass(frozen=True, slots=True)
class Task:
    """Equal pods of a job."""

    name: str
    pods: int
    devices: int  # per pod


def job_refused(tasks: Sequence[Task], profile: HardwareProfile, shape: JobShape = "strict") -> Reason | None:
    """The reason why a job can't have this shape; None if it can, or if it requests no devices."""
    asking = [task for task in tasks if task.devices and task.pods > 0]  # pods without devices are ignored
    total = sum(task.pods * task.devices for task in asking)
    if shape == "per-pod" or not profile.one_pod_up_to:
        return _each_pod(asking, profile)
    return _one_pod(asking, profile, total) if total <= profile.one_pod_up_to else _full_pods(asking, profile, total)


def total_refused(devices: int, profile: HardwareProfile, shape: JobShape = "strict") -> Reason | None:
    """The reason why no job can request that many devices in total, however many pods it has; None if one can."""
    whole = profile.one_pod_up_to
    if shape == "per-pod" or not whole or devices <= 0:
        return None
    if devices <= whole:
        return _each_pod([Task("", 1, devices)], profile)
    return Reason("003.count", asked=devices, found=whole, kind="multiple") if devices % whole else None


def _one_pod(tasks: Sequence[Task], profile: HardwareProfile, total: int) -> Reason | None:
    # rule 003.one-pod: a job of up to eight devices is one pod.
    pods = sum(task.pods for task in tasks)
    if pods > 1:
        return Reason("003.one-pod", asked=(total, pods), found=profile.one_pod_up_to, kind="one pod")
    return _each_pod(tasks, profile)


def _full_pods(tasks: Sequence[Task], profile: HardwareProfile, total: int) -> Reason | None:
    whole = profile.one_pod_up_to
    # rule 003.count: a larger job has 8xN devices.
    if total % whole:
        return Reason("003.count", asked=total, found=whole, kind="multiple")
    # rule 003.one-pod: and eight per pod.
    uneven = next((task for task in tasks if task.devices != whole), None)
    if uneven:
        return Reason("003.one-pod", asked=uneven.devices, found=whole, kind="full pods", noun=uneven.name)
    return None


def _each_pod(tasks: Sequence[Task], profile: HardwareProfile) -> Reason | None:
    bad = next((task.devices for task in tasks if profile.span(task.devices) is None), None)
    return None if bad is None else Reason("003.count", asked=bad, found=profile.counts(), noun=profile.name)
