"""What sentences of refusals are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.model.verdict import Fact, Reason

__all__ = [
    "Words",
    "amount_",
    "choice_text",
    "count_text",
    "devices_",
    "is_",
    "list_",
    "named_",
    "pairs_",
    "size_text",
    "tuple_",
]

_SIZES: Final = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


class Words(NamedTuple):
    """A refusal without numbers and names, and with them."""

    short: str
    long: Callable[[Reason], str]


def choice_text(counts: Sequence[int]) -> str:
    """Numbers to choose from: 1, 2, 4 or 8; 1 to 8 where none is missing."""
    if len(counts) > 2 and list(counts) == list(range(counts[0], counts[-1] + 1)):
        return f"{counts[0]} to {counts[-1]}"
    return " or ".join(filter(None, (", ".join(map(str, counts[:-1])), str(counts[-1]))))


def count_text(count: int, noun: str) -> str:
    """A count and its noun: 1 device, 2 devices."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def size_text(count: int, *, up: bool = False) -> str:
    """Bytes in hundredths of a unit, rounded so that what is too much also looks it."""
    unit, name = next((pair for pair in _SIZES if count >= pair[0]), (1, "bytes"))
    hundredths = -(-count * 100 // unit) if up else count * 100 // unit
    return f"{hundredths / 100:.2f}".rstrip("0").rstrip(".") + f" {name}"


def amount_(number: Fact, unit: str) -> str:
    """So much, with its unit where one is told."""
    return f"{number} {unit}" if unit else f"{number}"


def devices_(number: Fact) -> str:
    """So many devices."""
    return f"{number} device" if number == 1 else f"{number} devices"


def is_(number: Fact) -> str:
    """The verb that goes with a number."""
    return "is" if number == 1 else "are"


def tuple_(fact: Fact) -> tuple[int | str, ...]:
    """A fact as a tuple of single values."""
    return tuple(entry for entry in fact if not isinstance(entry, tuple)) if isinstance(fact, tuple) else (str(fact),)


def pairs_(fact: Fact) -> list[tuple[int, int]]:
    """A fact as pairs of numbers."""
    return [entry for entry in fact if isinstance(entry, tuple)] if isinstance(fact, tuple) else []


def list_(fact: Fact) -> str:
    """A fact with commas between."""
    return ", ".join(map(str, tuple_(fact)))


def named_(fact: Fact) -> str:
    """Devices by name."""
    return f"device{'s' if len(tuple_(fact)) > 1 else ''} {list_(fact)}"
