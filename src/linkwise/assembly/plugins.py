"""Plug-ins: vendors, dialects and policies of other distributions, found by their entry points.

A distribution offers a `Vendor` in the group `linkwise.vendors`, a `Dialect` in `linkwise.dialects` and a `Policy` in
`linkwise.policies`. They are loaded once, at start; one that can't be used stops the start.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from importlib.metadata import EntryPoint

__all__ = ["GROUPS", "Plugin", "load_plugins", "register_plugins"]

VENDORS, DIALECTS, POLICIES = GROUPS = ("linkwise.vendors", "linkwise.dialects", "linkwise.policies")
"""in the order in which they are registered: a dialect names policies, which are checked at the end"""

_SECTION: Final = b"[linkwise."


class Plugin(NamedTuple):
    """One entry point, to be named in messages."""

    group: str
    name: str
    distribution: str

    def __str__(self) -> str:
        return f"plug-in {self.distribution}, entry point {self.name!r} in {self.group}"


@cache
def load_plugins() -> tuple[Plugin, ...]:
    """Register the plug-ins of this environment, once per process.

    Raises:
        PluginError: one can't be imported or registered; the sentence names the distribution and the entry point.
    """
    return register_plugins(_entry_points()) if _any_offered(sys.path) else ()


def register_plugins(entry_points: Iterable[EntryPoint]) -> tuple[Plugin, ...]:
    """Load these entry points and register what they refer to."""
    plugins: list[Plugin] = []
    for point in sorted(entry_points, key=lambda point: (GROUPS.index(point.group), _distribution(point), point.name)):
        plugin = Plugin(point.group, point.name, _distribution(point))
        try:
            value = point.load()
        except Exception as error:
            raise PluginError(f"{plugin}: can't load {point.value}: {type(error).__name__}: {error}") from error
        try:
            _register(point.group, value)
        except PluginError as error:
            raise PluginError(f"{plugin}: {error}") from error
        plugins.append(plugin)
    if plugins:
        _check_default_policies()
    return tuple(plugins)


def _register(group: str, value: object) -> None:
    _REGISTER[group](value)


def _register_vendor(value: object) -> None:
    from linkwise.vendors.registry import register  # noqa: PLC0415 - only if there is a vendor to register

    register(value)


def _register_dialect(value: object) -> None:
    from linkwise.dialects.registry import register  # noqa: PLC0415 - same

    register(value)


def _register_policy(value: object) -> None:
    from linkwise.policies.registry import register  # noqa: PLC0415 - same

    register(value)


_REGISTER: Final[Mapping[str, Callable[[object], None]]] = {
    VENDORS: _register_vendor,
    DIALECTS: _register_dialect,
    POLICIES: _register_policy,
}


def _check_default_policies() -> None:
    """Check what no registry can alone: that the policies which dialects name are registered."""
    from linkwise.dialects import registry as dialects  # noqa: PLC0415 - only if there are plug-ins
    from linkwise.policies import registry as policies  # noqa: PLC0415 - same

    for dialect in dialects.DIALECTS:
        for name in dialect.policies:
            if name not in policies.POLICIES:
                known = ", ".join(policies.POLICIES)
                raise PluginError(f"dialect {dialect.name!r}: default policy {name!r} is not registered: {known}")


def _entry_points() -> list[EntryPoint]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and most environments have no plug-in

    return [point for group in GROUPS for point in entry_points(group=group)]


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "unknown"


def _any_offered(path: Iterable[str]) -> bool:
    """Whether any installed distribution may declare plug-ins.

    importlib.metadata costs more than everything else a short command does, so the files that it would parse are
    searched first. A place that is not a folder (an archive) is left to it.
    """
    return any(_offers(place or ".") for place in dict.fromkeys(path))


def _offers(place: str) -> bool:
    try:
        names = [name for name in os.listdir(place) if name.endswith((".dist-info", ".egg-info"))]  # noqa: PTH208 - quick
    except NotADirectoryError:
        return True
    except OSError:
        return False
    return any(_SECTION in _content(f"{place}/{name}/entry_points.txt") for name in names)


def _content(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:  # noqa: PTH123 - pathlib is slow to import
            return opened.read()
    except OSError:
        return b""
