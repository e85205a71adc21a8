"""The pod of a process, by the forms in which container runtimes and kubelets name it."""

from __future__ import annotations

import pytest

from linkwise.node.usage import ContainerOwner, owner_by_cgroup, owner_by_mounts

UID = "3f0a51c4-9d2b-4d0e-a2a4-5d5a1b2c3d4e"
LOW = UID.replace("-", "_")
BOX = "0123456789abcdef" * 4
STATIC = "d5f1c7c0a6b24bd0a9e8d3c1b2a39485"


@pytest.mark.rule("002.usage")
@pytest.mark.parametrize(
    "text",
    [
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{LOW}.slice/cri-containerd-{BOX}.scope",
        f"0::/kubepods.slice/kubepods-pod{LOW}.slice/crio-{BOX}.scope",
        f"0::/kubepods.slice/kubepods-pod{LOW}.slice/crio-{BOX}.scope/container",
        f"0::/kubepods/besteffort/pod{UID}/{BOX}",
        f"0::/../../kubepods-burstable.slice/kubepods-burstable-pod{LOW}.slice/cri-containerd-{BOX}.scope",
        f"0::/../../pod{UID}/{BOX}",
        f"0::/system.slice/containerd.service/kubepods-burstable-pod{LOW}.slice:cri-containerd:{BOX}",
        f"0::/docker/{'f' * 64}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{LOW}.slice/docker-{BOX}.scope",
        f"12:pids:/kubepods/burstable/pod{UID}/{BOX}\n11:cpu,cpuacct:/kubepods/burstable/pod{UID}/{BOX}\n0::/",
        f"2:cpuset:/\n1:name=systemd:/kubepods.slice/kubepods-pod{LOW}.slice/docker-{BOX}.scope",
    ],
)
def test_a_cgroup_names_the_pod_and_the_container(text: str) -> None:
    assert owner_by_cgroup(f"{text}\n") == ContainerOwner(UID, BOX)


def test_a_static_pod_has_a_uid_without_hyphens() -> None:
    assert owner_by_cgroup(f"0::/kubepods/burstable/pod{STATIC}/{BOX}") == ContainerOwner(STATIC, BOX)


def test_the_innermost_pod_counts() -> None:
    outer = UID.replace("3", "7")
    text = f"0::/kubepods/pod{outer}/{'e' * 64}/kubepods/pod{UID}/{BOX}"
    assert owner_by_cgroup(text) == ContainerOwner(UID, BOX)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0::/",
        "0::/user.slice/user-0.slice/session-1.scope",
        f"0::/k8s.io/{BOX}",
        f"0::/tripod{UID}/x",
        f"0::/kubepods/pod{UID}0/{BOX}",
        "0::/kubepods/pod../x",
        "\x00\xff:::::\n::\n",
    ],
)
def test_a_process_of_the_host_belongs_to_no_pod(text: str) -> None:
    assert owner_by_cgroup(text) is None


def mount(root: str, target: str) -> str:
    return f"612 598 254:1 {root} {target} rw,relatime - ext4 /dev/vda1 rw\n"


@pytest.mark.rule("002.usage")
@pytest.mark.parametrize(
    ("root", "target"),
    [
        (f"/var/lib/kubelet/pods/{UID}/etc-hosts", "/etc/hosts"),
        (f"/pods/{UID}/containers/main/1a2b3c4d", "/dev/termination-log"),
    ],
)
def test_files_of_the_kubelet_name_the_pod_of_a_container(root: str, target: str) -> None:
    assert owner_by_mounts(mount("/", "/proc") + mount(root, target)) == ContainerOwner(UID)


@pytest.mark.parametrize(
    "text",
    [
        "",
        mount(f"/var/lib/kubelet/pods/{UID}/volumes/kubernetes.io~empty-dir/x", "/data"),
        mount("/etc/hosts", "/etc/hosts"),
        mount("/var/lib/kubelet/pods/..", "/etc/hosts"),
        "garbage\n1 2 3\n",
    ],
)
def test_other_mounts_name_no_pod(text: str) -> None:
    assert owner_by_mounts(text) is None
