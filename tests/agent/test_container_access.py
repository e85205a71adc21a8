"""What the agent finds on the host, and the CDI specification that it writes there."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from linkwise.agent.container_access import LONGEST_RETRY, LOOK, ContainerAccess, Host, runtime_has_cdi, write_cdi_spec
from linkwise.config.settings import AgentSettings
from linkwise.model.device import Device
from linkwise.model.inventory import Discovery
from linkwise.vendors.registry import VENDORS
from support.virtual_clock import loop_time, loop_timing, run_idle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from linkwise.vendors.vendor import DriverFiles


def files_of(vendor: str) -> DriverFiles:
    found = VENDORS[vendor].driver_files
    assert found is not None
    return found


NVIDIA = files_of("nvidia")


def made(root: Path, *files: str) -> Host:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()
    return Host(root)


@pytest.mark.rule("002.libraries")
def test_files_of_the_driver_are_mounted_where_images_look_for_them(tmp_path: Path) -> None:
    host = made(
        tmp_path, "usr/lib/x86_64-linux-gnu/libcuda.so.1", "usr/bin/nvidia-smi", "usr/lib/x86_64-linux-gnu/libc.so.6"
    )
    assert [(mount.host_path, mount.container_path) for mount in host.driver_files(NVIDIA)] == [
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"),
        ("/usr/bin/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi"),
    ]


@pytest.mark.rule("002.vendors")
@pytest.mark.parametrize(("vendor", "mounted"), [("nvidia", 1), ("amd", 0), ("", 0)])
def test_containers_get_files_of_the_driver_of_their_own_vendor_only(vendor: str, mounted: int, tmp_path: Path) -> None:
    made(tmp_path, "usr/lib64/libcuda.so.1")
    access = ContainerAccess(AgentSettings(host_root=str(tmp_path), cdi="never"))
    assert len(access.update(Discovery(vendor), None).mounts) == mounted


def test_a_driver_in_a_folder_of_its_own_is_found_there(tmp_path: Path) -> None:
    made(tmp_path, "run/nvidia/driver/dev/nvidia0")
    host = Host(tmp_path, "/run/nvidia/driver")
    assert host.exists("/dev/nvidia0")
    assert not host.exists("/dev/nvidia1")
    assert host.host_path("/dev/nvidia0") == "/run/nvidia/driver/dev/nvidia0"


def test_the_toolkit_is_recognised(tmp_path: Path) -> None:
    assert not made(tmp_path, "usr/bin/ls").has_toolkit(NVIDIA)
    assert made(tmp_path, "usr/bin/nvidia-ctk").has_toolkit(NVIDIA)


@pytest.mark.parametrize(
    ("runtime", "has"),
    [
        ("containerd://2.0.0", True),
        ("containerd://v2.4.2", True),
        ("containerd://1.7.27", False),
        ("cri-o://1.28.1", True),
        ("cri-o://1.27.0", False),
        ("docker://27.0.1", False),
        ("", False),
        ("simulated://0", False),
    ],
)
def test_runtimes_with_cdi_are_known_by_their_version(runtime: str, *, has: bool) -> None:
    assert runtime_has_cdi(runtime) is has


def test_a_specification_is_written_whole_and_only_if_it_changed(tmp_path: Path) -> None:
    folder = tmp_path / "cdi"
    assert not write_cdi_spec(folder, "a.json", {"kind": "x"})
    written = (folder / "a.json").stat().st_ino
    assert not write_cdi_spec(folder, "a.json", {"kind": "x"})
    assert (folder / "a.json").stat().st_ino == written
    assert not write_cdi_spec(folder, "a.json", {"kind": "y"})
    assert json.loads((folder / "a.json").read_text()) == {"kind": "y"}
    assert [file.name for file in folder.iterdir()] == ["a.json"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "cdi").touch()
    assert "cdi/a.json can't be written" in write_cdi_spec(tmp_path / "cdi", "a.json", {})


@asynccontextmanager
async def kept_written(folder: Path) -> AsyncIterator[tuple[ContainerAccess, list[float]]]:
    """A CDI specification that is kept written, and the times of changes."""
    changes: list[float] = []
    settings = AgentSettings(host_root=str(folder), cdi="always", cdi_folder=str(folder / "cdi"))
    access = ContainerAccess(settings, loop_timing(), lambda: changes.append(loop_time()))
    access.update(Discovery("nvidia", (Device("GPU-0", 0, minor=0),)), None)
    task = asyncio.create_task(access.run())
    try:
        yield access, changes
    finally:
        task.cancel()


def test_a_cdi_specification_that_is_removed_is_written_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with kept_written(tmp_path) as (access, changes):
            file = tmp_path / "cdi/linkwise.dev-nvidia.json"
            before = file.read_bytes()
            file.unlink()
            await asyncio.sleep(1.5 * LOOK)
            assert file.read_bytes() == before
            assert (access.options.cdi, access.problem, changes) == (True, "", [])

    run_idle(story())


def test_a_cdi_specification_is_written_once_there_is_room_again(tmp_path: Path) -> None:
    """A file in place of the folder refuses writes as a full disk does, to root as well."""

    async def story() -> None:
        (tmp_path / "cdi").touch()
        async with kept_written(tmp_path) as (access, changes):
            assert "can't be written" in access.problem
            assert not access.options.cdi
            await asyncio.sleep(4 * LONGEST_RETRY)
            assert changes == []
            (tmp_path / "cdi").unlink()
            await asyncio.sleep(LONGEST_RETRY + 1)
            assert (access.options.cdi, access.problem, len(changes)) == (True, "", 1)
            assert (tmp_path / "cdi/linkwise.dev-nvidia.json").exists()

    run_idle(story())
