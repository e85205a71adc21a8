"""Effective resource requests of a pod, as Kubernetes counts them, and quantities such as 1, 500m, 16Gi, 10G, 1e3.

Ordinary init containers run one after the other before the others, so the largest counts, together with the sidecars
started before it. Sidecars (init containers with restartPolicy Always) keep running and are added to the others.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

from linkwise.dialects.json_fields import shown
from linkwise.errors import InputError
from linkwise.model.views import ContainerView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.model.views import PodView

__all__ = [
    "amount",
    "by_container",
    "combined",
    "effective",
    "quantity",
    "resources_of",
    "whole_quantity",
    "with_resources_renamed",
]

N = TypeVar("N", int, "Decimal")

_NOTHING: Final = ContainerView("")
"""its measure is zero, in the numbers that the measure uses"""


def amount(container: ContainerView, resource: str) -> int:
    """A container's request for a countable resource, or else its limit; InputError if it is invalid."""
    text = container.requests.get(resource, container.limits.get(resource))
    return 0 if text is None else whole_quantity(text)


def by_container(pod: PodView, resource: str) -> dict[str, int]:
    """Amount of each container and sidecar while the pod runs.

    An init container passes on its amount, so only what it needs beyond all of them is listed under its name.
    """
    names = [container.name for container in pod.containers]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"two containers are named {shown(twice)}; rename one of them")
    if whole_quantity(pod.overhead.get(resource, "0")):
        raise InputError(
            f"{resource} is in the pod's overhead, where no container can use it; request it in a container"
        )
    running = [container for container in pod.containers if not container.init or container.sidecar]
    amounts = {container.name: amount(container, resource) for container in running}
    beyond = effective(pod, resource) - sum(amounts.values())
    if beyond > 0:
        init = (container for container in pod.containers if container.init and not container.sidecar)
        amounts[max(init, key=lambda container: amount(container, resource)).name] = beyond
    return {name: count for name, count in amounts.items() if count}


def effective(pod: PodView, resource: str) -> int:
    """The pod's total of a countable resource on its node, overhead included."""
    return combined(pod, lambda container: amount(container, resource)) + whole_quantity(
        pod.overhead.get(resource, "0")
    )


def resources_of(pod: PodView) -> tuple[str, ...]:
    """Resources that the containers name, each once, in the order of the pod."""
    return tuple(
        dict.fromkeys(name for container in pod.containers for name in (*container.limits, *container.requests))
    )


def with_resources_renamed(pod: PodView, names: Mapping[str, str]) -> PodView:
    """The pod with other names of its resources; the pod itself if it has none of the old ones."""
    if names.keys().isdisjoint(resources_of(pod)):
        return pod

    def renamed(amounts: Mapping[str, str]) -> dict[str, str]:
        return {names.get(name, name): text for name, text in amounts.items()}

    containers = (
        replace(container, limits=renamed(container.limits), requests=renamed(container.requests))
        for container in pod.containers
    )
    return replace(pod, containers=tuple(containers))


def combined(pod: PodView, measure: Callable[[ContainerView], N]) -> N:
    """Combine a measure of single containers into that of the pod, without the overhead of the runtime class."""
    running = sidecars = peak = measure(_NOTHING)
    for container in pod.containers:
        part = measure(container)
        if not container.init:
            running += part
        elif container.sidecar:
            sidecars += part
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + part)
    return max(running + sidecars, peak)


_QUANTITY: Final = re.compile(
    r"([+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40}))(?:([eE][+-]?[0-9]{1,3})|([numkMGTPE]i?|Ki|))"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


@lru_cache(maxsize=4096)
def quantity(text: str) -> Decimal:
    """The number of a quantity; InputError if the text is not one."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or (match[3] or "") not in {*_BINARY, *_DECIMAL}:
        raise InputError(f"{shown(text)} is not a quantity; write 1, 500m or 16Gi")
    number, exponent, suffix = Decimal(match[1]), match[2], match[3] or ""
    if exponent:
        return number.scaleb(int(exponent[1:]))
    return number * Decimal(1024) ** _BINARY[suffix] if suffix in _BINARY else number.scaleb(_DECIMAL[suffix])


@lru_cache(maxsize=4096)
def whole_quantity(text: str) -> int:
    """A quantity that counts things; InputError if it is negative or not a whole number."""
    number = quantity(text)
    if number < 0 or number != number.to_integral_value():
        raise InputError(f"{shown(text)} is not a whole number of 0 or more")
    return int(number)
