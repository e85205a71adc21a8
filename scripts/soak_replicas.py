"""Soak test of several replicas: kills the leader KILLS times around binds and gangs, on a real Kubernetes.

`python scripts/soak_replicas.py 1000 [SEED]` runs the test of `make e2e` that many times longer, and exits with its code. It
does not build Kubernetes: without the programs of `make e2e` it says so and exits with 0.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

from kubernetes import KUBERNETES, unbuilt, uninstalled

ROOT = Path(__file__).parents[1]
TEST = "tests/e2e/test_replicas.py"


def main() -> int:
    """Run the test, if Kubernetes is built."""
    kills, seed = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else str(secrets.randbelow(10**6))
    if unbuilt(KUBERNETES) or uninstalled(KUBERNETES.packages):
        print("soak-replicas: skipped, because Kubernetes is not built; `make e2e` builds it")
        return 0
    print(f"soak-replicas: {kills} kills, seed {seed}")
    variables = {"LINKWISE_E2E": "1", "LINKWISE_E2E_LEADER_KILLS": kills, "LINKWISE_E2E_LEADER_SEED": seed}
    words = ["-p", "no:xdist", "-p", "support.e2e.safety_plugin", "--log-cli-level=INFO", "-k", "killed_around", "-q"]
    command = [sys.executable, "-m", "pytest", TEST, *words]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=False).returncode  # noqa: S603 - pytest


if __name__ == "__main__":
    sys.exit(main())
