"""What a pod's containers add up to, as Kubernetes counts: init containers reuse, sidecars add.

Ordinary init containers run one after the other before the others, so that the largest counts, beside the sidecars
started before it; sidecars (init containers that are restarted always) run on and are added to the others.

Kubernetes quantities: 1, 500m, 16Gi, 10G, 1e3.
"""
# Joined from effective, quantity: one docstring for all.

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

from linkwise.errors import InputError
from linkwise.model.views import ContainerView

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.model.views import PodView

__all__ = ["amount", "by_container", "combined", "effective", "quantity", "resources_of", "whole_quantity"]

N = TypeVar("N", int, "Decimal")

_NOTHING: Final = ContainerView("")
"""measured, it gives zero in the numbers that a measure uses"""


def amount(container: ContainerView, resource: str) -> int:
    """How many of a countable resource a container asks for: its request, or else its limit; InputError if broken."""
    text = container.requests.get(resource, container.limits.get(resource))
    return 0 if text is None else whole_quantity(text)


def by_container(pod: PodView, resource: str) -> dict[str, int]:
    """What each container and sidecar holds while the pod runs.

    An init container hands on what it had, so that only what it needs beyond all of them is listed under its name.
    """
    names = [found.name for found in pod.containers]
    if len(set(names)) < len(names):
        raise InputError(f"two containers are called {next(name for name in names if names.count(name) > 1)!r}")
    if whole_quantity(pod.overhead.get(resource, "0")):
        raise InputError(f"{resource} is in the pod's overhead, and no container could use it")
    held = {found.name: amount(found, resource) for found in pod.containers if not found.init or found.sidecar}
    beyond = effective(pod, resource) - sum(held.values())
    if beyond > 0:
        init = (found for found in pod.containers if found.init and not found.sidecar)
        held[max(init, key=lambda found: amount(found, resource)).name] = beyond
    return {name: count for name, count in held.items() if count}


def effective(pod: PodView, resource: str) -> int:
    """How many of a countable resource the pod takes of its node."""
    return combined(pod, lambda container: amount(container, resource)) + whole_quantity(
        pod.overhead.get(resource, "0")
    )


def resources_of(pod: PodView) -> tuple[str, ...]:
    """Every resource that any container names, each once, in the order of the pod."""
    return tuple(
        dict.fromkeys(name for container in pod.containers for name in (*container.limits, *container.requests))
    )


def combined(pod: PodView, measure: Callable[[ContainerView], N]) -> N:
    """What a measure of single containers comes to for all of them, without what the runtime class adds."""
    running = sidecars = peak = measure(_NOTHING)
    for found in pod.containers:
        part = measure(found)
        if not found.init:
            running += part
        elif found.sidecar:
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
    """The number that a quantity means; InputError if it is none."""
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or (found[3] or "") not in {*_BINARY, *_DECIMAL}:
        raise InputError(f"{text!r} is no quantity: write 1, 500m or 16Gi")
    number, exponent, suffix = Decimal(found[1]), found[2], found[3] or ""
    if exponent:
        return number.scaleb(int(exponent[1:]))
    return number * Decimal(1024) ** _BINARY[suffix] if suffix in _BINARY else number.scaleb(_DECIMAL[suffix])


@lru_cache(maxsize=4096)
def whole_quantity(text: str) -> int:
    """A quantity that counts things; InputError if it is negative or no whole number."""
    number = quantity(text)
    if number < 0 or number != number.to_integral_value():
        raise InputError(f"{text!r} is no count: a whole number of 0 or more is expected")
    return int(number)
