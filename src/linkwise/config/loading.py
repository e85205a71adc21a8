"""The settings of the service: defaults, then the file, then the environment, then flags.

All that is wrong is told at once, so that one look at it is enough to mend it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from linkwise.config.environment import FILE, IN_CLUSTER, from_environment
from linkwise.config.schema import SCHEMA, Given, built, refusal
from linkwise.config.validation import hint
from linkwise.config.yaml_file import from_file
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.config.settings import ServeSettings

__all__ = ["Loaded", "load", "look"]

NO_FLAGS: Final[Mapping[str, object]] = {}


@dataclass(frozen=True, slots=True)
class Loaded:
    """Every setting by name, with who gave it, and what is wrong."""

    given: Mapping[str, Given]
    problems: tuple[Problem, ...]


def load(file: Path | None, environ: Mapping[str, str], flags: Mapping[str, object] = NO_FLAGS) -> ServeSettings:
    """The settings of the service.

    Args:
        file: a YAML file; None takes the one that LINKWISE_CONFIG names, if it names one
        environ: the environment, as in `os.environ`
        flags: values by the names of settings, as in `{"http.port": 8080}`; None stands for a flag that was not given

    Raises:
        InputError: something is wrong; the text tells all of it, a line each, with its place.
    """
    found = look(file, environ, flags)
    if found.problems:
        raise refusal(found.problems)
    return built({name: given.value for name, given in found.given.items()})


def look(file: Path | None, environ: Mapping[str, str], flags: Mapping[str, object] = NO_FLAGS) -> Loaded:
    """Every setting with its place, and all that is wrong; InputError only if the file can't be read at all."""
    if file is None and environ.get(FILE):
        file = Path(environ[FILE])
    in_file, problems = from_file(file) if file else ({}, [])
    in_environment, more = from_environment(environ)
    in_flags, last = _from_flags(flags)
    given = {**_defaults(environ), **in_file, **in_environment, **in_flags}
    return Loaded(given, (*problems, *more, *last))


def _defaults(environ: Mapping[str, str]) -> dict[str, Given]:
    found = {name: Given(setting.default, "default") for name, setting in SCHEMA.items()}
    if environ.get(IN_CLUSTER):
        # kube-scheduler calls from another pod; elsewhere nobody but this machine is meant.
        found["http.host"] = Given("0.0.0.0", "default", "in a cluster")  # noqa: S104 - see above
    return found


def _from_flags(flags: Mapping[str, object]) -> tuple[dict[str, Given], list[Problem]]:
    given: dict[str, Given] = {}
    problems: list[Problem] = []
    for name, value in flags.items():
        if value is None:
            continue
        if name not in SCHEMA:
            problems.append(Problem("flags", name, f"no such setting{hint(name, SCHEMA)}"))
            continue
        try:
            given[name] = Given(SCHEMA[name].checked(value), "flag")
        except ValueError as error:
            problems.append(Problem("flags", name, str(error)))
    return given, problems
