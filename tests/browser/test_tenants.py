"""The page of a user with rights in one namespace, opened by `linkwise page`: other namespaces stay hidden."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.browser.scene import scene
from support.browser.tenant import page_of_tenant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.browser.window import Window
    from support.embedded.up_process import TriedCluster

OWN: Final = "vision"
# All answers of the service, as the page gets them, the stream too.
RECORDED: Final = """
window.answers = []
const original = window.fetch
window.fetch = async (...words) => {
  const answer = await original(...words)
  if (!answer.body) return answer
  const [ours, theirs] = answer.body.tee()
  const place = window.answers.push('') - 1
  void (async () => {
    for await (const part of ours.pipeThrough(new TextDecoderStream())) window.answers[place] += part
  })().catch(() => undefined)
  return new Response(theirs, answer)
}
"""


@pytest.fixture(scope="module")
def own_address(cluster: TriedCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with page_of_tenant(cluster, OWN, tmp_path_factory.mktemp("tenant")) as address:
        yield address


def foreign() -> re.Pattern[str]:
    """The names of pods, and the namespaces, that the user may not read."""
    pods = [item["metadata"] for item in scene()["items"] if item["kind"] == "Pod"]
    hidden = {(pod["namespace"], pod["name"].rstrip("0123456789-")) for pod in pods if pod["namespace"] != OWN}
    return re.compile(rf"\b({'|'.join(sorted({word for pair in hidden for word in pair} - {'share'}))})\b")


def said(page: Any) -> str:  # noqa: ANN401 - playwright's
    """All that the page shows, and all that it got."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    return str(page.evaluate("[document.documentElement.outerHTML, ...window.answers].join('\\n')"))


# The addresses of the views that every user has, and something that each shows.
VIEWS: Final = {
    "": "Waiting",
    "nodes/dgx1-v100-01": "dgx1-v100-01",
    "nodes/p40-share-0": "p40-share-0",
    "pods/vision/detect-0": "vision/detect-0",
    "plan": "Where would it go?",
    "usage": "Usage by namespace",
}


@pytest.mark.parametrize("view", VIEWS)
def test_pods_of_other_namespaces_are_named_nowhere(view: str, window: Window, own_address: str) -> None:
    with window() as opened:
        page = opened.page
        page.add_init_script(RECORDED)
        page.goto(own_address + view)
        page.locator(".panel, .single .stage").get_by_role("heading", name=VIEWS[view], exact=True).wait_for()
        page.locator(".skeleton").first.wait_for(state="detached")
        if view == "plan":
            page.get_by_role("button", name="Plan it").click()
            page.locator(".panel .headline").first.wait_for()
        elif view == "":
            page.get_by_role("button", name="Table").click()
            page.get_by_role("row", name="vision/detect-0: devices").first.wait_for()
        everything = said(page)
        assert page.evaluate("window.answers.some((answer) => answer.includes('vision/detect-'))") or view != ""
        assert sorted({found[0] for found in foreign().finditer(everything)}) == []
        assert opened.problems == []


def test_the_page_says_what_is_hidden(window: Window, own_address: str) -> None:
    with window() as opened:
        opened.page.goto(own_address)
        opened.page.get_by_text("Pods of namespaces that your rights do not cover are not named.").wait_for()
        opened.page.get_by_text("Pods are named for vision only; devices of other namespaces are grey.").wait_for()


def test_a_waiting_pod_of_a_tenant_is_explained_without_the_names_of_others(
    window: Window, own_address: str, cluster: TriedCluster
) -> None:
    container = {"name": "a", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    cluster.api().create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "waits", "namespace": OWN, "annotations": {}},
            "spec": {
                "schedulerName": "linkwise-scheduler",
                "nodeSelector": {"kubernetes.io/hostname": "dgx1-v100-02"},
                "containers": [container],
            },
        }
    )
    try:
        with window() as opened:
            page = opened.page
            page.add_init_script(RECORDED)
            page.goto(f"{own_address}pods/{OWN}/waits")
            page.locator(".panel").get_by_role("heading", name="vision/waits", exact=True).wait_for()
            page.get_by_role("heading", name="Who holds the devices").wait_for()
            page.get_by_text("a pod of another namespace").first.wait_for()
            assert sorted({found[0] for found in foreign().finditer(said(page))}) == []
    finally:
        cluster.shell(f"linkwise delete pod/waits -n {OWN}")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (
            "pods/llm/pretrain-0",
            "may not get pod llm/pretrain-0: ask an administrator to grant get on pods in namespace llm",
        ),
        ("groups/llm/pretrain", "may not list pods in namespace llm: ask an administrator to grant list on pods"),
        ("policies", "may not read what concerns all namespaces"),
    ],
)
def test_what_a_tenant_may_not_read_is_refused_with_a_sentence(
    path: str, sentence: str, window: Window, own_address: str
) -> None:
    with window() as opened:
        opened.page.goto(own_address + path)
        opened.page.get_by_role("heading", name="Not permitted").wait_for()
        opened.page.get_by_text(sentence).wait_for()
