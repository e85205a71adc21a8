"""The pages can be built as a website: every link, anchor and picture is resolved, and every page is in the navigation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


def built(root: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Read and check all pages, as `make site` does; only the HTML, which takes longest, is not written."""
    words = ("--quiet", "--fail-on-warning", "--keep-going", "-b", "dummy", "-c", str(ROOT / "docs"), "-d", str(folder))
    command = [sys.executable, "-m", "sphinx", *words, str(root), str(folder / "out")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    done = built(ROOT, tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_broken_link_or_anchor_and_a_page_outside_the_navigation_are_errors(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# A\n## Use\n- [B](b.md)\n- [C](missing.md)\n- [D](b.md#nothing)\n", "utf-8")
    (docs / "b.md").write_text("# B\n## Something\n", "utf-8")
    (docs / "alone.md").write_text("# Alone\n", "utf-8")
    said = built(tmp_path, tmp_path / "out").stderr
    assert "missing.md" in said
    assert "'nothing'" in said
    assert "alone.md: WARNING: document isn't included in any toctree" in said
