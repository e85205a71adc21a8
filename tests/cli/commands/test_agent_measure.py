"""`linkwise agent measure`: imports what is certain, and refuses the rest with the place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.builders.tool_texts import nvbandwidth_text, p2p_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Linkwise = Callable[..., CompletedProcess[str]]

MACHINE = ("--driver", "simulated", "--source", "dgx1-v100", "--node", "n", "--kubelet", "kubelet")
FILE = "kubelet/plugins/linkwise.dev/bandwidth.json"
TITLE = "Unidirectional P2P=Enabled (P2P Writes)"
IDS = [f"nvidia-n-{index}" for index in range(8)]


def matrix(count: int, **cells: float) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(cells.get(f"c{i}{j}", 20.0 + i + j) for j in range(count)) for i in range(count))


@pytest.mark.parametrize(
    "text",
    [p2p_text({TITLE: matrix(8)}), nvbandwidth_text({"device_to_device_memcpy_write_ce": ("->", matrix(8))})],
)
def test_an_output_is_stored_with_uuids_and_its_test(linkwise: Linkwise, tmp_path: Path, text: str) -> None:
    done = linkwise("agent", "measure", *MACHINE, "--from", "-", "-o", "json", stdin=text)
    assert (done.returncode, done.stderr) == (0, "")
    printed, (stored,) = json.loads(done.stdout), json.loads((tmp_path / FILE).read_text())["measurements"]
    assert (printed["stored"], printed["devices"], printed["indices"]) == (True, IDS, list(range(8)))
    assert {name: printed[name] for name in stored} == stored
    assert stored["bandwidth"][1][4] == 25.0
    assert stored["tool"].split()[0] in {"p2pBandwidthLatencyTest", "nvbandwidth"}


@pytest.mark.rule("001.suspect")
def test_pairs_whose_directions_differ_are_flagged(linkwise: Linkwise) -> None:
    text = p2p_text({TITLE: matrix(8, c14=4.64, c41=16.81)})
    done = linkwise("agent", "measure", *MACHINE, "--from", "-", stdin=text)
    assert "1-4: 4.64 and 16.81 GB/s in the two directions" in done.stdout
    assert json.loads(linkwise("agent", "measure", *MACHINE, "--from", "-", "--json", stdin=text).stdout)[
        "suspects"
    ] == [[IDS[1], IDS[4]]]


def test_a_dry_run_stores_nothing(linkwise: Linkwise, tmp_path: Path) -> None:
    done = linkwise("agent", "measure", *MACHINE, "--from", "-", "--dry-run", stdin=p2p_text({TITLE: matrix(8)}))
    assert "nothing stored (dry run)" in done.stdout
    assert not (tmp_path / "kubelet").exists()


def test_rows_of_named_devices_belong_to_these(linkwise: Linkwise) -> None:
    flags = ("--from", "-", "--devices", "5,nvidia-n-2", "--json")
    printed = json.loads(
        linkwise("agent", "measure", *MACHINE, *flags, stdin=p2p_text({TITLE: matrix(2, c01=9.5)})).stdout
    )
    assert (printed["devices"], printed["bandwidth"]) == ([IDS[2], IDS[5]], [[0.0, 21.0], [9.5, 0.0]])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "standard input is empty"),
        ("hello\n", "it is not the output of p2pBandwidthLatencyTest or nvbandwidth"),
        (p2p_text({TITLE: matrix(4)}), "it has 4 rows for 8 devices; name the devices"),
        (p2p_text({TITLE: matrix(1)}), "bandwidth is measured between devices"),
        (p2p_text({TITLE: matrix(8)})[:-30], "nothing was imported"),
        (p2p_text({TITLE: matrix(8)}).replace("31.00", "fast", 1), "'fast' is not a whole number"),
        ("Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n", "has no rows"),
        (
            "Device: 0, NVIDIA H100, pciBusID: 1, pciDeviceID: 0, pciDomainID:0\n" + p2p_text({TITLE: matrix(8)}),
            "row GPU0 is of a NVIDIA H100, but device 0 is a",
        ),
        ("\x00\xff" * 1000, "it is not the output"),
    ],
)
def test_any_other_output_is_refused_and_stores_nothing(
    linkwise: Linkwise, tmp_path: Path, text: str, sentence: str
) -> None:
    done = linkwise("agent", "measure", *MACHINE, "--from", "-", stdin=text)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert not (tmp_path / FILE).exists()


def test_a_broken_state_file_is_replaced(linkwise: Linkwise, tmp_path: Path) -> None:
    (tmp_path / FILE).parent.mkdir(parents=True)
    (tmp_path / FILE).write_text('{"version": 1, "measure')
    linkwise("agent", "measure", *MACHINE, "--from", "-", stdin=p2p_text({TITLE: matrix(8)}))
    assert len(json.loads((tmp_path / FILE).read_text())["measurements"]) == 1


@pytest.mark.parametrize(
    ("flags", "code", "sentence"),
    [
        ((), 2, "Use either --from FILE or --run."),
        (("--run", "--from", "-"), 2, "Use either --from FILE or --run."),
        (("--from", "-", "--tool", "x"), 2, "--tool can only be used with --run."),
        (("--run", "--limit", "0"), 2, "--limit"),
        (("--run", "--devices", " , "), 2, "--devices is empty."),
        (("--from", "missing.txt"), 2, "missing.txt: No such file or directory"),
        (("--run", "--tool", "/missing/nvbandwidth"), 1, "/missing/nvbandwidth can't be run"),
        (("--run", "--tool", "/bin/true"), 1, "the devices are held by the agent of this node: run `linkwise agent`"),
        (("--run", "--tool", "/bin/true", "--devices", "9"), 2, "unknown device '9'"),
        (("--from", "-", "--driver", "simulated", "--source", "atlas-800"), 2, "the tests measure NVIDIA GPUs only"),
    ],
)
def test_wrong_flags_are_an_error(linkwise: Linkwise, flags: tuple[str, ...], code: int, sentence: str) -> None:
    done = linkwise("agent", "measure", *MACHINE, *flags, stdin="x")
    assert done.returncode == code
    assert sentence in " ".join(done.stderr.split())


def test_flags_of_the_agent_may_stand_before_the_command(linkwise: Linkwise) -> None:
    text = p2p_text({TITLE: matrix(8)})
    done = linkwise("agent", *MACHINE[:6], "measure", "--kubelet", "kubelet", "--from", "-", "--json", stdin=text)
    assert json.loads(done.stdout)["devices"] == IDS
