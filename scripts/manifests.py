"""Renderer of the manifests that `linkwise manifests all` prints, from the Helm chart; `make manifests` runs it.

python scripts/manifests.py             with the program helm on the PATH, or the one that HELM names
"""

import os
import sys
from pathlib import Path
from typing import Final

from linkwise.config.installation import FILE
from support.chart_manifests import rendered_manifests

TARGET: Final = Path(__file__).resolve().parents[1] / "src/linkwise/config" / FILE


def main() -> int:
    """Write the package data; exit code 1 if Helm is missing or refuses the chart."""
    try:
        text = rendered_manifests(os.environ.get("HELM", "helm"))
    except (OSError, ValueError) as error:
        print(f"manifests: {error}", file=sys.stderr)
        return 1
    TARGET.write_text(text, "utf-8")
    print(f"wrote {TARGET.relative_to(Path.cwd()) if TARGET.is_relative_to(Path.cwd()) else TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
