"""Values of records in which every field differs from its default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["filled", "record_classes"]

_SCALARS: Mapping[Any, Any] = {str: "x", int: 7, float: 7.5, bool: True, object: {"any": [1]}, NoneType: None}


def filled(kind: Any, values: Mapping[Any, Any] | None = None, default: object = MISSING) -> Any:  # noqa: ANN401, PLR0911 - any type, a line for each
    """A value of a type that is not `default`; `values` holds types with a value of their own."""
    values, origin, parts = values or {}, get_origin(kind), get_args(kind)
    if kind in values or kind in _SCALARS:
        value = values[kind] if kind in values else _SCALARS[kind]
        return not default if isinstance(default, bool) else value
    if is_dataclass(kind):
        hints, make = get_type_hints(kind), cast("type", kind)
        stored = [each for each in fields(kind) if each.init and each.compare]
        return make(**{each.name: filled(hints[each.name], values, each.default) for each in stored})
    if origin is Literal:
        return next(part for part in parts if part != default)
    if origin in {Union, UnionType}:
        return filled(next(part for part in parts if part not in {NoneType, type(default)}), values)
    if origin is type:
        return (get_args(parts[0]) or parts)[0]
    if origin in {tuple, frozenset}:
        return origin(filled(part, values) for part in parts if part is not ...)
    if origin in {dict, Mapping}:
        return {filled(parts[0], values): filled(parts[1], values)}
    raise TypeError(kind)


def record_classes(kind: Any, *others: Any) -> Iterator[Any]:  # noqa: ANN401 - any type
    """The dataclasses that a type contains, itself included, except the others."""
    if kind in others:
        return
    if is_dataclass(kind):
        yield kind
    hints = get_type_hints(kind) if is_dataclass(kind) else {}
    inner = [hints[each.name] for each in fields(kind) if each.compare] if hints else get_args(kind)
    for each in inner:
        yield from record_classes(each, *others)
