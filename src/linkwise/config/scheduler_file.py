"""Configuration of a kube-scheduler, read: its extenders, with the lines that they are in.

Supported are KubeSchedulerConfiguration and the policy file that it replaced; fields that Linkwise does not depend on are
left alone. What can't be read is a problem with its line, and never an exception: the file is another program's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import yaml

from linkwise.config.legacy_policy import GPUSHARE
from linkwise.config.yaml_documents import pairs, plain, root_of
from linkwise.dialects.registry import managed_resources
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ExtenderEntry", "ManagedResource", "SchedulerDocument", "is_loopback", "read_scheduler_text"]

CONFIGURATION: Final = "KubeSchedulerConfiguration"
POLICY: Final = "Policy"
DEFAULT_TIMEOUT: Final = 5.0
"""seconds, of kube-scheduler for an extender without httpTimeout"""
_PORTS: Final = {"http": 80, "https": 443}
_NANOSECONDS: Final = 10**9
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_VERBS: Final = ("filterVerb", "prioritizeVerb", "preemptVerb", "bindVerb")


@dataclass(frozen=True, slots=True)
class ManagedResource:
    """A resource of an extender."""

    name: str
    ignored: bool
    """ignoredByScheduler"""


@dataclass(frozen=True, slots=True)
class ExtenderEntry:
    """One extender of a configuration."""

    line: int
    url: str
    verbs: Mapping[str, str]
    """those that are set, by their field"""
    weight: int
    https: bool
    """enableHTTPS"""
    tls: Mapping[str, object]
    timeout: float  # seconds
    node_cache: bool
    ignorable: bool
    managed: tuple[ManagedResource, ...] | None
    """None if every pod is sent"""

    @property
    def scheme(self) -> str:
        """How it is called: kube-scheduler takes that of the URL, and enableHTTPS for a URL without one."""
        return urlsplit(self.url).scheme or ("https" if self.https else "http")

    @property
    def host(self) -> str:
        """The host of the URL; empty if there is none."""
        return _address(self.url)[0]

    @property
    def port(self) -> int:
        """The port of the URL, by default that of its scheme."""
        return _address(self.url)[1]

    @property
    def loopback(self) -> bool:
        """Whether only the scheduler's own host can be meant."""
        return is_loopback(self.host)


@dataclass(frozen=True, slots=True)
class SchedulerDocument:
    """A configuration, and where it was found."""

    place: str
    """a file, or a ConfigMap with its key"""
    kind: str = ""
    sampling: int | None = None
    """percentageOfNodesToScore; None if it is not set"""
    schedulers: tuple[str, ...] = ()
    """names of its profiles"""
    lease: tuple[str, str] | None = None
    """namespace and name of the lease by which replicas elect a leader; None without an election"""
    extenders: tuple[ExtenderEntry, ...] = ()
    problem: str = ""
    """why it can't be read, with the line"""
    local: bool = field(default=False, kw_only=True)
    """whether it is a file of this machine, so that its addresses can be tried from here"""

    @property
    def ours(self) -> ExtenderEntry | None:
        """The extender that is Linkwise: by the host or the path of its URL, by a managed resource, or the only one."""
        named = [each for each in self.extenders if "linkwise" in each.host or GPUSHARE in each.url]
        managing = [each for each in self.extenders if any(one.name in _managed() for one in each.managed or ())]
        return next((extenders[0] for extenders in (named, managing) if extenders), None)


def read_scheduler_text(content: bytes, place: str, *, local: bool = False) -> SchedulerDocument | None:
    """Read a configuration; None if the document is of another kind."""
    try:
        root = root_of(content, place)
    except InputError as error:
        return SchedulerDocument(place, problem=str(error), local=local)
    if not isinstance(root, yaml.MappingNode):
        return None
    fields = {name: value for name, _, value in pairs(root)}
    kind = _text(fields.get("kind"))
    if kind not in {CONFIGURATION, POLICY}:
        return None
    try:
        listed = fields.get("extenders")
        nodes = listed.value if isinstance(listed, yaml.SequenceNode) else []
        extenders = tuple(_extender(node) for node in nodes if isinstance(node, yaml.MappingNode))
        raw = plain(root, depth=16)
    except ValueError as error:
        return SchedulerDocument(place, kind, problem=f"{place}: {error}", local=local)
    content_of = raw if isinstance(raw, dict) else {}
    names, shares = _profiles(content_of)
    sampling = _number(content_of.get("percentageOfNodesToScore"))
    lowest = min([value for value in (sampling, *shares) if value is not None], default=None)
    return SchedulerDocument(place, kind, lowest, names, _lease(content_of), extenders, local=local)


def is_loopback(host: str) -> bool:
    """Whether a host name or address is that of the caller's own machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _profiles(raw: Mapping[str, object]) -> tuple[tuple[str, ...], list[int | None]]:
    """Names of the profiles, and their own percentages."""
    listed = raw.get("profiles")
    profiles = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    names = tuple(str(each.get("schedulerName") or "default-scheduler") for each in profiles)
    return names or ("default-scheduler",), [_number(each.get("percentageOfNodesToScore")) for each in profiles]


def _lease(raw: Mapping[str, object]) -> tuple[str, str] | None:
    election = raw.get("leaderElection")
    election = election if isinstance(election, dict) else {}
    if election.get("leaderElect") is False:
        return None
    namespace, name = election.get("resourceNamespace"), election.get("resourceName")
    return str(namespace or "kube-system"), str(name or "kube-scheduler")


def _extender(node: yaml.MappingNode) -> ExtenderEntry:
    raw = plain(node, depth=8)
    values: dict[str, object] = raw if isinstance(raw, dict) else {}
    tls = values.get("tlsConfig")
    return ExtenderEntry(
        line=node.start_mark.line + 1,
        url=str(values.get("urlPrefix") or ""),
        verbs={key: str(values[key]) for key in _VERBS if values.get(key)},
        weight=_number(values.get("weight")) or 0,
        https=bool(values.get("enableHTTPS", values.get("enableHttps"))),
        tls=tls if isinstance(tls, dict) else {},
        timeout=_timeout(values.get("httpTimeout")),
        node_cache=values.get("nodeCacheCapable") is True,
        ignorable=values.get("ignorable") is True,
        managed=_resources(values.get("managedResources")),
    )


def _resources(raw: object) -> tuple[ManagedResource, ...] | None:
    if not isinstance(raw, list) or not raw:
        return None
    entries = [each for each in raw if isinstance(each, dict)]
    return tuple(ManagedResource(str(each.get("name")), each.get("ignoredByScheduler") is True) for each in entries)


def _timeout(raw: object) -> float:
    """Seconds: a Go duration, or the nanoseconds of a policy file; the default for none and for what is not one."""
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw / _NANOSECONDS if raw else DEFAULT_TIMEOUT
    parts = _DURATION.findall(raw) if isinstance(raw, str) else []
    return sum(float(amount) * _SECONDS[unit] for amount, unit in parts) or DEFAULT_TIMEOUT


def _address(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        return parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return "", 0


def _number(raw: object) -> int | None:
    return raw if isinstance(raw, int) and not isinstance(raw, bool) else None


def _text(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _managed() -> frozenset[str]:
    return frozenset(name for names in managed_resources().values() for name in names)
