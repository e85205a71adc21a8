"""NVIDIA's requirements of images: the variables `NVIDIA_REQUIRE_*` of containers.

Spaces separate alternatives, commas comparisons that must all hold, as in `cuda>=12.2 brand=tesla,driver>=470,driver<471`.
Several variables must all hold. NVIDIA's container toolkit checks them when a container starts; here they are checked before
a node is chosen. As there, comparisons with properties that are not known are left out.

A variable of the image itself is not in the pod and can't be seen; neither can one whose value is computed by Kubernetes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.dialects.requirements import LONGEST, checked, error_at
from linkwise.model.requirement import OPERATORS, Clause

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkwise.model.requirement import Comparison, FactName

__all__ = ["PREFIX", "read_required", "required_variables"]

PREFIX: Final = "NVIDIA_REQUIRE_"
DISABLE: Final = "NVIDIA_DISABLE_REQUIRE"
JETPACK: Final = "NVIDIA_REQUIRE_JETPACK"
"""about the libraries that are mounted, not a comparison"""
TRUE: Final = frozenset({"1", "t", "true"})
PROPERTIES: Final[Mapping[str, FactName]] = {"cuda": "cuda", "driver": "driver", "arch": "compute", "brand": "brand"}
_COMPARISON: Final = re.compile(r"([^<>=!]*)(!=|<=|>=|=|<|>)(.*)")


def required_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a container that state requirements, unless another one disables them."""
    if variables.get(DISABLE, "").casefold() in TRUE:
        return {}
    return {
        name: value
        for name, value in sorted(variables.items())
        if name.startswith(PREFIX) and not name.startswith(JETPACK) and "$(" not in value
    }


def read_required(name: str, text: str) -> tuple[Clause, ...]:
    """The clause of one variable; none if it is blank or compares nothing that is known.

    Raises:
        InputError: with the column of the error.
    """
    if len(text) > LONGEST:
        raise error_at(LONGEST + 1, f"the requirement is longer than {LONGEST} characters")
    alternatives = tuple(every for each in re.finditer(r"[^ ]+", text) if (every := tuple(_comparisons(each))))
    return (Clause(name, alternatives),) if alternatives else ()


def _comparisons(alternative: re.Match[str]) -> Iterator[Comparison]:
    for part in re.finditer(r"[^,]+", alternative[0]):
        column = alternative.start() + part.start() + 1
        match = _COMPARISON.fullmatch(part[0])
        if match is None:
            raise error_at(column, f"{part[0][:40]!r} is not a comparison such as cuda>=12.2")
        fact = PROPERTIES.get(match[1])
        if fact is None:
            continue
        operator = next(each for each in OPERATORS if each == match[2])
        value = match[3].removeprefix("v") if fact != "brand" else match[3]
        if not value or not value.isprintable():
            raise error_at(column + match.start(3), f"{match[1]} is compared with nothing that can be read")
        yield checked(fact, operator, ((value, column + match.start(3)),), column + match.start(2))
