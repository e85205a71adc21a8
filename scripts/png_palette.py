"""Makes a picture smaller: a PNG with at most 256 colours, from one of a browser, which has a colour per pixel."""

import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

__all__ = ["with_palette"]

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
MOST: Final = 256
FREQUENT: Final = 160
"""colours that are taken because they are frequent; the others, one per shade, keep small marks"""
BYTES: Final = {2: 3, 6: 4}
"""per pixel, by the type of a PNG: RGB and RGBA"""


def with_palette(png: bytes) -> bytes:
    """Return the picture in its most frequent colours; others become the closest of these."""
    width, height, size, data = _decoded(png)
    rows = [[bytes(row[at : at + 3]) for at in range(0, len(row), size)] for row in _rows(data, width * size, size)]
    counts = Counter(pixel for row in rows for pixel in row)
    palette = _palette(counts)
    places = {colour: _closest(colour, palette) for colour in counts}
    lines = b"".join(b"\0" + bytes(places[pixel] for pixel in row) for row in rows)
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(*part) for part in parts)


def _decoded(png: bytes) -> tuple[int, int, int, bytes]:
    """Return width, height, bytes per pixel, and the filtered rows."""
    place, head, packed = len(SIGNATURE), b"", b""
    while place < len(png):
        (length,), kind = struct.unpack_from(">I", png, place), png[place + 4 : place + 8]
        content = png[place + 8 : place + 8 + length]
        head, packed = (content if kind == b"IHDR" else head), packed + (content if kind == b"IDAT" else b"")
        place += length + 12
    width, height, depth, colour = struct.unpack_from(">IIBB", head)
    if depth != 8 or colour not in BYTES:
        raise SystemExit(f"a picture has {depth} bits of type {colour}")
    return width, height, BYTES[colour], zlib.decompress(packed)


def _rows(data: bytes, length: int, size: int) -> Iterator[bytearray]:
    """Yield rows without their filters."""
    above = bytearray(length)
    for start in range(0, len(data), length + 1):
        row = bytearray(data[start + 1 : start + 1 + length])
        match data[start]:
            case 1:
                for at in range(size, length):
                    row[at] = (row[at] + row[at - size]) & 255
            case 2:
                row = bytearray((one + other) & 255 for one, other in zip(row, above, strict=True))
            case 3:
                for at in range(length):
                    left = row[at - size] if at >= size else 0
                    row[at] = (row[at] + (left + above[at]) // 2) & 255
            case 4:
                for at in range(length):
                    left, corner = (row[at - size], above[at - size]) if at >= size else (0, 0)
                    row[at] = (row[at] + _paeth(left, above[at], corner)) & 255
        yield row
        above = row


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min((abs(guess - left), 0, left), (abs(guess - above), 1, above), (abs(guess - corner), 2, corner))[2]


def _palette(counts: Counter[bytes]) -> list[bytes]:
    ordered = [colour for colour, _ in counts.most_common()]
    chosen = ordered[:FREQUENT]
    shades = {_shade(colour) for colour in chosen}
    for colour in ordered[FREQUENT:]:
        if len(chosen) < MOST and _shade(colour) not in shades:
            shades.add(_shade(colour))
            chosen.append(colour)
    return chosen


def _shade(colour: bytes) -> tuple[int, ...]:
    return tuple(part >> 4 for part in colour)


def _closest(colour: bytes, palette: list[bytes]) -> int:
    return min(range(len(palette)), key=lambda at: sum((a - b) ** 2 for a, b in zip(colour, palette[at], strict=True)))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
