"""Builders of outputs of vendor tools: link matrices, bandwidth tests, amd-smi."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from linkwise.model.link import Link
    from linkwise.model.topology import Matrix
    from linkwise.vendors.reader import Reading

__all__ = [
    "GPU_STYLES",
    "P2P_TITLES",
    "Machine",
    "amd_smi_text",
    "machine_of",
    "mx_text",
    "npu_text",
    "nvbandwidth_text",
    "p2p_text",
    "rocm_smi_text",
]

_LEGEND: Final = "\n\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n  NV#  = Connection of # NVLinks\n"


@dataclass(frozen=True, slots=True)
class Machine:
    """What a table tells: devices, links, and per device the CPUs and NUMA nodes that are near."""

    devices: tuple[str, ...]
    links: tuple[tuple[Link, ...], ...]
    cpus: tuple[str, ...]
    numa: tuple[str, ...]
    nics: tuple[str, ...] = ()

    def rows(self) -> list[list[str]]:
        """Names and link cells of the devices; a NIC is as far from each as can be."""
        far = ["SYS"] * len(self.nics)
        return [
            [name, *("N/A" if link == "?" else str(link) for link in row), *far]
            for name, row in zip(self.devices, self.links, strict=True)
        ]

    def nic_rows(self) -> list[list[str]]:
        """Names and link cells of the NICs."""
        far = ["SYS"] * len(self.devices)
        return [[nic, *far, *("X" if nic == other else "PIX" for other in self.nics)] for nic in self.nics]


def machine_of(reading: Reading) -> Machine:
    """The machine that a reading tells of."""
    cpus = tuple(facts.cpus or "" for facts in reading.facts)
    numa = tuple(facts.numa or "" for facts in reading.facts)
    return Machine(reading.devices, reading.links, cpus, numa, reading.nics)


def tabs(machine: Machine) -> str:
    """As the tool prints it: an underlined header, and an empty column before the last."""
    titles = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
    lines = ["\t\x1b[4m" + "\t".join((*machine.devices, *machine.nics, *titles)) + "\x1b[0m"]
    for cells, cpus, numa in zip(machine.rows(), machine.cpus, machine.numa, strict=True):
        lines.append("\t".join((*_padded(cells), cpus, numa, "", "N/A")))
    lines += ["\t".join((*_padded(cells), "", "", "", "")) for cells in machine.nic_rows()]
    return "\n".join(lines) + _LEGEND


def blanks(machine: Machine) -> str:
    """As copied from a terminal: columns of blanks, no legend."""
    header = ["", *machine.devices, *machine.nics, "CPU Affinity", "NUMA Affinity"]
    rows = [[*cells, cpus, numa] for cells, cpus, numa in zip(machine.rows(), machine.cpus, machine.numa, strict=True)]
    return _columns([header, *rows, *machine.nic_rows()], 8)


def bare(machine: Machine) -> str:
    """Links alone, one blank between them, and no end of line."""
    return _columns([["", *machine.devices, *machine.nics], *machine.rows()], 0).rstrip("\n")


def hashed(machine: Machine) -> str:
    """Every line a comment."""
    return _prefixed("# ", blanks(machine) + _LEGEND)


def quoted(machine: Machine) -> str:
    """Every line quoted, as in a mail."""
    return _prefixed("> ", tabs(machine))


def indented(machine: Machine) -> str:
    """A block of code by four blanks."""
    return _prefixed("    ", blanks(machine) + _LEGEND)


def glued(machine: Machine) -> str:
    """Names and pairs of cells that lost the blank between them."""
    header = ["", "".join(machine.devices), "".join(machine.nics), "CPU Affinity", "NUMA Affinity"]
    rows = [
        [cells[0], *_in_pairs(cells[1:]), cpus, numa]
        for cells, cpus, numa in zip(machine.rows(), machine.cpus, machine.numa, strict=True)
    ]
    return _columns([header, *rows], 10)


def fenced(machine: Machine) -> str:
    """In a fence, below a prompt, with other output around it."""
    shell = "[root@node7 ~]# nvidia-smi -L\nGPU 0: Some Device (UUID: GPU-0)\n[root@node7 ~]# nvidia-smi topo -m\n"
    return f"## GPU0 and its peers\n\n```\n{shell}{blanks(machine)}{_LEGEND}```\nThat was GPU0.\n"


def npu_text(machine: Machine) -> str:
    """As `npu-smi info -t topo` prints it."""
    header = ["", *machine.devices, "CPU Affinity"]
    rows = [[*cells, cpus] for cells, cpus in zip(machine.rows(), machine.cpus, strict=True)]
    return "npu-smi info -t topo\n" + _columns([header, *rows], 11) + "\nLegend:\n\n  X    = Self\n  HCCS = HCCS.\n"


def mx_text(machine: Machine) -> str:
    """As `mx-smi topo -m` prints it."""
    header = ["", *machine.devices, "Node Affinity", "CPU Affinity"]
    rows = [[*cells, numa, cpus] for cells, cpus, numa in zip(machine.rows(), machine.cpus, machine.numa, strict=True)]
    banner = "===== MetaX System Management Interface Log =====\nDevice link type matrix\n"
    return (
        banner + _columns([header, *rows], 8) + "\nLegend:\n  X    = Self\n  MX   = Connection traversing MetaXLink\n"
    )


GPU_STYLES: Final[dict[str, Callable[[Machine], str]]] = {
    style.__name__: style for style in (tabs, blanks, bare, hashed, quoted, indented, glued, fenced)
}
"""How the matrix of `nvidia-smi topo -m` reaches us, by name"""


def _padded(cells: Iterable[str]) -> list[str]:
    return [" X " if cell == "X" else cell for cell in cells]


def _columns(rows: list[list[str]], width: int) -> str:
    return "".join(" ".join(cell.ljust(width - 1) for cell in row).rstrip(" ") + "\n" for row in rows)


def _prefixed(mark: str, text: str) -> str:
    return "".join(f"{mark}{line}\n" for line in text.splitlines())


def _in_pairs(cells: list[str]) -> list[str]:
    """Neighbours glued two by two, where both are codes that can be distinguished."""
    pairs = [cells[at : at + 2] for at in range(0, len(cells), 2)]
    return [cell for pair in pairs for cell in (["".join(pair)] if "N/A" not in pair else pair)]


P2P_TITLES: Final = {
    "P2P Connectivity": "P2P Connectivity Matrix",
    "Unidirectional P2P=Disabled": "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)",
    "Unidirectional P2P=Enabled": "Unidirectional P2P=Enabled Bandwidth Matrix (GB/s)",
    "Unidirectional P2P=Enabled (P2P Writes)": "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)",
    "Unidirectional P2P=Enabled (P2P Reads)": "Unidirectional P2P=Enabled Bandwidth (P2P Reads) Matrix (GB/s)",
    "Bidirectional P2P=Disabled": "Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)",
    "Bidirectional P2P=Enabled": "Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)",
    "P2P=Disabled Latency": "P2P=Disabled Latency Matrix (us)",
    "P2P=Enabled Latency": "P2P=Enabled Latency (P2P Writes) Matrix (us)",
}
"""what p2pBandwidthLatencyTest prints over each of its matrices"""


def p2p_text(matrices: Mapping[str, Matrix], models: Sequence[str] = ()) -> str:
    """The output of p2pBandwidthLatencyTest; a latency matrix is printed for the GPU and, ten times it, for the CPU."""
    lines = ["[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]"]
    lines += [
        f"Device: {number}, {model}, pciBusID: {number + 16:x}, pciDeviceID: 0, pciDomainID:0"
        for number, model in enumerate(models)
    ]
    for key, matrix in matrices.items():
        lines.append(P2P_TITLES[key])
        if key == "P2P Connectivity":
            lines.append("     D\\D" + "".join(f"{number:>6}" for number in range(len(matrix))))
            lines += [f"{i:>6}\t" + "".join(f"{cell:>6.0f}" for cell in row) for i, row in enumerate(matrix)]
        elif "Latency" in key:
            lines += [
                *_p2p_table("GPU", matrix),
                "",
                *_p2p_table("CPU", [[10 * cell for cell in row] for row in matrix]),
            ]
        else:
            lines += _p2p_table("D\\D", matrix)
    return "\n".join(lines) + "\n"


def nvbandwidth_text(tables: Mapping[str, tuple[str, Sequence[Sequence[float | None]]]]) -> str:
    """The output of nvbandwidth: for each test `->`, `<-` or `<->`, and the values as printed; None is N/A."""
    lines = ["nvbandwidth Version: v0.8", ""]
    for test, (arrow, rows) in tables.items():
        source = "CPU" if "host" in test else "GPU"
        lines += [f"Running {test}.", f"memcpy CE {source}(row) {arrow} GPU(column) bandwidth (GB/s)"]
        lines.append("  " + "".join(f"{number:>10}" for number in range(len(rows[0]))))
        lines += [
            f"{i:>2}" + "".join("       N/A" if cell is None else f"{cell:>10.2f}" for cell in row)
            for i, row in enumerate(rows)
        ]
        total = sum(cell or 0 for row in rows for cell in row)
        lines += ["", f"SUM {test} {total:.2f}", f"COEFFICIENT_OF_VARIATION {test} 0.01", ""]
    return "\n".join(lines)


def rocm_smi_text(tables: Mapping[str, Sequence[Sequence[str]]], numa: Sequence[int] = ()) -> str:
    """The output of rocm-smi --showtopo: the cells of `Weight`, `Hops` and `Link Type`, and NUMA nodes."""
    lines = [" ROCm System Management Interface ".center(80, "=")]
    for title, rows in tables.items():
        devices = [f"GPU{number}" for number in range(len(rows))]
        lines += [f" {title} between two GPUs ".center(80, "="), *_named_table(devices, rows), ""]
    lines.append(" Numa Nodes ".center(80, "="))
    for number, node in enumerate(numa):
        lines += [f"GPU[{number}]\t\t: (Topology) Numa {word}: {node}" for word in ("Node", "Affinity")]
    return "\n".join([*lines, " End of ROCm SMI Log ".center(80, "="), ""])


def amd_smi_text(devices: Sequence[str], tables: Mapping[str, Sequence[Sequence[str]]]) -> str:
    """The output of amd-smi topology: the cells of `ACCESS`, `WEIGHT`, `HOPS`, `LINK TYPE`, ..."""
    lines = []
    for title, rows in tables.items():
        lines += [f"{title} TABLE:", *_named_table(devices, rows)]
    return "\n".join([*lines, "", "Legend:", "  SELF = Current GPU", "  N/A = Not supported", ""])


def _p2p_table(corner: str, rows: Sequence[Sequence[float]]) -> list[str]:
    header = f"   {corner}" + "".join(f"{number:>6} " for number in range(len(rows)))
    return [header, *(f"{i:>6} " + " ".join(f"{cell:>6.2f}" for cell in row) for i, row in enumerate(rows))]


def _named_table(devices: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    header = " " * 13 + "".join(f"{device:<13}" for device in devices)
    return [
        header,
        *(f"{name:<13}" + "".join(f"{cell:<13}" for cell in row) for name, row in zip(devices, rows, strict=True)),
    ]
