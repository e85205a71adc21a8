"""Settings as plain data, under the names that they have in Python, and read strictly."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import msgspec

from linkwise.errors import InputError
from linkwise.model.settings import PlacingSettings
from linkwise.wire.decoding__words import plain_words

__all__ = ["settings_document", "settings_of"]


def settings_document(settings: PlacingSettings) -> dict[str, Any]:
    """All settings, as JSON or YAML would have them."""
    document: dict[str, Any] = msgspec.to_builtins(settings)
    return document


def settings_of(raw: object) -> PlacingSettings:
    """The settings that a document holds; what it leaves out is as usual. InputError names what is wrong."""
    _known(raw, PlacingSettings())
    try:
        return msgspec.convert(raw, PlacingSettings)
    except msgspec.ValidationError as error:
        raise InputError(plain_words(error)) from error


def _known(raw: object, settings: object, place: str = "") -> None:
    """Refuse fields that the settings do not have."""
    if not is_dataclass(settings) or not isinstance(raw, dict):
        return
    names = {field.name for field in fields(settings)}
    for name, value in raw.items():
        if name not in names:
            raise InputError(f"{place}{name}: it is no setting; {', '.join(sorted(names))} are")
        _known(value, getattr(settings, name), f"{place}{name}.")
