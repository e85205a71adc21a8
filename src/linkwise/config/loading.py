"""Settings of the service, merged from defaults, the YAML file, the environment and flags, in this order.

All problems are reported at once, those of the file with line and column, so that they can be fixed in one pass. Variables are
LINKWISE_<SECTION>_<KEY>, and those of gpushare's manifests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from linkwise.config.schema import (
    REMOVED,
    SCHEMA,
    SECRET,
    SettingValue,
    build_settings,
    check_together,
    describe,
    hint,
    refusal,
)
from linkwise.config.yaml_documents import content_of, duplicate_keys, is_null, pairs, place_of, plain, root_of
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.config.schema import Setting
    from linkwise.config.settings import ServeSettings

__all__ = [
    "FILE",
    "GPUSHARE",
    "IN_CLUSTER",
    "LoadedSettings",
    "from_environment",
    "from_file",
    "from_text",
    "load",
    "load_text",
    "load_with_sources",
]

NO_FLAGS: Final[Mapping[str, object]] = {}
FILE: Final = "LINKWISE_CONFIG"
"""path of the settings file, unless a flag sets it"""
IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"
"""set by the kubelet in every container"""
GPUSHARE: Final[Mapping[str, str]] = {"PORT": "http.port", "LOG_LEVEL": "log.level", "NODE_NAME": "agent.node"}
"""as in gpushare's manifests; an empty value counts as unset"""
_PREFIX: Final = "LINKWISE_"
_VARIABLES: Final = {setting.variable: setting for setting in SCHEMA.values() if setting.variable}
_TABLES: Final = {f"LINKWISE_{name.replace('.', '_').upper()}": name for name in SCHEMA if not SCHEMA[name].variable}
_REMOVED: Final = {f"LINKWISE_{name.replace('.', '_').upper()}": sentence for name, sentence in REMOVED.items()}
# The kubelet sets these for a Service called linkwise or linkwise-*; those ending in PORT contain a URL.
_OF_A_SERVICE: Final = re.compile(
    r"LINKWISE_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_OF_TESTS: Final = re.compile(r"LINKWISE_E2E(?:_\w+)?")
"""set by `make e2e`, and inherited by the services that it starts"""
_URL: Final = re.compile(r"(?:tcp|udp|sctp)://.*")
_SWITCHES: Final = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,30}")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SECTIONS: Final = frozenset(
    ".".join(name.split(".")[:depth]) for name in SCHEMA for depth in range(1, name.count(".") + 1)
)
_QUOTED: Final = frozenset({"text", "choice", "list", "table"})


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Every setting by name, with its source, and all problems."""

    values: Mapping[str, SettingValue]
    problems: tuple[Problem, ...]


def load(file: Path | None, environ: Mapping[str, str], flags: Mapping[str, object] = NO_FLAGS) -> ServeSettings:
    """Load the settings of the service.

    Args:
        file: a YAML file; None reads the file of LINKWISE_CONFIG, if that is set
        environ: the environment, as in `os.environ`
        flags: values by setting name, such as `{"http.port": 8080}`; None for a flag that is not set

    Raises:
        InputError: a setting is invalid; the message has one line per problem, with its place.
    """
    loaded = load_with_sources(file, environ, flags)
    if loaded.problems:
        raise refusal(loaded.problems)
    return build_settings({name: value.value for name, value in loaded.values.items()})


def load_text(content: bytes, place: str) -> tuple[ServeSettings, tuple[Problem, ...]]:
    """The settings in a text of another process, and its problems; what is invalid there keeps its default.

    Raises:
        InputError: it is not YAML at all.
    """
    values, problems = from_text(content, place)
    merged = _defaults({}) | values
    settings = build_settings({name: value.value for name, value in merged.items()})
    return settings, (*problems, *_contradictions(merged))


def load_with_sources(
    file: Path | None, environ: Mapping[str, str], flags: Mapping[str, object] = NO_FLAGS
) -> LoadedSettings:
    """Every setting with its source, and all problems; InputError only if the file can't be read at all."""
    if file is None and environ.get(FILE):
        file = Path(environ[FILE])
    in_file, problems = from_file(file) if file else ({}, [])
    in_environment, more = from_environment(environ)
    in_flags, last = _from_flags(flags)
    values = {**_defaults(environ), **in_file, **in_environment, **in_flags}
    return LoadedSettings(values, (*problems, *more, *last, *_contradictions(values)))


def from_environment(environ: Mapping[str, str]) -> tuple[dict[str, SettingValue], list[Problem]]:
    """Settings by name, and problems; Linkwise's variables take precedence over gpushare's."""
    values: dict[str, SettingValue] = {}
    problems: list[Problem] = []
    gpushare = {variable: SCHEMA[name] for variable, name in GPUSHARE.items() if environ.get(variable)}
    ours = {variable: setting for variable, setting in _VARIABLES.items() if _is_set(variable, environ)}
    for variable, setting in (gpushare | ours).items():
        text = environ[variable].lower() if variable == "LOG_LEVEL" else environ[variable]
        try:
            values[setting.name] = SettingValue(setting.checked(_value(setting, text)), "environment", variable)
        except ValueError as error:
            problems.append(Problem("environment", variable, str(error)))
    return values, [*problems, *_unknown(environ)]


def from_file(file: Path) -> tuple[dict[str, SettingValue], list[Problem]]:
    """Settings by name, and problems; InputError if the file can't be read at all."""
    return from_text(content_of(file), "standard input" if str(file) == "-" else str(file))


def from_text(content: bytes, name: str) -> tuple[dict[str, SettingValue], list[Problem]]:
    """Settings by name, and problems; InputError if the text is not YAML. `name` is where it comes from."""
    reader = _SettingsReader(name)
    root = root_of(content, name)
    if root is not None:
        reader.section(root, "")
    return reader.values, [problem for _, problem in sorted(reader.problems, key=lambda entry: entry[0])]


class _SettingsReader:
    """Walks a file along the schema."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.values: dict[str, SettingValue] = {}
        self.problems: list[tuple[tuple[int, int], Problem]] = []
        """by line and column"""

    def section(self, node: yaml.Node, name: str) -> None:
        """Read all settings of a section; an empty one sets nothing."""
        if is_null(node):
            return
        if not isinstance(node, yaml.MappingNode):
            self._report(node, name or "the file", f"expected a section with {', '.join(_inside(name))}")
            return
        for key, place, line in duplicate_keys(node):
            self._report(place, _join(name, key), f"duplicate key, first set in line {line}")
        for key, place, value in pairs(node):
            inner = _join(name, key)
            if inner in SCHEMA:
                self._read(SCHEMA[inner], value)
            elif inner in _SECTIONS:
                self.section(value, inner)
            else:
                self._report(place, inner, REMOVED.get(inner) or f"unknown setting{_nearest(name, key)}")

    def _read(self, setting: Setting, node: yaml.Node) -> None:
        try:
            value = setting.checked(self._value(setting, node))
        except ValueError as error:
            self._report(node, setting.name, str(error))
            return
        place = f"{self.file}:{node.start_mark.line + 1}"
        self.values[setting.name] = SettingValue(value, "file", place)

    def _value(self, setting: Setting, node: yaml.Node) -> object:
        if isinstance(node, yaml.MappingNode):
            for key, place, line in duplicate_keys(node):
                self._report(place, f"{setting.name}.{key}", f"duplicate key, first set in line {line}")
        value = plain(node)
        items = value if isinstance(value, list) else value.values() if isinstance(value, dict) else [value]
        if setting.kind in _QUOTED and any(isinstance(item, bool | int | float) for item in items):
            unquoted = next(item for item in items if not isinstance(item, str))
            which = "it" if setting.name in SECRET else describe(unquoted)
            raise ValueError(f"expected {setting.expected()}; put {which} in quotes to make it text")
        return tuple(value) if isinstance(value, list) else value

    def _report(self, node: yaml.Node, name: str, sentence: str) -> None:
        mark = node.start_mark
        self.problems.append(((mark.line, mark.column), Problem(f"{self.file}:{place_of(node)}", name, sentence)))


def _defaults(environ: Mapping[str, str]) -> dict[str, SettingValue]:
    values = {name: SettingValue(setting.default, "default") for name, setting in SCHEMA.items()}
    if environ.get(IN_CLUSTER):
        # In a cluster kube-scheduler and Prometheus call from other pods; elsewhere only local callers are expected.
        for name in ("http.host", "agent.host", "webhook.host"):
            values[name] = SettingValue("0.0.0.0", "default", "in a cluster")  # noqa: S104 - see above
    return values


def _contradictions(values: Mapping[str, SettingValue]) -> list[Problem]:
    return [
        Problem(values[name].place or values[name].source, name, sentence)
        for name, sentence in check_together({name: value.value for name, value in values.items()})
    ]


def _from_flags(flags: Mapping[str, object]) -> tuple[dict[str, SettingValue], list[Problem]]:
    values: dict[str, SettingValue] = {}
    problems: list[Problem] = []
    for name, value in flags.items():
        if value is None:
            continue
        if name not in SCHEMA:
            problems.append(Problem("flags", name, f"unknown setting{hint(name, SCHEMA)}"))
            continue
        try:
            values[name] = SettingValue(SCHEMA[name].checked(value), "flag")
        except ValueError as error:
            problems.append(Problem("flags", name, str(error)))
    return values, problems


def _is_set(variable: str, environ: Mapping[str, str]) -> bool:
    return variable in environ and not _of_a_service(variable, environ[variable])


def _of_a_service(variable: str, value: str) -> bool:
    """Whether the kubelet set it for a Service."""
    return bool(_OF_A_SERVICE.fullmatch(variable) or (variable.endswith("PORT") and _URL.fullmatch(value)))


def _value(setting: Setting, text: str) -> object:
    """The text parsed as the setting's type, or unchanged if it can't be, so that validation reports it."""
    match setting.kind:
        case "whole number" if _WHOLE.fullmatch(text):
            return int(text)
        case "number" if _NUMBER.fullmatch(text):
            return float(text)
        case "switch":
            return _SWITCHES.get(text.lower(), text)
        case "list":
            return tuple(item.strip() for item in text.split(",") if item.strip())
        case "whole numbers":
            items = [item.strip() for item in text.split(",") if item.strip()]
            return tuple(int(item) if _WHOLE.fullmatch(item) else item for item in items)
        case _:
            return text


def _unknown(environ: Mapping[str, str]) -> list[Problem]:
    """Problems of LINKWISE_ variables that are not a setting."""
    problems = []
    for variable, value in environ.items():
        known = variable in _VARIABLES or variable == FILE or _OF_TESTS.fullmatch(variable)
        if known or not variable.startswith(_PREFIX):
            continue
        if variable in _TABLES:
            problems.append(Problem("environment", variable, f"{_TABLES[variable]} can only be set in a file"))
        elif variable in _REMOVED:
            problems.append(Problem("environment", variable, _REMOVED[variable]))
        elif not _of_a_service(variable, value):
            near = get_close_matches(
                variable.removeprefix(_PREFIX), [name.removeprefix(_PREFIX) for name in _VARIABLES], 1
            )
            help_text = f"did you mean {_PREFIX}{near[0]}?" if near else "`linkwise config check` lists all settings"
            problems.append(Problem("environment", variable, f"unknown setting; {help_text}"))
    return problems


def _inside(section: str) -> list[str]:
    """The keys of a section."""
    start = f"{section}." if section else ""
    return list(dict.fromkeys(name.removeprefix(start).split(".")[0] for name in SCHEMA if name.startswith(start)))


def _join(section: str, key: str) -> str:
    return f"{section}.{key}" if section else key


def _nearest(section: str, key: str) -> str:
    """A hint at the closest key of this section, or at the same key of another."""
    near = hint(key, _inside(section))
    if "did you mean" in near:
        return near
    same_key = [name for name in SCHEMA if name.rpartition(".")[2] == key]
    return f"; did you mean {same_key[0]}?" if same_key else near
