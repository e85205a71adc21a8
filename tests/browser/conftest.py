"""A real browser, and `linkwise up` with pods that run and pods that wait."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from shutil import which
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.browser.scene import FLEET, fill
from support.browser.window import View, page_of
from support.embedded.up_process import TriedCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.browser.window import Window

CHROMIUM: Final = which("chromium") or which("chromium-browser")
# Without them, `make browser` has not been run, and no test of this folder can be read.
collect_ignore_glob = [] if CHROMIUM and find_spec("playwright") else ["test_*.py"]

ARGUMENTS: Final = (
    "--no-sandbox",  # tests in containers run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - not installed by `make setup`

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield chromium
        chromium.close()


@pytest.fixture
def window(browser: Any) -> Window:  # noqa: ANN401 - playwright is installed by `make browser` alone
    """Opens a window of a width and a theme."""

    @contextmanager
    def opened(width: int = 1440, theme: str = "light", **options: Any) -> Iterator[View]:  # noqa: ANN401 - playwright's
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, **options)
        page, problems = context.new_page(), []
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        yield View(page, problems)
        context.close()

    return opened


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TriedCluster]:
    """60 nodes of nine kinds, with pods."""
    with TriedCluster(tmp_path_factory.mktemp("cluster"), "--fleet", FLEET) as running:
        fill(running, tmp_path_factory.mktemp("scene"))
        yield running


@pytest.fixture(scope="session")
def address(cluster: TriedCluster) -> str:
    return page_of(cluster)


@pytest.fixture(scope="session")
def axe(root: Path) -> str:
    """The checks of axe-core, from the packages of the page."""
    return (root / "page/node_modules/axe-core/axe.min.js").read_text("utf-8")
