"""Settings of the service, merged from defaults, the file, the environment and flags, in this order.

All problems are reported at once, so that they can be fixed in one pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from linkwise.config.environment import FILE, IN_CLUSTER, from_environment
from linkwise.config.schema import SCHEMA, SettingValue, build_settings, refusal
from linkwise.config.validation import check_together, hint
from linkwise.config.yaml_file import from_file, from_text
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.config.settings import ServeSettings

__all__ = ["LoadedSettings", "load", "load_text", "load_with_sources"]

NO_FLAGS: Final[Mapping[str, object]] = {}


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


def _contradictions(values: Mapping[str, SettingValue]) -> list[Problem]:
    return [
        Problem(values[name].place or values[name].source, name, sentence)
        for name, sentence in check_together({name: value.value for name, value in values.items()})
    ]


def _defaults(environ: Mapping[str, str]) -> dict[str, SettingValue]:
    values = {name: SettingValue(setting.default, "default") for name, setting in SCHEMA.items()}
    if environ.get(IN_CLUSTER):
        # In a cluster kube-scheduler and Prometheus call from other pods; elsewhere only local callers are expected.
        for name in ("http.host", "agent.host", "webhook.host"):
            values[name] = SettingValue("0.0.0.0", "default", "in a cluster")  # noqa: S104 - see above
    return values


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
