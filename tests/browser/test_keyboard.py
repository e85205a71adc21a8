"""The page without a mouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.browser.window import Window


def test_search_opens_a_pod_and_escape_goes_back_to_the_cluster(window: Window, address: str) -> None:
    with window() as opened:
        page = opened.page
        page.goto(address)
        page.get_by_role("application", name="Nodes and their devices").wait_for()
        page.keyboard.press("/")
        page.keyboard.type("sweep-3")
        page.get_by_role("option", name="research/sweep-3").wait_for()
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="research/sweep-3", exact=True).wait_for()
        assert page.url == f"{address}pods/research/sweep-3"
        page.keyboard.press("Escape")
        page.get_by_role("heading", name="Waiting", exact=True).first.wait_for()
        assert page.url == address
        page.go_back()
        page.get_by_role("heading", name="research/sweep-3", exact=True).wait_for()


def test_arrow_keys_walk_over_the_nodes_and_say_what_they_hold(window: Window, address: str) -> None:
    with window() as opened:
        page = opened.page
        page.goto(address)
        field = page.get_by_role("application", name="Nodes and their devices")
        field.focus()
        spoken = page.locator("p[aria-live]")
        spoken.get_by_text("mi300-0, AMD Instinct MI300X").wait_for()
        page.keyboard.press("ArrowRight")
        spoken.get_by_text("mi300-1,").wait_for()
        page.keyboard.press("Shift+ArrowRight")
        spoken.get_by_text("mi300-1, device 0").wait_for()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="mi300-0", exact=True).wait_for()


def test_the_table_says_the_same_as_the_picture(window: Window, address: str) -> None:
    with window() as opened:
        page = opened.page
        page.goto(address)
        page.get_by_role("button", name="Table").click()
        row = page.get_by_role("row", name="dgx1-v100-01")
        assert "8 / 8" in row.inner_text()
        assert "llm/pretrain" in row.inner_text()


def test_the_theme_is_remembered(window: Window, address: str) -> None:
    with window() as opened:
        page = opened.page
        page.goto(address)
        page.get_by_role("button", name="Switch to the dark theme").click()
        page.reload()
        page.get_by_role("button", name="Switch to the light theme").wait_for()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
