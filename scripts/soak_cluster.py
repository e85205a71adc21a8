"""Soak test on a real Kubernetes: the tests of `make e2e` that kill programs and let gangs compete, with all their rounds.

`python scripts/soak_cluster.py [KILLS] [SEED]` kills the leader of two replicas KILLS times, a thousand by default, and exits with
the code of pytest. It does not build Kubernetes: without the programs of `make e2e` it says so and exits with 0.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

from kubernetes import KUBERNETES, unbuilt
from packages import uninstalled

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Run the tests, if Kubernetes is built."""
    kills = sys.argv[1] if len(sys.argv) > 1 else "1000"
    seed = sys.argv[2] if len(sys.argv) > 2 else str(secrets.randbelow(10**6))
    if unbuilt(KUBERNETES) or uninstalled(KUBERNETES.packages):
        print("soak-cluster: skipped, because Kubernetes is not built; `make e2e` builds it")
        return 0
    print(f"soak-cluster: {kills} kills of leaders, seed {seed}")
    variables = {"LINKWISE_E2E_LEADER_KILLS": kills, "LINKWISE_E2E_LEADER_SEED": seed}
    environment = {**os.environ, "LINKWISE_E2E": "1", "TEST_PROFILE": "soak", **variables}
    words = ["-p", "no:xdist", "-p", "support.e2e.safety_plugin", "--log-cli-level=INFO", "-m", "soak", "-q"]
    command = [sys.executable, "-m", "pytest", "tests/e2e", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode  # noqa: S603 - pytest


if __name__ == "__main__":
    sys.exit(main())
