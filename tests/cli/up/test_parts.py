"""The parts of `linkwise up`: fleets, suggested commands, files, and failures."""

from __future__ import annotations

import asyncio
import os
import shutil
from io import StringIO
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from linkwise.assembly.local_cluster import LocalCluster, scratch_directory
from linkwise.cli.commands.up import command
from linkwise.cli.examples import example
from linkwise.cli.inputs.fleet import DEFAULT, MAX_NODES, fleet_of, spread, with_dra
from linkwise.cli.up.kubeconfig import MARK, check, written_kubeconfig
from linkwise.cli.up.running import Up, next_steps, path_hint, run_cluster, welcome
from linkwise.config.settings import HttpSettings, ServeSettings
from linkwise.errors import ClusterError, InputError
from linkwise.vendors.machines import PROFILES
from support.embedded.cluster import ClusterUnderTest, embedded

MODES = (
    "dgx1-v100/whole",
    "dgx1-v100/share",
    "dgx1-v100/percent",
    "p40-share/share",
    "atlas-800/whole",
)
SETTINGS = ServeSettings(http=HttpSettings(port=0))


# fleets


def test_a_fleet_is_read_from_the_flag_and_from_a_file_alike(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text("nodes:\n  dgx1-v100: 3\n  dgx1-v100/percent: 1\n", "utf-8")
    found = fleet_of(str(tmp_path / "fleet.yaml"))
    assert found == fleet_of("dgx1-v100=3, dgx1-v100/percent=1") == {"dgx1-v100": 3, "dgx1-v100/percent": 1}


@pytest.mark.parametrize("machine", [*PROFILES, *MODES, "dgx1-v100/dra"])
def test_every_profile_and_sharing_mode_is_accepted_and_listed_in_the_help(machine: str) -> None:
    assert fleet_of(f"{machine}=1") == {machine: 1}
    assert machine.partition("/")[0] in (command.epilog or "")


def test_with_dra_a_driver_publishes_all_nvidia_gpus_that_a_device_plugin_would_and_the_rest_stays() -> None:
    fleet = {
        "dgx1-v100": 1,
        "dgx1-v100/whole": 1,
        "dgx1-v100/percent": 1,
        "dgx1-v100/share": 1,
        "p40-share": 1,
        "atlas-800": 1,
    }
    assert with_dra(fleet) == {"dgx1-v100/dra": 3, "dgx1-v100/share": 1, "p40-share": 1, "atlas-800": 1}


def test_a_fleet_without_nvidia_gpus_has_no_dra_driver() -> None:
    with pytest.raises(InputError, match="the fleet has no NVIDIA GPUs that are not shared by memory"):
        with_dra({"atlas-800": 1, "dgx1-v100/share": 1})
    with pytest.raises(InputError, match="support whole allocation by a device plugin only"):
        fleet_of("atlas-800/dra=1")


def test_a_profile_without_a_count_is_one_node() -> None:
    assert fleet_of("dgx1-v100/share,p40-share=2") == {"dgx1-v100/share": 1, "p40-share": 2}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "empty value; expected PROFILE=COUNT,... or a file"),
        ("dgx1", "--fleet: dgx1: unknown machine profile; did you mean dgx1-v100?"),
        ("there-is-none.yaml", "there-is-none.yaml: No such file or directory"),
        ("dgx1-v100=", "--fleet: dgx1-v100: count missing; expected PROFILE=COUNT"),
        ("dgx1-v100=-1", "'-1' is not a valid number of nodes; expected 1 or more"),
        ("dgx1-v100=0", "'0' is not a valid number of nodes; expected 1 or more"),
        ("dgx1-v100=9999999999", f"9999999999 nodes are more than {MAX_NODES}, the maximum"),
        ("dgx1-v100=1,,p40-share=1", "--fleet: machine profile missing in"),
        ("dgx1=1", "--fleet: dgx1: unknown machine profile; did you mean dgx1-v100?"),
        ("dgx1-v100=1,dgx1-v100=2", "--fleet: dgx1-v100: duplicate entry"),
        ("dgx1-v100/parts=1", "'parts' is not a sharing mode; use one of whole, share, percent"),
        ("p40-share/whole=1", "this profile supports sharing by memory only"),
        ("atlas-800/percent=1", "ascend devices support whole allocation only"),
        (
            f"dgx1-v100={MAX_NODES},p40-share=1",
            f"--fleet: {MAX_NODES + 1} nodes are more than {MAX_NODES}, the maximum",
        ),
        ("DGX1-V100=1,hgxh100=2", "2 problems:\n  --fleet: DGX1-V100: unknown machine profile"),
    ],
)
def test_an_invalid_fleet_is_rejected_with_a_message(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        fleet_of(text)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("text", "place", "sentence"),
    [
        ("", "", "empty file; expected `nodes:` with entries PROFILE: COUNT"),
        ("nodes: 3", ":1:8", "expected `nodes:` with entries PROFILE: COUNT"),
        ("- dgx1-v100", ":1:1", "expected `nodes:` with entries PROFILE: COUNT"),
        ("machines: {}", ":1:1", "machines: unknown field"),
        ("nodes: {dgx1-v100: 1}\nnodes: {}", ":2:1", "nodes: duplicate field"),
        ("nodes:\n  dgx1-v100: two", ":2:14", "'two' is not a valid number of nodes"),
        ("nodes:\n  dgx1-v100: [2]", ":2:14", "is not a valid number of nodes"),
        ("nodes:\n  dgx1-v100:\n", ":2:13", "count missing"),
        ("nodes:\n  dgx1-v10: 2", ":2:3", "dgx1-v10: unknown machine profile; did you mean dgx1-v100?"),
        ("nodes:\n  dgx1-v100: 1\n  dgx1-v100: 2", ":3:3", "dgx1-v100: duplicate entry"),
        ("nodes: [", ":1:9", "not valid YAML"),
    ],
)
def test_errors_in_a_fleet_file_have_line_and_column(tmp_path: Path, text: str, place: str, sentence: str) -> None:
    (file := tmp_path / "fleet.yaml").write_text(text, "utf-8")
    with pytest.raises(InputError) as error:
        fleet_of(str(file))
    assert str(error.value).startswith(f"{file}{place}: ")
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("fleet", "nodes", "found"),
    [
        (DEFAULT, 10, dict(DEFAULT)),
        (DEFAULT, 5000, dict.fromkeys(DEFAULT, 1000)),
        (DEFAULT, 2, {"dgx1-v100": 1, "v100-pcie": 1}),
        ({"dgx1-v100": 1, "p40-share": 3}, 400, {"dgx1-v100": 100, "p40-share": 300}),
        ({"dgx1-v100": 1, "p40-share": 99}, 10, {"dgx1-v100": 1, "p40-share": 9}),
        ({"dgx1-v100": 1, "p40-share": 1, "mi300": 1}, 4, {"dgx1-v100": 2, "p40-share": 1, "mi300": 1}),
    ],
)
def test_nodes_keep_the_proportions_of_the_fleet(fleet: dict[str, int], nodes: int, found: dict[str, int]) -> None:
    assert spread(fleet, nodes) == found


# what to type next


@pytest.mark.parametrize("machine", [*PROFILES, *MODES])
def test_the_suggested_example_fits_on_the_cluster(machine: str) -> None:
    looked, applied, asked = next_steps({machine: 1})
    assert looked == "linkwise get nodes"
    if not applied.startswith("linkwise example "):
        assert (applied, asked) == (f"linkwise topo node/{machine}-0", f"linkwise explain node/{machine}-0")
        return
    pods = list(yaml.safe_load_all(example(applied.split()[2])))

    @embedded({machine: 1})
    async def placed(cluster: ClusterUnderTest) -> None:
        for pod in pods:
            cluster.store.create("pods", pod, "default")
        for pod in pods:
            assert (await cluster.placed(pod["metadata"]["name"])).devices

    placed()


def test_a_mixed_cluster_suggests_a_pair_first() -> None:
    assert next_steps({"p40-share": 1, "dgx1-v100": 1})[1:] == [
        "linkwise example link-pair | linkwise apply -f -",
        "linkwise explain pod/link-pair",
    ]


@pytest.mark.parametrize("width", [25, 40, 72, 120])
def test_no_name_is_truncated_in_a_narrow_terminal(width: int) -> None:
    console = Console(width=width, file=StringIO())
    with console.capture() as shown:
        console.print(welcome(DEFAULT, {"service": "http://127.0.0.1:1"}, Path("config"), 0.1, width), crop=False)
    for name in (*DEFAULT, "nvidia.com/gpu", "koordinator.sh/gpu", "huawei.com/Ascend910", "aliyun.com/gpu-mem"):
        assert name in shown.get()
    typed = [line for line in shown.get().splitlines() if line.startswith("  linkwise")]
    assert [line.strip() for line in typed] == next_steps(DEFAULT)


# how it is reached


def test_a_program_outside_of_path_gets_a_path_hint(tmp_path: Path) -> None:
    hidden = path_hint(str(tmp_path / "it's" / "linkwise"), None)
    assert hidden == [f"""export PATH='{tmp_path}/it'"'"'s':"$PATH\""""]
    assert path_hint(str(tmp_path / "linkwise"), "/usr/bin/linkwise") == []
    assert path_hint("/lib/linkwise/__main__.py", None) == []


# the files it writes


def test_a_kubeconfig_exists_while_the_cluster_runs(tmp_path: Path) -> None:
    with written_kubeconfig(file := tmp_path / "config", "{}"):
        assert file.read_text("utf-8") == f"{MARK}{{}}"
        assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == []


def test_a_kubeconfig_that_replaced_it_is_not_removed(tmp_path: Path) -> None:
    with written_kubeconfig(file := tmp_path / "config", "one"), written_kubeconfig(file, "two", force=True):
        file.write_text("another", "utf-8")
    assert file.read_text("utf-8") == "another"


def test_a_foreign_file_is_overwritten_only_with_force(tmp_path: Path) -> None:
    (ours := tmp_path / "ours").write_text(f"{MARK}old", "utf-8")
    (theirs := tmp_path / "theirs").write_text("clusters: []", "utf-8")
    check(ours, force=False)
    check(theirs, force=True)
    with pytest.raises(InputError, match="theirs already exists and was not written by `linkwise up`"):
        check(theirs, force=False)
    with pytest.raises(InputError, match="is a directory"):
        check(tmp_path, force=True)


def test_a_file_in_use_is_overwritten_only_with_force(tmp_path: Path) -> None:
    with written_kubeconfig(file := tmp_path / "config", "one"):
        with pytest.raises(InputError, match="config belongs to another `linkwise up` that is still running"):
            check(file, force=False)
        with pytest.raises(InputError, match="still running"), written_kubeconfig(file, "two"):
            pass
        assert file.read_text("utf-8") == f"{MARK}one"
        with written_kubeconfig(file, "three", force=True):
            assert file.read_text("utf-8") == f"{MARK}three"


def test_a_dangling_link_is_not_overwritten(tmp_path: Path) -> None:
    (link := tmp_path / "config").symlink_to(tmp_path / "not mounted")
    with pytest.raises(InputError, match="config already exists and was not written by `linkwise up`"):
        check(link, force=False)


def test_a_special_file_is_never_overwritten(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "config")
    with pytest.raises(InputError, match="is not a regular file"):
        check(pipe, force=True)


def left_behind(parent: Path, *, age: float) -> Path:
    """The folder of a process that was killed."""
    with scratch_directory(parent) as folder:
        found = parent / f"{folder.name}-left"
        shutil.copytree(folder, found)
    os.utime(found, (found.stat().st_atime, found.stat().st_mtime - age))
    return found


def test_directories_of_killed_processes_are_removed_at_the_next_start(tmp_path: Path) -> None:
    old, young = left_behind(tmp_path, age=100), left_behind(tmp_path, age=0)
    with scratch_directory(tmp_path):
        assert not old.exists()
        assert young.exists()


def test_the_directory_of_a_running_process_is_not_removed(tmp_path: Path) -> None:
    with scratch_directory(tmp_path) as running:
        os.utime(running, (0, 0))
        with scratch_directory(tmp_path):
            assert running.exists()


# how it fails


class Ended(LocalCluster):
    """One of its parts ends by itself."""

    async def failed(self) -> None:
        self.cluster.failed.set()
        await super().failed()


class Failed(LocalCluster):
    """One of its parts fails."""

    async def failed(self) -> None:
        raise ExceptionGroup("parts", [OSError("no more memory")])


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Ended, "a component of the cluster stopped unexpectedly"),
        (Failed, "a component of the cluster failed: OSError: no more memory"),
    ],
)
def test_a_failing_component_stops_the_cluster_with_its_error(kind: type[LocalCluster], sentence: str) -> None:
    up = Up({"dgx1-v100": 1}, SETTINGS)
    with pytest.raises(ClusterError) as error:
        asyncio.run(run_cluster(up, kind(up.fleet, up.service)))
    assert str(error.value) == sentence


def test_an_unwritable_kubeconfig_is_an_input_error(tmp_path: Path) -> None:
    up = Up({"dgx1-v100": 1}, SETTINGS, kubeconfig=tmp_path / "none" / "config")
    with pytest.raises(InputError, match="does not exist"):
        asyncio.run(run_cluster(up, LocalCluster(up.fleet, up.service)))
