"""Configuration of the kubelet: how it aligns devices with NUMA nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.model.numa import SCOPES, TOPOLOGY_POLICIES, NumaAlignment

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["alignment_in"]

FILE: Final = "config.yaml"
"""in the kubelet's folder, where kubeadm and most installers write it"""
_LINE: Final = re.compile(
    r"""(?:^|[{,])[ \t]*["']?(topologyManagerPolicy|topologyManagerScope|cpuManagerPolicy)["']?[ \t]*:[ \t]*["']?([a-z-]{1,40})""",
    re.MULTILINE,
)


def alignment_in(folder: Path) -> NumaAlignment | None:
    """The policies by the configuration file, in YAML or JSON; None if it can't be read.

    A kubelet that is configured by flags, or by a file elsewhere, needs the setting agent.topology_policy.
    """
    try:
        text = (folder / FILE).read_text("utf-8", "replace")
    except OSError:
        return None
    fields = dict(_LINE.findall(text))
    policy = next((each for each in TOPOLOGY_POLICIES if each == fields.get("topologyManagerPolicy", "none")), None)
    scope = next((each for each in SCOPES if each == fields.get("topologyManagerScope", "container")), None)
    static = fields.get("cpuManagerPolicy", "none") == "static"
    return NumaAlignment(policy, scope, static_cpus=static) if policy and scope else None
