"""Fast construction of frozen dataclasses.

Buys: a frozen dataclass at the cost of an ordinary one, several times faster. Linkwise creates many thousands at startup.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, field, fields, make_dataclass
from typing import Any, TypeVar, cast

__all__ = ["fast_constructor"]

T = TypeVar("T")


def fast_constructor(kind: type[T]) -> type[T]:
    """A constructor of the frozen dataclass `kind`; the instances are of that class and frozen as usual.

    A frozen dataclass sets its fields one by one through object.__setattr__, which for a view of thirty fields takes
    longer than parsing it from JSON. An unfrozen twin with the same slots is filled instead, and its class is changed.
    """
    if hasattr(kind, "__post_init__"):
        raise TypeError(f"{kind.__name__} has a __post_init__, which a fast constructor would skip")
    columns = [(column.name, Any, _same_default(column)) for column in fields(kind)]  # type: ignore[arg-type]  # by contract

    def become(self: Any) -> None:  # noqa: ANN401 - the twin, which has no static type
        self.__class__ = kind

    twin = make_dataclass(kind.__name__, columns, slots=True, eq=False, namespace={"__post_init__": become})
    return cast("type[T]", twin)


def _same_default(column: Field[Any]) -> Any:  # noqa: ANN401 - what dataclasses call a field
    if column.default is not MISSING:
        return field(default=column.default)
    return field() if column.default_factory is MISSING else field(default_factory=column.default_factory)
