"""Texts of bandwidth tests and of AMD's tools, written from matrices: for tests that read them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkwise.model.topology import Matrix

__all__ = ["P2P_TITLES", "amd_smi_text", "nvbandwidth_text", "p2p_text", "rocm_smi_text"]

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
