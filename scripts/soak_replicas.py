"""Soak test of several replicas on a real Kubernetes: kills the leader KILLS times around binds and gangs, then restarts it in place.

`python scripts/soak_replicas.py 1000 [SEED]` runs tests of `make e2e` that many times longer, and exits with the code of the first
that fails. It does not build Kubernetes: without the programs of `make e2e` it says so and exits with 0.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

from kubernetes import KUBERNETES, unbuilt, uninstalled  # type: ignore[import-not-found] # beside this file

ROOT = Path(__file__).parents[1]
TESTS = {
    "tests/e2e/test_replicas.py": "killed_around",
    "tests/e2e/test_install_lifecycle.py": "restarts_at_its_address",
}
"""by file, words of the names of its tests"""
RESTARTS = "20"
"""of the leader's container in its pod, with the times of the chart; each takes half a minute"""


def main() -> int:
    """Run the test, if Kubernetes is built."""
    kills, seed = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else str(secrets.randbelow(10**6))
    if unbuilt(KUBERNETES) or uninstalled(KUBERNETES.packages):
        print("soak-replicas: skipped, because Kubernetes is not built; `make e2e` builds it")
        return 0
    print(f"soak-replicas: {kills} kills, seed {seed}")
    variables = {"LINKWISE_E2E": "1", "LINKWISE_E2E_LEADER_KILLS": kills, "LINKWISE_E2E_LEADER_SEED": seed}
    variables["LINKWISE_E2E_LEADER_RESTARTS"] = RESTARTS
    words = ["-p", "no:xdist", "-p", "support.e2e.safety_plugin", "--log-cli-level=INFO", "-q"]
    for file, names in TESTS.items():
        command = [sys.executable, "-m", "pytest", file, *words, "-k", names]
        code = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=False).returncode  # noqa: S603 - pytest
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
