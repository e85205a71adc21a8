"""The page follows the cluster, also over a restart of the service, and stays quick with 5,000 nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from support.browser.main_thread import Tasks
from support.browser.window import page_of
from support.embedded.up_process import TriedCluster

if TYPE_CHECKING:
    from pathlib import Path

    from support.browser.window import Window

LIVE: Final = re.compile("^live$")
FRAME: Final = "const frame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))"
HOVER: Final = f"""async () => {{
  {FRAME}
  const field = document.querySelector('.field')
  for (let turn = 0; turn < 20; turn += 1) {{
    const box = field.getBoundingClientRect()
    const at = {{ clientX: box.left + 40 + 20 * turn, clientY: 400 + 10 * turn, bubbles: true }}
    field.dispatchEvent(new PointerEvent('pointermove', at))
    await frame()
  }}
}}"""
TYPE: Final = f"""async () => {{
  {FRAME}
  const input = document.querySelector('.search input')
  input.focus()
  for (let turn = 0; turn < 20; turn += 1) {{
    input.value = 'dgx-a100-'.slice(0, 1 + (turn % 9))
    input.dispatchEvent(new Event('input', {{ bubbles: true }}))
    await frame()
  }}
  input.value = ''
  input.dispatchEvent(new Event('input', {{ bubbles: true }}))
}}"""
# Lets a test add events to the stream, between those of the service, and cut it.
OPENED: Final = """
const original = window.fetch
window.fetch = async (...words) => {
  const answer = await original(...words)
  if (!answer.ok || !String(words[0]).includes('/page/stream')) return answer
  const { readable, writable } = new TransformStream()
  const writer = writable.getWriter()
  const decoder = new TextDecoder()
  let whole = true
  window.add = (text) => whole && writer.write(new TextEncoder().encode(text))
  window.cut = () => writer.close()
  void (async () => {
    for await (const part of answer.body) {
      whole = decoder.decode(part, { stream: true }).endsWith('\\n\\n')
      await writer.write(part)
    }
  })().catch(() => undefined)
  return new Response(readable, answer)
}
"""
# Pods come and go on nodes of the cluster, 200 changes per second for five seconds; the last one has a figure of its own.
STORM: Final = """async () => {
  const { nodes } = await (await fetch(new URL('../v1/page/cluster', document.baseURI))).json()
  const send = (change) => window.add('event: change\\ndata: ' + JSON.stringify({ version: 'storm', at: '', ...change }) + '\\n\\n')
  let sent = 0
  const began = performance.now()
  while (sent < 1000) {
    await new Promise((resolve) => setTimeout(resolve, 20))
    for (const due = Math.min(1000, (performance.now() - began) / 5); sent < due; sent += 1) {
      const node = nodes[(sent * 37) % nodes.length]
      const held = sent % 3 ? [{ pod: `storm/pod-${sent}`, group: '', state: 'bound', devices: [0, 1, 2, 3] }] : []
      send({ nodes: [{ ...node, held }] })
    }
  }
  const totals = { devices: 40000, inUse: 12345, idle: 27655, reserved: 0, unusable: 0, waitingPods: 0 }
  while (!send({ totals })) await new Promise((resolve) => setTimeout(resolve, 20))
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
            page.locator(".live", has_text=LIVE).wait_for()
        page.locator(".live", has_text="reconnecting").wait_for()
        port = address.split(":")[2].partition("/")[0]
        with TriedCluster(second, "--nodes", "12", "--port", port):
            page.locator(".live").click()  # now, and not after the backoff
            page.locator(".live", has_text=LIVE).wait_for(timeout=60_000)
            page.get_by_role("button", name="Table").click()
            page.get_by_role("cell", name="Node").or_(page.get_by_role("columnheader", name="Node")).first.wait_for()
            assert page.locator("tbody tr").filter(has=page.locator(".mono")).count() >= 12


def test_what_is_shown_stays_when_the_session_ends_and_says_since_when(window: Window, address: str) -> None:
    with window() as opened:
        page = opened.page
        page.add_init_script(OPENED)
        page.clock.install()
        page.goto(address)
        page.get_by_role("button", name="Table").click()
        page.locator(".live", has_text=LIVE).wait_for()
        page.route("**/v1/page/stream*", lambda route: route.fulfill(status=401, body="token expired"))
        page.evaluate("window.cut()")
        page.locator(".live", has_text="reconnecting").wait_for()
        page.clock.fast_forward(11_000)
        page.locator(".live", has_text=re.compile(r"^stale since \d\d:\d\d:\d\d$")).wait_for()
        page.get_by_role("alert").get_by_text(
            "The session has expired, and this picture is no longer updated."
        ).wait_for()
        assert page.get_by_role("row", name="dgx1-v100-01").is_visible()


def test_five_thousand_nodes_answer_at_once(browser: Any, window: Window, tmp_path: Path) -> None:  # noqa: ANN401 - playwright's
    with TriedCluster(tmp_path, "--nodes", "5000") as running, window() as opened:
        page = opened.page
        page.set_default_timeout(120_000)
        page.add_init_script(OPENED)
        # CPU time of the page's own thread: a machine that runs other tests does not lengthen it as it does pauses
        with Tasks(browser, page) as painting:
            page.goto(page_of(running))
            page.locator(".field canvas").wait_for()
            page.locator(".live", has_text=LIVE).wait_for()
            page.evaluate(f"async () => {{ {FRAME}; await frame() }}")
        assert sum(painting.milliseconds) < 2000, painting.longest
        with Tasks(browser, page) as hovering:
            page.evaluate(HOVER)
        assert hovering.longest < 100
        with Tasks(browser, page) as filtering:
            page.evaluate(TYPE)
        assert filtering.longest < 100
        with Tasks(browser, page) as storm:
            page.evaluate(STORM)
            page.get_by_text("12,345").first.wait_for()
        assert storm.longest < 200
        page.get_by_text("storm", exact=True).wait_for()  # in the legend
        assert opened.problems == []


def test_a_pod_that_vanishes_while_it_is_shown_leaves_its_last_state_and_a_way_on(
    window: Window, address: str, cluster: TriedCluster, tmp_path: Path
) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: brief, namespace: vision}\nspec:\n"
        "  schedulerName: linkwise-scheduler\n  containers:\n  - name: a\n    image: x\n"
        "    resources: {limits: {amd.com/gpu: '2'}}\n",
        "utf-8",
    )
    cluster.shell(f"linkwise apply -f {manifest}")
    with window() as opened:
        page = opened.page
        page.goto(f"{address}pods/vision/brief")
        page.get_by_text("Pod vision/brief has devices 0, 1 on node").wait_for()
        cluster.shell("linkwise delete pod/brief -n vision")
        page.get_by_text("Pod vision/brief is gone since").wait_for()
        assert page.get_by_text("Pod vision/brief has devices 0, 1 on node").is_visible()
        page.get_by_role("button", name="Close the details").click()
        page.get_by_role("heading", name="Waiting", exact=True).first.wait_for()
