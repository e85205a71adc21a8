"""Every view at three widths in both themes: nothing in the console, nothing wider than the window, nothing for axe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
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
    "groups/llm/pretrain": "group llm/pretrain",
    "groups/llm/moe": "group llm/moe",
    "plan": "Where would it go?",
    "usage": "Usage by namespace",
    "policies": "Policies",
}


LOOKS = [(width, theme) for width in (1440, 1024, 390) for theme in ("light", "dark")]


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_clean(view: str, look: tuple[int, str], window: Window, address: str, axe: str) -> None:
    with window(*look, bypass_csp=True) as opened:  # axe needs eval
        page = opened.page
        page.goto(address + view)
        if look[0] == 390 and view == "":
            page.get_by_role("button", name="waiting, and what still fits").click()
        page.locator(".panel, .single .stage").get_by_role("heading", name=VIEWS[view], exact=True).wait_for()
        page.locator(".skeleton").first.wait_for(state="detached")
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.evaluate(axe)
        found = page.evaluate(
            "axe.run().then((result) => result.violations.map(({ id, nodes }) => [id, nodes[0].html]))"
        )
        assert found == []
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
