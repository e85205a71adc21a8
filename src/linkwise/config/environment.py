"""Settings from environment variables: LINKWISE_<SECTION>_<KEY>, and those of gpushare's manifests."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from linkwise.config.schema import SCHEMA, SettingValue
from linkwise.config.validation import REMOVED
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.config.schema import Setting

__all__ = ["FILE", "GPUSHARE", "IN_CLUSTER", "from_environment"]

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


def _is_set(variable: str, environ: Mapping[str, str]) -> bool:
    return variable in environ and not _of_a_service(variable, environ[variable])


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
