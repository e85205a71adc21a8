"""Readers of `nvidia-smi topo`: links (-m), PCIe paths only (-mp) and peer access (-p2p)."""

from __future__ import annotations

import re
from bisect import bisect
from dataclasses import replace
from typing import Final

from linkwise.vendors.link_table.cells import split_row
from linkwise.vendors.link_table.layout import MARKS, LinkTable, Names, chosen, leading, line_of, tables
from linkwise.vendors.link_table.matrix import no_table, read_first
from linkwise.vendors.reader import DeviceFacts, Reader, Reading

__all__ = ["READERS"]

_LINKS: Final = "nvidia-smi topo -m"
_PATHS: Final = "nvidia-smi topo -mp"
_PEERS: Final = "nvidia-smi topo -p2p"

_WORDS: Final = ("OK", "CNS", "GNS", "TNS", "NS", "DR", "U")
_WORD: Final = rf"(?:{'|'.join(_WORDS)})(?=[ \t]|$)"
# A device's own X says nothing of the kind of matrix where a status word follows it.
_CODE: Final = rf"(?:NV[0-9]{{1,3}}|NODE|PIX|PXB|PHB|SYS|SOC|X(?![ \t]+{_WORD}))"
_GPUS: Final = Names("GPU[0-9]{1,3}", _CODE)
_PEER_ROW: Final = re.compile(rf"(?m)^{MARKS}GPU[0-9]{{1,3}}[ \t]+(?:X[ \t]+)?{_WORD}")
_COMMAND: Final = re.compile(r"nvidia-smi[ \t]+topo[ \t]+(?:-m|--matrix|-p2p)")
_OPTION: Final = re.compile(r"topo[ \t]+(-mp|-m|--matrix|-p2p)(?![A-Za-z0-9])")
_ERROR: Final = re.compile(
    r"ERROR: Option -m|NVIDIA-SMI has failed|Failed to initialize NVML|No devices were found"
    r"|nvidia-smi: .{0,40}not found|'nvidia-smi' is not recognized|Unable to determine the device handle"
)
_HIDDEN: Final = "NVLink is not shown by -mp: devices may have better links than shown"


class _Options:
    """Options of the commands in a text."""

    def __init__(self, text: str) -> None:
        options = list(_OPTION.finditer(text))
        self._starts = [match.start() for match in options]
        self._names = [match[1] for match in options]

    def at(self, start: int) -> str:
        """The last option before a position; without one, -mp if the text has no other."""
        before = bisect(self._starts, start)
        if before:
            return self._names[before - 1]
        return "-mp" if set(self._names) == {"-mp"} else ""


def _kind(text: str) -> str:
    """The kind of matrix in the text; empty if there is none."""
    if "GPU" in text:
        row = _GPUS.link_row.search(text)
        if row is None and _PEER_ROW.search(text):
            return _PEERS
        if row or _GPUS.whole_header.search(text):
            option = _Options(text).at(row.start() if row else len(text))
            alone = row is None or row[1] == "X"
            return _PATHS if option == "-mp" else _PEERS if option == "-p2p" and alone else _LINKS
    return _LINKS if _ERROR.search(text) or _COMMAND.search(text) else ""


def _read(text: str) -> Reading:
    options = _Options(text)
    links = list(leading(table for table in tables(text, _GPUS) if not _is_peer_access(table, options)))
    if not any(table.rows for table in links):
        peers = (table for table in tables(text, _GPUS) if _is_peer_access(table, options))
        if table := next(peers, None):
            return _peer_access(table)
    first = chosen(links)
    hidden = first is not None and options.at(first.start) == "-mp"
    reading = read_first(links, _PATHS if hidden else _LINKS)
    if reading is None:
        return no_table(_LINKS, line_of(text, _ERROR.search(text)), "the text has no table of GPUs")
    return replace(reading, warnings=(_HIDDEN, *reading.warnings)) if hidden else reading


def _is_peer_access(table: LinkTable, options: _Options) -> bool:
    codes = set(table.codes())
    return not codes.isdisjoint(_WORDS) or (codes == {"X"} and options.at(table.start) == "-p2p")


def _peer_access(table: LinkTable) -> Reading:
    """Status words are about access to memory, not about links."""
    status = tuple(f"peer access of {row.name}: {' '.join(split_row(row.text).codes)}" for row in table.rows.values())
    devices = tuple(table.rows)
    return Reading(_PEERS, "no matrix", devices, facts=tuple(map(DeviceFacts, devices)), warnings=status)


READERS: Final = (
    Reader(_LINKS, lambda text: _kind(text) == _LINKS, _read, yields="matrix of GPUs"),
    Reader(_PATHS, lambda text: _kind(text) == _PATHS, _read, yields="matrix of GPUs"),
    Reader(_PEERS, lambda text: _kind(text) == _PEERS, _read, yields="matrix of GPUs"),
)
