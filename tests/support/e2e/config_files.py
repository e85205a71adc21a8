"""Configuration files of the test cluster: users, keys, kubeconfigs, the configuration of the scheduler."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = [
    "AGENT",
    "NODE",
    "OWN_USERS",
    "RESOURCES",
    "USERS",
    "User",
    "kubeconfig",
    "scheduler_configuration",
    "service_account_key",
    "token_file",
    "write_json",
]

RESOURCES: Final = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "huawei.com/Ascend910",
    "aliyun.com/gpu-mem",
    "koordinator.sh/gpu",
    "koordinator.sh/gpu-core",
    "koordinator.sh/gpu-memory",
    "koordinator.sh/gpu-memory-ratio",
)
"""what pods ask the extender for"""


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who knows a token."""

    name: str
    token: str
    groups: tuple[str, ...] = ()


def _user(name: str, *groups: str) -> User:
    return User(name, secrets.token_hex(16), groups)


USERS: Final[Mapping[str, User]] = {
    "admin": _user("admin", "system:masters"),
    "scheduler": _user("system:kube-scheduler"),
    "controllers": _user("system:kube-controller-manager"),
    "linkwise": _user("linkwise"),
    "tenant": _user("tenant"),
}
"""by the word that tests use; Kubernetes itself gives its components' users their roles, the last two have none"""

NODE: Final = "real-node"
"""the node that has a kubelet"""
AGENT: Final = "linkwise-agent"
"""the user of its agent"""
OWN_USERS: Final[Mapping[str, User]] = {
    **USERS,
    "node": _user(f"system:node:{NODE}", "system:nodes"),
    "agent": _user(AGENT),
    "proxy": _user("system:kube-proxy"),
    # What Volcano may do is decided by Volcano's own roles, which are no subject of these tests.
    "volcano": _user("volcano", "system:masters"),
}
"""users of a cluster of our own; no test may act as a node in an external one"""


def token_file(path: Path, users: Iterable[User]) -> Path:
    """Tokens as the API server reads them."""
    lines = [f'{user.token},{user.name},{user.name},"{",".join(user.groups)}"' for user in users]
    path.write_text("\n".join([*lines, ""]))
    path.chmod(0o600)
    return path


def service_account_key(path: Path) -> Path:
    """A new key to sign tokens of service accounts with: P-256, from which readers work out the public half."""
    number = (secrets.randbelow(2**255) + 1).to_bytes(32, "big")
    curve = bytes.fromhex("a00a06082a8648ce3d030107")
    inner = bytes.fromhex("0201010420") + number + curve
    body = base64.b64encode(bytes([0x30, len(inner)]) + inner).decode()
    kind = "EC PRIVATE KEY"
    path.write_text(f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n")
    path.chmod(0o600)
    return path


def kubeconfig(path: Path, server: str, token: str = "", certificate: Path | None = None) -> Path:
    """How one user reaches the API server."""
    trust = {"certificate-authority": str(certificate)} if certificate else {}
    return write_json(
        path,
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": server, **trust}}],
            "users": [{"name": path.stem, "user": {"token": token} if token else {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": path.stem}}],
            "current-context": "test",
        },
    )


def scheduler_configuration(  # noqa: PLR0913 - a builder: every field has a default
    kubeconfig: Path,
    extender: str = "",
    *,
    names: Iterable[str] = ("default-scheduler",),
    resources: Iterable[str] = RESOURCES,
    timeout: str = "5s",
    weight: int = 5,
) -> dict[str, object]:
    """A KubeSchedulerConfiguration; with our extender at an address such as http://127.0.0.1:8080 if one is given."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False},
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": name} for name in names],
        "extenders": [_extender(extender, resources, timeout, weight)] if extender else [],
    }


def _extender(address: str, resources: Iterable[str], timeout: str, weight: int) -> dict[str, object]:
    return {
        "urlPrefix": address,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "bindVerb": "bind",
        "preemptVerb": "preempt",
        "weight": weight,
        "httpTimeout": timeout,
        "nodeCacheCapable": True,
        "ignorable": False,
        "managedResources": [{"name": name, "ignoredByScheduler": False} for name in resources],
    }


def write_json(path: Path, document: object) -> Path:
    """A document in a file, for programs that read YAML."""
    path.write_text(json.dumps(document, indent=1))
    path.chmod(0o600)
    return path
