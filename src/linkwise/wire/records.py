"""Records as JSON: frozen dataclasses and named tuples, encoded and decoded by the annotations of their fields.

A record is an object whose keys are the names of its fields. A field with its default value is omitted, and so is one
that is left out of comparisons (`compare=False`): it is derived from the others. Tuples and frozensets are lists, a mapping
with text as keys is an object, any other mapping a list of pairs. Where a field may hold one of several records, the object
names the class as `type`; a class itself is its name. Infinity, which JSON lacks, is the text "Infinity".

Decoding is strict: a field that is unknown or missing and a value of another type are errors that name the place, as in
`entries[3].grant.pod: expected text, got a whole number`.

Annotations are evaluated, so the module of a record imports the types of its fields at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, cached_property, partial
from math import inf
from operator import attrgetter
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from linkwise.errors import InputError
from linkwise.speed.fast_dataclass import fast_constructor
from linkwise.wire.decoding import at_place

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Form", "RecordCodec"]

Convert = Callable[[Any], Any]
T = TypeVar("T")

_TAG: Final = "type"
_fast_constructor: Final = cache(fast_constructor)
"""cached: making one takes longer than decoding a small record"""
_REQUIRED: Final = object()
_INFINITY: Final = {"Infinity": inf, "-Infinity": -inf}
_TYPES: Final[Mapping[type, str]] = {
    NoneType: "nothing",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}
"""types of plain data, in words"""


@dataclass(frozen=True, slots=True)
class Form:
    """The JSON form of one type; in a union, plain data is decoded by a form that accepts its type."""

    encode: Convert | None
    """None for values that are plain data already"""
    decode: Convert
    """raises InputError for data of another type"""
    accepts: tuple[type, ...] = tuple(_TYPES)
    encodes: tuple[type, ...] = ()
    """the classes of its values, for unions"""
    expected: str = ""
    """what it accepts, in words"""
    items: Convert | None = None
    """of a tuple: an iterator that encodes one value after the other"""


class RecordCodec:
    """Encoder and decoder of records; `forms` are those of types that are not written as records."""

    def __init__(self, forms: Mapping[Any, Form] | None = None) -> None:
        self._forms: dict[Any, Form] = {**_PLAIN, **(forms or {})}

    def encode(self, value: object, kind: object) -> Any:  # noqa: ANN401 - plain data
        """The value of a type as plain data; equal values give equal data."""
        encode = self._form(kind).encode
        return encode(value) if encode else value

    def encode_fields(self, record: object) -> dict[str, Any]:
        """All fields of a record as plain data, but each tuple as an iterator that encodes one value after the other."""
        hints = get_type_hints(type(record))
        forms = {name: self._form(hints[name]) for name in _defaults(type(record))}
        return {name: (form.items or form.encode or _as_is)(getattr(record, name)) for name, form in forms.items()}

    def decode(self, data: object, kind: type[T], place: str = "") -> T:
        """The value of a type from plain data at a place; InputError names what is invalid, and where."""
        try:
            return cast("T", self._form(kind).decode(data))
        except InputError as error:
            step, sentence = (error.place, error.sentence) if isinstance(error, _PlacedError) else ("", str(error))
            raise at_place(f"{place}{step}".removeprefix("."), sentence) from error

    def _form(self, kind: object) -> Form:
        if kind not in self._forms:
            self._forms[kind] = self._new_form(kind)
        return self._forms[kind]

    def _new_form(self, kind: Any) -> Form:  # noqa: ANN401, PLR0911 - whatever stands in annotations, a line for each
        origin, parts = get_origin(kind), get_args(kind)
        if is_dataclass(kind) or hasattr(kind, "_fields"):
            record = _Record(cast("type", kind), self._form)
            return Form(record.encode, record.decode, (dict,), (cast("type", kind),), _TYPES[dict])
        if origin is Literal:
            return _literal(parts)
        if origin is type:
            return _class(get_args(parts[0]) or parts)
        if origin in {Union, UnionType}:
            return _union([self._form(part) for part in parts])
        if origin is frozenset or (origin is tuple and parts[1:] == (...,)):
            return _sequence(origin, self._form(parts[0]))
        if origin is tuple:
            return _fixed_tuple([self._form(part) for part in parts])
        if origin in {dict, Mapping}:
            keys, values = map(self._form, parts)
            return _object(values) if keys is _PLAIN[str] else _pairs(_sequence(tuple, _fixed_tuple([keys, values])))
        raise TypeError(f"{kind} has no JSON form")


class _PlacedError(InputError):
    """Invalid data below the value that is being decoded."""

    def __init__(self, place: str, sentence: str) -> None:
        super().__init__(place, sentence)
        self.place = place
        self.sentence = sentence


def _below(step: str, error: InputError) -> InputError:
    if isinstance(error, _PlacedError):
        return _PlacedError(step + error.place, error.sentence)
    return _PlacedError(step, str(error))


def _mismatch(expected: str, data: object) -> InputError:
    return InputError(f"expected {expected}, got {_TYPES.get(type(data), type(data).__name__)}")


class _Record:
    """Encoder and decoder of one class; its fields are looked up with the first value, so that it may contain itself."""

    def __init__(self, kind: type, form_of: Callable[[object], Form]) -> None:
        self._kind: Final = kind
        self._form_of: Final = form_of

    @cached_property
    def _columns(self) -> dict[str, tuple[object, Form]]:
        """Default value and form by field."""
        hints = get_type_hints(self._kind)
        return {name: (default, self._form_of(hints[name])) for name, default in _defaults(self._kind).items()}

    @cached_property
    def _values(self) -> Convert:
        """All values of a record."""
        names = list(self._columns)
        return attrgetter(*names) if len(names) > 1 else lambda record: [getattr(record, name) for name in names]

    @cached_property
    def _construction(self) -> tuple[Callable[..., object], frozenset[str], dict[str, Convert]]:
        """Constructor, required fields, and the decoder of every field."""
        kind, columns = self._kind, self._columns
        plain = is_dataclass(kind) and not hasattr(kind, "__post_init__")
        required = frozenset(name for name, (default, _) in columns.items() if default is _REQUIRED)
        decoders = {name: form.decode for name, (_, form) in columns.items()}
        return _fast_constructor(kind) if plain else kind, required, decoders

    def encode(self, record: object) -> dict[str, Any]:
        return {
            name: form.encode(value) if form.encode else value
            for (name, (default, form)), value in zip(self._columns.items(), self._values(record), strict=True)
            if value is not default and value != default
        }

    def decode(self, data: object) -> object:
        if not isinstance(data, dict):
            raise _mismatch(_TYPES[dict], data)
        make, required, decoders = self._construction
        if unknown := data.keys() - decoders.keys():
            raise InputError(f"field {min(unknown)!r} is not known; the fields are {', '.join(decoders)}")
        if missing := required - data.keys():
            raise InputError(f"field {min(missing)!r} is missing")
        values = {}
        for name, each in data.items():
            try:
                values[name] = decoders[name](each)
            except InputError as error:
                raise _below(f".{name}", error) from error
        return make(**values)


def _defaults(kind: Any) -> dict[str, object]:  # noqa: ANN401 - a dataclass or a named tuple
    if not is_dataclass(kind):
        return {name: kind._field_defaults.get(name, _REQUIRED) for name in kind._fields}
    return {
        each.name: each.default_factory()
        if each.default_factory is not MISSING
        else _REQUIRED
        if each.default is MISSING
        else each.default
        for each in fields(kind)
        if each.init and each.compare
    }


def _scalar(kind: type) -> Form:
    def decode(data: object) -> object:
        if type(data) is not kind:
            raise _mismatch(_TYPES[kind], data)
        return data

    return Form(None, decode, (kind,), (kind,), _TYPES[kind])


def _encode_float(value: float) -> float | str:
    return value if -inf < value < inf else "Infinity" if value > 0 else "-Infinity"


def _decode_float(data: object) -> float:
    if isinstance(data, str) and data in _INFINITY:
        return _INFINITY[data]
    if not isinstance(data, int | float) or isinstance(data, bool):
        raise _mismatch(_TYPES[float], data)
    return data


def _literal(values: tuple[Any, ...]) -> Form:
    def decode(data: object) -> object:
        if data not in values:
            raise InputError(f"{data!r} is not known; use {', '.join(map(str, values))}")
        return data

    types = tuple({type(value) for value in values})
    return Form(None, decode, types, types, " or ".join(map(repr, values)))


def _class(classes: Sequence[type]) -> Form:
    by_name = {each.__name__: each for each in classes}

    def decode(data: object) -> type:
        if not isinstance(data, str):
            raise _mismatch(_TYPES[str], data)
        if data not in by_name:
            raise InputError(f"{data!r} is not known; use {', '.join(by_name)}")
        return by_name[data]

    return Form(lambda value: value.__name__, decode, (str,), (type,), _TYPES[str])


def _sequence(kind: Callable[[Iterable[object]], Any], item: Form) -> Form:
    """Values of one form, of any number; the members of a set are sorted."""
    item_encode, item_decode = item.encode or _as_is, item.decode

    def encode(values: Iterable[object]) -> list[Any]:
        encoded = map(item_encode, values)
        return sorted(encoded) if kind is frozenset else list(encoded)

    def decode(data: object) -> object:
        if not isinstance(data, list):
            raise _mismatch(_TYPES[list], data)
        items = []
        for each in data:
            try:
                items.append(item_decode(each))
            except InputError as error:
                raise _below(f"[{len(items)}]", error) from error
        return kind(items)

    if kind is frozenset:
        return Form(encode, decode, (list,), (frozenset,), _TYPES[list])
    one_by_one = partial(map, item_encode)
    return Form(encode if item.encode else None, decode, (list,), (tuple,), _TYPES[list], one_by_one)


def _fixed_tuple(items: Sequence[Form]) -> Form:
    encoders = [form.encode for form in items]

    def encode(value: Iterable[object]) -> list[Any]:
        return [encode(each) if encode else each for encode, each in zip(encoders, value, strict=True)]

    def decode(data: object) -> object:
        if not isinstance(data, list):
            raise _mismatch(_TYPES[list], data)
        if len(data) != len(items):
            raise InputError(f"expected {len(items)} values, got {len(data)}")
        values: list[object] = []
        for form, each in zip(items, data, strict=True):
            try:
                values.append(form.decode(each))
            except InputError as error:
                raise _below(f"[{len(values)}]", error) from error
        return tuple(values)

    return Form(encode if any(encoders) else None, decode, (list,), (tuple,), _TYPES[list])


def _object(values: Form) -> Form:
    """A mapping with text as keys, in its own order."""
    value_encode, value_decode = values.encode, values.decode

    def encode(mapping: Mapping[str, object]) -> dict[str, Any]:
        return {key: value_encode(each) for key, each in mapping.items()} if value_encode else dict(mapping)

    def decode(data: object) -> object:
        if not isinstance(data, dict):
            raise _mismatch(_TYPES[dict], data)
        mapping = {}
        for key, each in data.items():
            try:
                mapping[key] = value_decode(each)
            except InputError as error:
                raise _below(f"[{key!r}]", error) from error
        return mapping

    return Form(encode, decode, (dict,), (dict,), _TYPES[dict])


def _pairs(pairs: Form) -> Form:
    """A mapping as a list of pairs."""
    encode = pairs.encode or list
    return Form(
        lambda mapping: encode(mapping.items()), lambda data: dict(pairs.decode(data)), (list,), (dict,), _TYPES[list]
    )


def _union(options: Sequence[Form]) -> Form:
    records = [form for form in options if isinstance(getattr(form.decode, "__self__", None), _Record)]
    if len(records) > 1:
        plain = [form for form in options if form not in records]
        options = [*plain, _tagged(records)]
    encoders: dict[type, Convert | None] = {}
    for form in options:
        for kind in form.encodes:
            if encoders.setdefault(kind, form.encode) is not form.encode:
                raise TypeError(f"a union has two forms of {kind.__name__}, which a value does not distinguish")
    by_type = {kind: [form.decode for form in options if kind in form.accepts] for kind in _TYPES}
    expected = " or ".join(dict.fromkeys(form.expected for form in options))

    def encode(value: object) -> object:
        encode = encoders.get(type(value))
        return encode(value) if encode else value

    def decode(data: object) -> object:
        error = _mismatch(expected, data)
        for option in by_type.get(type(data), ()):
            try:
                return option(data)
            except InputError as refused:
                error = refused
        raise error

    return Form(encode, decode, tuple(kind for kind in _TYPES if by_type[kind]), tuple(encoders), expected)


def _tagged(records: Sequence[Form]) -> Form:
    """One of several records; the object names its class."""
    by_class = {form.encodes[0]: cast("Convert", form.encode) for form in records}
    by_name = {form.encodes[0].__name__: form.decode for form in records}

    def encode(value: object) -> dict[str, Any]:
        return {_TAG: type(value).__name__, **by_class[type(value)](value)}

    def decode(data: object) -> object:
        if not isinstance(data, dict):
            raise _mismatch(_TYPES[dict], data)
        name = data.get(_TAG)
        if name not in by_name:
            raise _PlacedError(f".{_TAG}", f"{name!r} is not known; use {', '.join(by_name)}")
        return by_name[name]({key: each for key, each in data.items() if key != _TAG})

    return Form(encode, decode, (dict,), tuple(by_class), _TYPES[dict])


def _as_is(data: object) -> object:
    return data


_PLAIN: Final[Mapping[Any, Form]] = {
    **{kind: _scalar(kind) for kind in (NoneType, bool, int, str)},
    float: Form(_encode_float, _decode_float, (int, float, str), (float,), _TYPES[float]),
    object: Form(None, _as_is, expected="anything"),
    Any: Form(None, _as_is, expected="anything"),
}
