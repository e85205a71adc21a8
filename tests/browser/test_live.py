"""The page follows the cluster, also over a restart of the service, and stays quick with 5,000 nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from support.browser.window import page_of
from support.embedded.up_process import TriedCluster

if TYPE_CHECKING:
    from pathlib import Path

    from support.browser.window import Window

# Milliseconds until the frame after an event is drawn, the slowest of 20.
SLOWEST: Final = """async ([kind, selector]) => {
  const target = document.querySelector(selector)
  const frame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))
  const times = []
  for (let turn = 0; turn < 20; turn += 1) {
    const box = target.getBoundingClientRect()
    const start = performance.now()
    if (kind === 'hover') {
      const at = { clientX: box.left + 40 + 20 * turn, clientY: 400 + 10 * turn, bubbles: true }
      target.dispatchEvent(new PointerEvent('pointermove', at))
    } else {
      target.focus()
      target.value = 'dgx-a100-'.slice(0, 1 + (turn % 9))
      target.dispatchEvent(new Event('input', { bubbles: true }))
    }
    await frame()
    times.push(performance.now() - start)
  }
  return times.sort((a, b) => a - b)
}"""


def test_a_pod_that_starts_appears_without_a_reload(
    window: Window, address: str, cluster: TriedCluster, tmp_path: Path
) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: newcomer, namespace: vision}\nspec:\n"
        "  schedulerName: linkwise-scheduler\n  containers:\n  - name: a\n    image: x\n"
        "    resources: {limits: {amd.com/gpu: '8'}}\n",
        "utf-8",
    )
    with window() as opened:
        page = opened.page
        page.goto(address)
        page.get_by_role("button", name="Table").click()
        page.get_by_role("row", name="mi300-0").wait_for()
        cluster.shell(f"linkwise apply -f {manifest}")
        page.get_by_role("row", name="vision/newcomer: devices 0-7").wait_for()
        cluster.shell("linkwise delete pod/newcomer -n vision")
        page.get_by_role("row", name="vision/newcomer").wait_for(state="detached")


def test_the_page_is_live_again_after_a_restart_of_the_service(window: Window, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with window() as opened:
        page = opened.page
        with TriedCluster(first, "--nodes", "10") as running:
            address = page_of(running)
            page.goto(address)
            page.locator(".live", has_text=re.compile("^live$")).wait_for()
        page.locator(".live", has_text="reconnecting").wait_for()
        port = address.split(":")[2].partition("/")[0]
        with TriedCluster(second, "--nodes", "12", "--port", port):
            page.locator(".live").click()  # now, and not after the backoff
            page.locator(".live", has_text=re.compile("^live$")).wait_for(timeout=60_000)
            page.get_by_role("button", name="Table").click()
            page.get_by_role("cell", name="Node").or_(page.get_by_role("columnheader", name="Node")).first.wait_for()
            assert page.locator("tbody tr").filter(has=page.locator(".mono")).count() >= 12


def test_five_thousand_nodes_answer_at_once(window: Window, tmp_path: Path) -> None:
    with TriedCluster(tmp_path, "--nodes", "5000") as running, window() as opened:
        address = page_of(running)
        page = opened.page
        page.goto(address)
        page.locator(".field").wait_for(timeout=120_000)
        page.locator(".live", has_text=re.compile("^live$")).wait_for(timeout=120_000)
        hover = page.evaluate(SLOWEST, ["hover", ".field"])
        typing = page.evaluate(SLOWEST, ["type", ".search input"])
        # the median, in milliseconds: a machine that runs other tests pauses now and then
        assert hover[len(hover) // 2] < 100, hover
        assert typing[len(typing) // 2] < 100, typing
        assert opened.problems == []
