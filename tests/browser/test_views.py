"""Every view at three widths in both themes: nothing in the console, nothing wider than the window, nothing for axe."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from support.browser.window import Window

VIEWS = {
    "": "Waiting",
    "nodes/dgx1-v100-01": "dgx1-v100-01",
    "nodes/hgx-h100-0": "hgx-h100-0",
    "nodes/atlas-800-0": "atlas-800-0",
    "nodes/a100-bridged-0": "a100-bridged-0",
    "nodes/p40-share-0": "p40-share-0",
    "nodes/mi300-0": "mi300-0",
    "pods/research/sweep-3": "research/sweep-3",
    "pods/research/too-many": "research/too-many",
    "pods/research/wide-eval": "research/wide-eval",
    "pods/serving/gated": "serving/gated",
    "groups/llm/pretrain": "group llm/pretrain",
    "groups/llm/moe": "group llm/moe",
    "plan": "Where would it go?",
    "usage": "Usage by namespace",
    "policies": "Policies",
}


LOOKS = [(width, theme) for width in (1440, 1024, 390) for theme in ("light", "dark")]
PICTURES = "dist/browser"
"""of every view, for people to look at"""
AXE = """axe.run({resultTypes: ['violations']})
  .then(({ violations }) => violations.map(({ id, nodes }) => [id, nodes[0].html]))"""
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_clean_at_all_widths_in_both_themes(
    view: str, window: Window, address: str, axe: str, root: Path
) -> None:
    pictures = root / PICTURES
    pictures.mkdir(parents=True, exist_ok=True)
    with window(bypass_csp=True, reduced_motion="reduce") as opened:  # axe needs eval
        page = opened.page
        page.goto(address + view)
        page.locator(".panel, .single .stage").get_by_role("heading", name=VIEWS[view], exact=True).wait_for()
        page.locator(".skeleton").first.wait_for(state="detached")
        if view == "plan":
            page.get_by_role("button", name="Plan it").click()
            page.get_by_text("on the picture").wait_for()
        page.evaluate(axe)
        page.evaluate("document.fonts.ready")
        for width, theme in LOOKS:
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=theme)
            page.evaluate(DRAWN)
            page.screenshot(path=pictures / f"{view.replace('/', '-') or 'cluster'}-{width}-{theme}.png")
            page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
            peek = page.get_by_role("button", name="waiting, and what still fits")
            if peek.is_visible():
                peek.click()
                page.screenshot(path=pictures / f"waiting-{width}-{theme}.png")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (width, theme)
            assert page.evaluate(AXE) == [], (width, theme)
            page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = false })")
        assert opened.problems == []


def test_the_policy_of_the_service_allows_all_that_the_page_does(window: Window, address: str) -> None:
    with window() as opened:
        opened.page.goto(f"{address}nodes/dgx1-v100-01")
        opened.page.get_by_role("heading", name="Bandwidth between pairs, GB/s").wait_for()
        opened.page.get_by_role("link", name="Plan").click()
        opened.page.get_by_role("button", name="Plan it").click()
        opened.page.get_by_text("on the picture").wait_for()
        assert opened.problems == []


def test_an_address_that_does_not_exist_says_so(window: Window, address: str) -> None:
    with window() as opened:
        opened.page.goto(f"{address}no/such")
        opened.page.get_by_role("heading", name="There is no such page").wait_for()


def test_a_name_that_does_not_exist_says_so(window: Window, address: str) -> None:
    with window() as opened:
        opened.page.goto(f"{address}pods/llm/nothing")
        opened.page.get_by_role("heading", name="Pod llm/nothing does not exist").wait_for()


def test_a_mistake_in_a_manifest_is_marked_at_its_line(window: Window, address: str) -> None:
    with window() as opened:
        page = opened.page
        page.goto(f"{address}plan")
        limits = "resources: {limits: {nvidia.com/gpu: two}}"
        page.get_by_label("Manifest").fill(
            f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  containers:\n  - name: a\n    {limits}\n"
        )
        page.keyboard.press("Control+Enter")
        page.get_by_role("button", name="line 7").wait_for()
        assert page.locator(".gutter .wrong").inner_text().strip() == "7"


def test_an_expired_token_says_how_to_go_on(window: Window, address: str) -> None:
    with window() as opened:
        opened.page.route("**/v1/page/stream*", lambda route: route.fulfill(status=401, body="token expired"))
        opened.page.goto(address)
        opened.page.get_by_role("heading", name="The session has expired").wait_for()
        assert "linkwise page" in opened.page.get_by_role("main").inner_text()


def test_a_service_that_is_not_the_leader_is_quoted(window: Window, address: str) -> None:
    with window() as opened:
        sentence = "this replica is not the leader"
        opened.page.route("**/v1/page/stream*", lambda route: route.fulfill(status=503, body=sentence))
        opened.page.goto(address)
        opened.page.get_by_text("This replica is not the leader.").wait_for()


def test_a_stream_that_breaks_off_is_read_again(window: Window, address: str) -> None:
    broken = ['event: cluster\ndata: {"version": "1", "nodes": [\n\n', "", "event: change"]
    with window() as opened:
        page = opened.page

        def answer(route: Any) -> None:  # noqa: ANN401 - playwright's
            if broken:
                route.fulfill(content_type="text/event-stream", body=broken.pop())
            else:
                route.continue_()

        page.route("**/v1/page/stream*", answer)
        page.goto(address)
        page.get_by_role("heading", name="The cluster is not available right now").wait_for()
        page.get_by_role("application", name="Nodes and their devices").wait_for()
        page.locator(".live", has_text=re.compile("^live$")).wait_for()
        assert opened.problems == []


def test_an_unreadable_stream_says_so(window: Window, address: str) -> None:
    with window() as opened:
        page = opened.page
        body = "event: cluster\ndata: {\n\n"
        page.route("**/v1/page/stream*", lambda route: route.fulfill(content_type="text/event-stream", body=body))
        page.goto(address)
        page.get_by_text("The service sent something that the page cannot read. The page tries again.").wait_for()


def test_a_printed_page_has_the_picture_and_the_details_and_no_controls(window: Window, address: str) -> None:
    with window(theme="dark") as opened:
        page = opened.page
        page.goto(f"{address}pods/research/too-many")
        page.get_by_role("heading", name="What would let it start").wait_for()
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.get_by_role("heading", name="What would let it start").is_visible()
        assert page.locator(".field canvas").is_visible()
        for control in (".top", ".tools", ".close", ".peek"):
            assert not page.locator(control).first.is_visible(), control
        page.evaluate(DRAWN)
        for place in ("html", ".card", ".panel"):
            background = page.evaluate(f"getComputedStyle(document.querySelector('{place}')).backgroundColor")
            assert background == "rgb(255, 255, 255)", place
