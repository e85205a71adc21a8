"""Schema of the settings: name, type, default and validation of each, derived from the settings dataclasses."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import get_close_matches
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from linkwise.config.rbac import OPTIONAL
from linkwise.config.settings import ServeSettings
from linkwise.dialects.groups.owners import MODES
from linkwise.dialects.registry import owners
from linkwise.errors import InputError
from linkwise.policies.registry import POLICIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = [
    "LIMITS",
    "REMOVED",
    "SCHEMA",
    "SECRET",
    "Kind",
    "Setting",
    "SettingValue",
    "Source",
    "build_settings",
    "check_together",
    "check_value",
    "describe",
    "hint",
    "range_text",
    "refusal",
]

SECRET: Final = frozenset({"debug.token"})
"""settings whose values are never printed"""

LIMITS: Final[Mapping[str, tuple[float, float]]] = {
    "http.port": (0, 65535),
    "http.drain": (0, 3600),
    "tls.certificate_lifetime": (5, 1_000_000_000),
    "kube.page": (1, 10_000),
    "kube.resync": (0, 604_800),
    "kube.bind_timeout": (0.5, 60),
    "kube.wake_rate": (0.1, 10_000),
    "kube.wake_burst": (1, 100_000),
    "kube.event_rate": (0.1, 10_000),
    "kube.event_burst": (1, 100_000),
    "leader.lease_duration": (1, 3600),
    "leader.renew_deadline": (0.2, 3600),
    "leader.retry_period": (0.05, 3600),
    "explain.delay": (0, 3600),
    "explain.interval": (1, 3600),
    "explain.rate": (0.1, 10_000),
    "explain.burst": (1, 100_000),
    "explain.port": (0, 65535),
    "agent.port": (0, 65535),
    "webhook.port": (0, 65535),
    "volcano.port": (0, 65535),
    "webhook.certificate_lifetime": (5, 1_000_000_000),
    "agent.interval": (1, 3600),
    "agent.health.recovery": (0, 86_400),
    "agent.stranded.cpu": (0, 1024),
    "agent.stranded.memory": (0, 65536),
    "agent.usage.interval": (0, 3600),
    "agent.usage.publish_interval": (0, 3600),
    "agent.usage.threshold": (0, 100),
    "placing.breadth": (1, math.inf),
    "placing.pending": (0, 3600),
    "placing.rounds": (0, math.inf),
    "placing.budget": (1, math.inf),
    "placing.inventory_grace": (0, 604_800),
    "placing.bandwidth.floor": (0, math.inf),
    "placing.group.hold": (1, 86_400),
    "placing.group.longest_hold": (1, 86_400),
    "placing.group.grace": (0, 3600),
    "placing.group.window": (0, 3600),
    "placing.group.settle": (0, 60),
    "placing.group.steps": (1, math.inf),
    "placing.reservation.after": (0, 604_800),
    "placing.reservation.hold": (1, 604_800),
    "placing.reservation.count": (1, 1000),
    "placing.reservation.nodes": (1, 100_000),
    "placing.preemption.hold": (1, 86_400),
    "placing.volcano.booking": (1, 86_400),
}
"""minimum and maximum of numeric settings"""

REMOVED: Final[Mapping[str, str]] = {
    "placing.offer": (
        "this setting was removed: filter returns the best node, and several only for a pod with preferences of its own "
        "(placing.breadth); placing.rounds: 0 returns all nodes that fit"
    ),
    "placing.share.width": "this setting was removed: nodes are compared by the exact amount of free memory",
}
"""settings of earlier versions, and what replaced them"""

# An optional DNS prefix with a slash, and a name: the label keys that Kubernetes allows.
_LABEL: Final = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
)
_NAMESPACE: Final = re.compile(r"[a-z0-9*?](?:[a-z0-9*?-]{0,61}[a-z0-9*?])?")
_MAX_QUOTED: Final = 60
_MAX_XID: Final = 65535
_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9.]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f:.]{2,45}")
Check = Callable[[Any], str]
"""the problem with a value of the right type; empty if it is valid"""
_OBJECT: Final = "the name of an object, such as linkwise"
Kind = Literal["text", "whole number", "number", "switch", "choice", "list", "whole numbers", "table"]
_TYPES: Final[Mapping[Kind, Any]] = {
    "text": str,
    "whole number": int,
    "number": float,
    "switch": bool,
    "list": tuple[str, ...],
    "whole numbers": tuple[int, ...],
    "table": dict[str, str],
}
_KINDS: Final[Mapping[object, Kind]] = {type_: kind for kind, type_ in _TYPES.items()}
_WORDS: Final[Mapping[Kind, str]] = {
    "text": "text",
    "switch": "true or false",
    "list": "a list of texts",
    "whole numbers": "a list of whole numbers",
    "table": "a table of texts",
}
_ALSO_CALLED: Final[Mapping[tuple[str, object], str]] = {("log.level", "warn"): "warning"}
"""gpushare's name for it"""
Source = Literal["default", "file", "environment", "flag"]


def hint(word: str, known: Iterable[str]) -> str:
    """`; did you mean ...?` with the closest known name, or the list of all."""
    names = list(known)
    near = get_close_matches(word.casefold(), [name.casefold() for name in names], n=1)
    closest = next((name for name in names if near and name.casefold() == near[0]), "")
    return f"; did you mean {closest}?" if closest else f"; use one of {', '.join(names)}"


def describe(value: object) -> str:
    """A value for an error message."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}'" if len(value) <= _MAX_QUOTED else f"'{value[:_MAX_QUOTED]}...'"
    if isinstance(value, int | float):
        return "a number that is too large" if abs(value) >= 10**18 else str(value)
    return "a list" if isinstance(value, list | tuple) else "a table" if isinstance(value, dict) else str(value)


def range_text(name: str) -> str:
    """` from 1 to 65535`, or ` of 0 or more`; empty without limits."""
    low, high = LIMITS.get(name, (-math.inf, math.inf))
    if low == -math.inf:
        return ""
    return f" of {low:g} or more" if high == math.inf else f" from {low:g} to {high:g}"


def check_value(name: str, value: object) -> str:
    """The problem with a value of the right type; empty if it is valid."""
    return _CHECKS[name](value) if name in _CHECKS else ""


def check_together(values: Mapping[str, object]) -> list[tuple[str, str]]:
    """Settings that contradict each other, by name, with the problem."""
    return [*_lease_times(values), *_tls_files(values)]


def _tls_files(values: Mapping[str, object]) -> list[tuple[str, str]]:
    names = ("tls.cert_file", "tls.key_file", "tls.client_ca_file")
    missing = [name for name in names if not values[name]]
    if not values["tls.enabled"] or len(missing) in {0, len(names)}:
        return []
    return [(name, f"not set; {', '.join(names[:-1])} and {names[-1]} go together") for name in missing]


def _lease_times(values: Mapping[str, object]) -> list[tuple[str, str]]:
    names = ("leader.lease_duration", "leader.renew_deadline", "leader.retry_period", "kube.bind_timeout")
    duration, deadline, period, bind = (float(str(values[name])) for name in names)
    if not values["leader.enabled"]:
        return []
    problems = []
    if not period < deadline:
        problems.append((names[2], f"expected less than {names[1]}, {deadline:g} s, got {period:g} s"))
    if not deadline < duration:
        problems.append((names[1], f"expected less than {names[0]}, {duration:g} s, got {deadline:g} s"))
    elif not bind < duration - deadline:
        # A write that the old leader sent last must have ended before a new one decides.
        rest = f"{names[0]} - {names[1]}, {duration - deadline:g} s"
        problems.append(
            (names[3], f"expected less than {rest}, got {bind:g} s; make {names[0]} longer, or this shorter")
        )
    return problems


def _text(pattern: re.Pattern[str], expected: str) -> Check:
    return lambda value: "" if pattern.fullmatch(value) else f"expected {expected}, got {describe(value)}"


def _each(check: Check) -> Check:
    """A check of every item of a list; the first problem counts."""
    return lambda items: next((problem for item in items if (problem := check(item))), "")


def _ip_address(value: str) -> str:
    try:
        ip_address(value) if value else None
    except ValueError:
        return f"expected an IP address, such as 10.0.0.7, got {describe(value)}"
    return ""


def _feature(name: str) -> str:
    return "" if name in OPTIONAL else f"unknown feature {describe(name)}{hint(name, OPTIONAL)}"


def _host(name: str) -> str:
    return "" if _HOST.fullmatch(name) else f"{describe(name)} is neither a host name nor an address"


def _xid(number: int) -> str:
    valid = 0 < number <= _MAX_XID
    return "" if valid else f"expected numbers of Xid events, from 1 to {_MAX_XID}, got {describe(number)}"


def _token(value: str) -> str:
    valid = re.fullmatch(r"[!-~]*", value)
    return "" if valid else "expected printable ASCII characters without spaces, because it is sent in a header"


def _labels(keys: tuple[str, ...]) -> str:
    for key in keys:
        if not _LABEL.fullmatch(key):
            return f"{describe(key)} is not a valid label key"
        if keys.count(key) > 1:
            return f"{describe(key)} is listed twice"
    return ""


def _policies(table: Mapping[str, str]) -> str:
    for resource, policy in table.items():
        if not owners(resource):
            return f"{describe(resource)} is not a resource that Linkwise schedules"
        if policy not in POLICIES:
            return f"{resource}: unknown policy {policy}{hint(policy, POLICIES)}"
    return ""


def _owners(table: Mapping[str, str]) -> str:
    for namespace, mode in table.items():
        if not _NAMESPACE.fullmatch(namespace):
            return f"{describe(namespace)} is not a namespace; write its name, or a pattern such as team-*"
        if mode not in MODES:
            return f"{namespace}: unknown value {describe(mode)}{hint(mode, MODES)}"
    return ""


_address: Final = _text(re.compile(r"[^\s/]+"), "an address to listen on, such as 0.0.0.0")


_object_name: Final = _text(_NAME, _OBJECT)


_optional_name: Final = _text(re.compile(f"(?:{_NAME.pattern})?"), _OBJECT)


_CHECKS: Final[Mapping[str, Check]] = {
    "http.host": _address,
    "tls.secret": _object_name,
    "tls.client_secret": _object_name,
    "tls.service": _object_name,
    "tls.names": _each(_host),
    "agent.host": _address,
    "webhook.host": _address,
    "leader.lease": _object_name,
    "leader.namespace": _optional_name,
    "leader.service": _optional_name,
    "leader.identity": _text(re.compile(r"[!-~]{0,200}"), "at most 200 printable ASCII characters without spaces"),
    "leader.address": _ip_address,
    "webhook.scheduler": _object_name,
    "webhook.configuration": _object_name,
    "webhook.secret": _object_name,
    "webhook.service": _object_name,
    "webhook.names": _each(_host),
    "kube.without": _each(_feature),
    "debug.token": _token,
    "agent.health.ignored_xids": _each(_xid),
    "agent.health.fatal_xids": _each(_xid),
    "placing.group.network": _labels,
    "placing.group.owners": _owners,
    "placing.policies": _policies,
    "placing.volcano.schedulers": _each(_object_name),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting."""

    name: str
    """dotted path, such as `placing.group.hold`"""
    kind: Kind
    default: object
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The environment variable of the setting; empty for a table, which can only be set in a file."""
        return "" if self.kind == "table" else f"LINKWISE_{self.name.replace('.', '_').upper()}"

    def expected(self) -> str:
        """Description of the allowed values."""
        if self.kind == "choice":
            return f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"
        return _WORDS.get(self.kind) or f"a {self.kind}{range_text(self.name)}"

    def checked(self, value: object) -> object:
        """Validate and normalize a value.

        Raises:
            ValueError: the value has another type or is out of range; the message says what is expected.
        """
        value = _ALSO_CALLED.get((self.name, value), value) if isinstance(value, str) else value
        try:
            value = msgspec.convert(value, self._type)
        except msgspec.ValidationError:
            fits = False
        else:
            low, high = LIMITS.get(self.name, (-math.inf, math.inf))
            fits = not isinstance(value, int | float) or (low <= value <= high and value != math.inf)
        if not fits:
            got = "" if self.name in SECRET else f", got {describe(self._odd(value))}"
            raise ValueError(f"expected {self.expected()}{got}")
        if problem := check_value(self.name, value):
            raise ValueError(problem)
        return value

    @property
    def _type(self) -> Any:  # noqa: ANN401 - a type
        return Literal[self.choices] if self.kind == "choice" else _TYPES[self.kind]

    def _odd(self, value: object) -> object:
        """What does not fit: of a list of numbers the first other item, else the value."""
        items = value if self.kind == "whole numbers" and isinstance(value, tuple) else ()
        return next((item for item in items if type(item) is not int), value)


def build_settings(values: Mapping[str, object]) -> ServeSettings:
    """Build the settings from values by name."""
    settings: ServeSettings = _build(ServeSettings, "", values)
    return settings


def _build(of: Any, prefix: str, values: Mapping[str, object]) -> Any:  # noqa: ANN401 - any dataclass of settings
    hints = get_type_hints(of)
    arguments = {}
    for each in fields(of):
        name, inner = f"{prefix}{each.name}", hints[each.name]
        arguments[each.name] = _build(inner, f"{name}.", values) if is_dataclass(inner) else values[name]
    return of(**arguments)


def _settings(of: Any, prefix: str = "") -> Iterator[Setting]:  # noqa: ANN401 - any dataclass of settings
    hints = get_type_hints(of)
    for each in fields(of):
        name, hinted = f"{prefix}{each.name}", hints[each.name]
        if is_dataclass(hinted):
            yield from _settings(hinted, f"{name}.")
            continue
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if get_origin(hinted) is Literal:
            yield Setting(name, "choice", default, get_args(hinted))
        else:
            yield Setting(name, _KINDS[hinted], default)


SCHEMA: Final[Mapping[str, Setting]] = {setting.name: setting for setting in _settings(ServeSettings)}
"""all settings, in the order of their dataclasses"""


@dataclass(frozen=True, slots=True)
class SettingValue:
    """The value of a setting and its source."""

    value: object
    source: Source
    place: str = ""
    """`linkwise.yaml:3`, or the environment variable"""


def refusal(problems: Sequence[object]) -> InputError:
    """One error with all problems, one per line."""
    start = "" if len(problems) == 1 else f"{len(problems)} problems:\n  "
    return InputError(start + "\n  ".join(map(str, problems)))
